package main

import (
	"math"
	"testing"
)

func TestMedian(t *testing.T) {
	tests := []struct {
		values []float64
		want   float64
	}{
		{[]float64{3}, 3},
		{[]float64{9, 1, 2}, 2},
		{[]float64{4, 1, 100, 2}, 3},
	}
	for _, test := range tests {
		if got := median(test.values); got != test.want {
			t.Errorf("median(%v) = %v, want %v", test.values, got, test.want)
		}
	}
	if got := median(nil); !math.IsNaN(got) {
		t.Errorf("median of nothing: %v", got)
	}
}

// took returns samples of rounds 1, 2, … with these seconds.
func took(seconds ...float64) []Sample {
	var samples []Sample
	for i, s := range seconds {
		samples = append(samples, Sample{Round: i + 1, Seconds: s})
	}
	return samples
}

func TestRatioIsTakenWithinRounds(t *testing.T) {
	// The machine is ten times slower in rounds 2 and 3.
	ours, theirs := took(1, 10, 10, 1, 1), took(2, 20, 20, 2, 2)
	if got := ratio(ours, theirs, seconds); got != 0.5 {
		t.Errorf("ratio %v, want 0.5", got)
	}
	if got := ratio(ours[:2], theirs[3:], seconds); !math.IsNaN(got) {
		t.Errorf("ratio of different rounds: %v", got)
	}
	steps := []Sample{{Round: 1, Step: 2, Seconds: 6}, {Round: 1, Step: 3, Seconds: 2}}
	if got := ratio(steps, []Sample{{Round: 1, Step: 3, Seconds: 1}}, seconds); got != 2 {
		t.Errorf("ratio of step 3: %v, want 2", got)
	}
}

func TestBest(t *testing.T) {
	a := &Result{Tool: "a", Samples: took(1, 9, 9)}
	b := &Result{Tool: "b", Samples: took(5, 5, 5)}
	none := &Result{Tool: "none", Samples: took(0)}
	if got := best([]*Result{none, a, b}, seconds); got != b {
		t.Errorf("best is %v, want b", got)
	}
	if got := best([]*Result{none}, seconds); got != nil {
		t.Errorf("best of nothing is %v", got)
	}
}

func TestMedianSample(t *testing.T) {
	got := medianSample([]Sample{
		{Seconds: 1, User: 9, Peak: 100, Stored: 7}, {Seconds: 2, User: 8, Peak: 300, Stored: 7}, {Seconds: 3, User: 1, Peak: 200, Stored: 7},
	})
	if want := (Sample{Seconds: 2, User: 8, Peak: 200, Stored: 7}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestAnd(t *testing.T) {
	got := Sample{Seconds: 1, User: 2, System: 3, Background: 1, Peak: 50}.and(Sample{Seconds: 10, User: 20, System: 30, Peak: 40})
	if want := (Sample{Seconds: 11, User: 22, System: 33, Background: 1, Peak: 50}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

package main

import (
	"math"
	"strings"
	"testing"
)

// exampleReport returns a report of two rounds of kist and two other tools on one set.
func exampleReport() *Report {
	r := &Report{
		Version: reportVersion, Rounds: 2, Machine: Machine{CPU: "Abacus", Cores: 2, Memory: 8 << 30},
		Tools: []Program{{kistTool, "1.0", ""}, {"restic", "0.18.1", ""}, {"git", "2.39", "gc.auto=0"}},
		Sets:  []Set{{"many", "20,000 text files", 20_000, 40 * mib}},
	}
	for round, slow := range []float64{1, 10} {
		sample := func(seconds float64, peak, stored int64) Sample {
			return Sample{Round: round + 1, Seconds: seconds * slow, Peak: peak * mib, Stored: stored * mib}
		}
		r.add("many", workFirst, floorTool, sample(0.1, 0, 0))
		r.add("many", workFlush, floorTool, sample(0.3, 0, 0))
		r.add("many", workFirst, kistTool, sample(1, 60, 20))
		r.add("many", workFirst, "restic", sample(4, 80, 25))
		r.add("many", workFirst, "git", sample(8, 30, 80))
		r.add("many", workUnchanged, kistTool, sample(0.1, 20, 20))
		r.add("many", workChanged, kistTool, sample(0.2, 20, 21))
		r.add("many", workStatus, kistTool, sample(0.04, 20, 0))
		r.add("many", workStatus, "git", sample(0.05, 20, 0))
	}
	return r
}

// A figure of zero is shown as 0, not as missing.
func TestGoalOfNothing(t *testing.T) {
	r := &Report{Sets: []Set{{Name: "wide"}}}
	for _, work := range []string{workUnchanged, workChanged} {
		r.add("wide", work, kistTool, Sample{Round: 1, Stored: mib})
	}
	if got := goalTable(r); !strings.Contains(got, "| KiB 0 |") {
		t.Errorf("got:\n%s", got)
	}
}

func TestSetTable(t *testing.T) {
	want := `|  | kist | restic | git | floor | kist / best other |
|---|---:|---:|---:|---:|---:|
| first version, s | 5.50 | 22.0 | 44.0 | 0.55 | 0.25 × restic |
| — writing as much, flushed, s |  |  |  | 1.65 |  |
| — peak memory, MiB | 60.0 | 80.0 | 30.0 |  | 2.00 × git |
| no change, s | 0.55 |  |  |  |  |
| status, s | 0.22 |  | 0.28 |  | 0.80 × git |
| after the change, s | 1.10 |  |  |  |  |
| stored, MiB | 20.0 | 25.0 | 80.0 |  | 0.80 × restic |
| added by the change, MiB | 1.00 |  |  |  |  |
`
	if got := setTable(exampleReport(), "many"); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if got := setTable(exampleReport(), "media"); got != notMeasured {
		t.Errorf("a set that was not measured: %q", got)
	}
}

func TestReleaseTable(t *testing.T) {
	r := &Report{Tools: []Program{{Name: kistTool}, {Name: "git"}}, Sets: []Set{{Name: setVersions}}}
	for _, tool := range r.Tools {
		r.add(setVersions, workFirst, tool.Name, Sample{Round: 1, Step: 1, Seconds: 1, Stored: 10 * mib})
		for step := 2; step <= 4; step++ {
			r.add(setVersions, workNext, tool.Name, Sample{Round: 1, Step: step, Seconds: float64(step), Stored: int64(10*step) * mib})
		}
	}
	got := setTable(r, setVersions)
	for _, want := range []string{"| each next one, s | 3.00 | 3.00 |", "| stored after the last, MiB | 40.0 | 40.0 |", "| stored after the first, MiB | 10.0 |"} {
		if !strings.Contains(got, want) {
			t.Errorf("no line %q in\n%s", want, got)
		}
	}
}

func TestGoalTable(t *testing.T) {
	got := goalTable(exampleReport())
	for _, want := range []string{
		"| first version | ≤ 0.5 × the fastest peer | many 0.25 |",
		"≤ git status | status of many 0.80, **backup of many 2.00** |",
		"| version after one change among many files | ≤ 1.5 × status | **many 5.00** |",
		"| clone from a server | ≤ 0.7 × the fastest restore | – |",
		"| memory, up to 200,000 files | ≤ 256 MiB | MiB 60.0 |",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

// A goal compares the rounded figure, as the table shows it.
func TestGoalIsReachedByRounding(t *testing.T) {
	for stored, want := range map[int64]string{10_040: "| many 1.00 |", 10_100: "| **many 1.01** |"} {
		r := &Report{}
		r.add("many", workFirst, kistTool, Sample{Round: 1, Stored: stored})
		r.add("many", workFirst, "borg", Sample{Round: 1, Stored: 10_000})
		if got := goalTable(r); !strings.Contains(got, "≤ the smallest peer "+want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

func TestGrowth(t *testing.T) {
	r := exampleReport()
	r.Sets = append(r.Sets, Set{Name: filesPrefix + "1000", Files: 1000})
	r.add(filesPrefix+"1000", workFirst, kistTool, Sample{Seconds: 0.1, Peak: 30 * mib})
	c := filesCurve(r, workFirst)
	if len(c.Points) != 2 || c.Points[0].X != 1000 || c.Points[1].X != 20_000 {
		t.Errorf("points %+v", c.Points)
	}
	for n := 1; n <= 6; n++ {
		r.point(curveHistory, workCommit, "commits", Point{n, Sample{Seconds: float64(n)}})
	}
	if got := growth(workCommit)(r); got != 2.5 { // 4, 5, 6 beside 1, 2, 3
		t.Errorf("growth %v, want 2.5", got)
	}
	if got := growthTable(r); !strings.Contains(got, "| commit, 6 commits | 6.00 |") || !strings.Contains(got, "| first, 1,000 files | 0.10 |") {
		t.Errorf("table\n%s", got)
	}
}

func TestNumber(t *testing.T) {
	tests := []struct {
		v    float64
		want string
	}{
		{0, ""}, {math.NaN(), ""}, {0.0123, "0.012"}, {0.0996, "0.10"}, {1.234, "1.23"}, {9.96, "10.0"}, {99.6, "100"}, {12345.6, "12,346"}, {-2, "-2.00"},
	}
	for _, test := range tests {
		if got := number(test.v); got != test.want {
			t.Errorf("number(%v) = %q, want %q", test.v, got, test.want)
		}
	}
	if got := byteSize(1536 * 1024); got != "1.5 MiB" {
		t.Errorf("1.5 MiB is %q", got)
	}
}

package main

import "testing"

func TestPercentFor(t *testing.T) {
	for _, test := range []struct {
		live uint64
		want int
	}{{0, 1200}, {1 << 20, 1200}, {24 << 20, 200}, {48 << 20, 100}, {96 << 20, 50}, {240 << 20, 20}, {320 << 20, 15}, {1 << 40, 15}} {
		if got := percentFor(test.live); got != test.want {
			t.Errorf("percentFor(%d) = %d, want %d", test.live, got, test.want)
		}
	}
}

package kist

import "testing"

func TestEditDistance(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want int // 3: more than the limit of 2
	}{
		{"main", "main", 0}, {"mian", "main", 1}, {"man", "main", 1}, {"maain", "main", 1}, {"mxin", "main", 1}, {"amin", "main", 1},
		{"mnia", "main", 2}, {"main", "topic", 3}, {"", "ab", 2}, {"", "abc", 3}, {"\u00e9t\u00e9", "\u00e9te", 1}, {"a", "b", 1}, {"", "", 0},
	} {
		if got := EditDistance(test.a, test.b, 2); got != test.want {
			t.Errorf("%q, %q: %d, want %d", test.a, test.b, got, test.want)
		}
		if got := EditDistance(test.b, test.a, 2); got != test.want {
			t.Errorf("%q, %q: %d, want %d", test.b, test.a, got, test.want)
		}
	}
}

package keys

import "testing"

func TestSet(t *testing.T) {
	const n = 130
	s := NewSet(n)
	in := map[int]bool{0: true, 63: true, 64: true, 100: true, n - 1: true}
	for i := range in {
		s.Add(i)
		s.Add(i)
	}
	for i := range n {
		if s.Has(i) != in[i] {
			t.Errorf("Has(%d) = %t, want %t", i, s.Has(i), in[i])
		}
	}
}

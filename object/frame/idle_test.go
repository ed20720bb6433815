package frame

import (
	"runtime"
	"testing"
)

// TestIdle checks that idle keeps maxIdle values, also across garbage collections.
func TestIdle(t *testing.T) {
	made := 0
	p := idle[*int]{make: func() *int { made++; return new(int) }}
	var taken []*int
	for range maxIdle + 4 {
		taken = append(taken, p.get())
	}
	for _, x := range taken {
		p.put(x)
	}
	runtime.GC()
	runtime.GC()
	for range maxIdle {
		p.get()
	}
	if made != maxIdle+4 {
		t.Errorf("%d values were made, want %d: idle lost some", made, maxIdle+4)
	}
	if p.get(); made != maxIdle+5 {
		t.Errorf("%d values were made, want %d: idle kept too many", made, maxIdle+5)
	}
}

package frame

import (
	"runtime"
	"testing"
)

// What is idle outlives garbage collections, and only so many are kept.
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
		t.Errorf("%d were made though %d were idle, want %d", made, maxIdle, maxIdle+4)
	}
	if p.get(); made != maxIdle+5 {
		t.Errorf("%d were made, want %d: more were kept than are to be", made, maxIdle+5)
	}
}

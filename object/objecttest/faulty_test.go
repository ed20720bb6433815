package objecttest

import (
	"context"
	"errors"
	"testing"

	"github.com/kist-vcs/kist/object"
)

func TestFaulty(t *testing.T) {
	ctx := context.Background()
	own := errors.New("own error")
	putN := func(f *Faulty, n int) (results []error) {
		for i := range n {
			_, err := f.Put(ctx, object.KindChunk, []byte{byte(i)})
			results = append(results, err)
		}
		return results
	}
	tests := []struct {
		name   string
		fault  Fault
		failed string // which of six puts failed
		stored int
	}{
		{"first", Fault{Op: Put, N: 1}, "x.....", 5},
		{"third before", Fault{Op: Put, N: 3}, "..x...", 5},
		{"third after", Fault{Op: Put, N: 3, After: true}, "..x...", 6},
		{"fourth and on", Fault{Op: Put, N: 4, Stays: true}, "...xxx", 3},
		{"fourth and on, after", Fault{Op: Put, N: 4, Stays: true, After: true}, "...xxx", 6},
		{"of another method", Fault{Op: Get, N: 1, Stays: true}, "......", 6},
		{"of any method", Fault{Op: Any, N: 2, Err: own}, ".x....", 5},
	}
	for _, test := range tests {
		m := NewMemory()
		f := NewFaulty(m)
		f.Fail(test.fault)
		var failed []byte
		for _, err := range putN(f, 6) {
			if err == nil {
				failed = append(failed, '.')
				continue
			}
			failed = append(failed, 'x')
			if want := test.fault.Err; want == nil && err != ErrFault || want != nil && err != want {
				t.Errorf("%s: error %v", test.name, err)
			}
		}
		if string(failed) != test.failed || m.Len() != test.stored {
			t.Errorf("%s: failed %s, stored %d; want %s, %d", test.name, failed, m.Len(), test.failed, test.stored)
		}
		if f.Calls(Put) != 6 || f.Calls(Any) != 6 || f.Calls(Get) != 0 {
			t.Errorf("%s: counted %d, %d, %d calls", test.name, f.Calls(Put), f.Calls(Any), f.Calls(Get))
		}
		f.Heal()
		for i, err := range putN(f, 6) {
			if err != nil {
				t.Errorf("%s: healed, put %d gave %v", test.name, i, err)
			}
		}
	}
}

// Faults count from when they are added, and reads can fail too.
func TestFaultyReads(t *testing.T) {
	ctx := context.Background()
	f := NewFaulty(NewMemory())
	id, _ := f.Put(ctx, object.KindChunk, []byte("data"))
	key := object.Key{Kind: object.KindChunk, ID: id}
	f.Fail(Fault{Op: Get, N: 2})
	f.Fail(Fault{Op: Missing, N: 1, After: true})
	if data, err := f.Get(ctx, key); err != nil || string(data) != "data" {
		t.Errorf("first get: %q, %v", data, err)
	}
	if data, err := f.Get(ctx, key); err != ErrFault || data != nil {
		t.Errorf("second get: %q, %v", data, err)
	}
	if missing, err := f.Missing(ctx, []object.Key{{Kind: object.KindTree}}); err != ErrFault || missing != nil {
		t.Errorf("missing: %v, %v", missing, err)
	}
	// The store's own errors come through a fault that strikes after.
	f.Fail(Fault{Op: Get, N: 1, After: true})
	if _, err := f.Get(ctx, object.Key{Kind: object.KindTree}); !errors.Is(err, object.ErrNotFound) {
		t.Errorf("get of an absent object: %v", err)
	}
}

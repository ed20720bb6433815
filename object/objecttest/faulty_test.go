package objecttest

import (
	"cmp"
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
		failed string // x for each failed put of six
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
				t.Errorf("%s: error %v, want %v", test.name, err, cmp.Or(want, ErrFault))
			}
		}
		if string(failed) != test.failed || m.Len() != test.stored {
			t.Errorf("%s: failed %s, stored %d; want %s, %d", test.name, failed, m.Len(), test.failed, test.stored)
		}
		if f.Calls(Put) != 6 || f.Calls(Any) != 6 || f.Calls(Get) != 0 {
			t.Errorf("%s: %d calls of Put, %d of any method, %d of Get; want 6, 6, 0", test.name, f.Calls(Put), f.Calls(Any), f.Calls(Get))
		}
		f.Heal()
		for i, err := range putN(f, 6) {
			if err != nil {
				t.Errorf("%s: put %d after Heal: %v", test.name, i, err)
			}
		}
	}
}

// TestFaultyReads checks that reads can fail too, and that faults count calls from the time
// when they are added.
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
		t.Errorf("second get: %q, %v; want ErrFault", data, err)
	}
	if missing, err := f.Missing(ctx, []object.Key{{Kind: object.KindTree}}); err != ErrFault || missing != nil {
		t.Errorf("missing: %v, %v; want ErrFault", missing, err)
	}
	// A fault after the call does not replace an error of the store.
	f.Fail(Fault{Op: Get, N: 1, After: true})
	if _, err := f.Get(ctx, object.Key{Kind: object.KindTree}); !errors.Is(err, object.ErrNotFound) {
		t.Errorf("get of an absent object: %v, want ErrNotFound", err)
	}
}

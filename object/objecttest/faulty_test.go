package objecttest

import (
	"testing"

	"github.com/kist-vcs/kist/object"
)

// TestFaulty checks that exactly the chosen calls fail, and that they count from the call of Fail.
func TestFaulty(t *testing.T) {
	m := NewMemory()
	f := NewFaulty(m)
	put := func(n int) (failed string) {
		for i := range n {
			switch _, err := f.Put(t.Context(), object.KindChunk, []byte{byte(i), byte(n)}); err {
			case nil:
				failed += "."
			case ErrFault:
				failed += "x"
			default:
				t.Fatal(err)
			}
		}
		return failed
	}
	f.Fail(Put, 3)
	if got := put(6); got != "..x..." || m.Len() != 5 {
		t.Errorf("calls %s, %d objects; want ..x..., 5", got, m.Len())
	}
	f.Fail(Put, 1)
	f.Fail(Get, 2)
	f.Fail(Missing, 1)
	if got := put(2); got != "x." || f.Calls(Put) != 8 || f.Calls(Get) != 0 {
		t.Errorf("calls %s, %d of Put, %d of Get; want x., 8, 0", got, f.Calls(Put), f.Calls(Get))
	}

	key := object.Key{Kind: object.KindChunk, ID: object.Sum([]byte{0, 6})}
	if data, err := f.Get(t.Context(), key); err != nil || len(data) != 2 {
		t.Errorf("first get: %q, %v", data, err)
	}
	if data, err := f.Get(t.Context(), key); err != ErrFault || data != nil {
		t.Errorf("second get: %q, %v; want ErrFault", data, err)
	}
	if missing, err := f.Missing(t.Context(), []object.Key{key}); err != ErrFault || missing != nil {
		t.Errorf("missing: %v, %v; want ErrFault", missing, err)
	}
}

package frame

import (
	"bytes"
	"errors"
	"testing"

	"github.com/kist-vcs/kist/object"
)

func TestSize(t *testing.T) {
	e := NewEncoder(Fastest)
	for _, data := range [][]byte{{}, []byte("short"), bytes.Repeat([]byte("compressible "), 1000), make([]byte, 1<<20)} {
		if n, err := Size(e.Append(nil, data)); err != nil || n != len(data) {
			t.Errorf("Size = %d, %v; want %d", n, err, len(data))
		}
	}
	for _, value := range [][]byte{nil, {3}, {2}, {1}, {1, 2, 3, 4, 5, 6}} {
		var bad *Error
		if _, err := Size(value); !errors.As(err, &bad) || !errors.Is(err, object.ErrCorrupt) {
			t.Errorf("Size(%v): %v, want ErrCorrupt", value, err)
		}
	}
}

package volume

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/kist-vcs/kist/object"
)

// TestLend lends many objects at once: each has its bytes for as long as they
// are used.
func TestLend(t *testing.T) {
	ctx := context.Background()
	s := openStore(t, t.TempDir(), testOptions(t))
	key, _ := sample(1, 0)
	var absent *object.NotFoundError
	if err := s.Lend(ctx, key, func([]byte) error { panic("called") }); !errors.As(err, &absent) || absent.Key != key {
		t.Errorf("of nothing: %v", err)
	}
	storeSeries(t, s, 1, 0, 100)
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() {
			for i := range 100 {
				key, want := sample(1, i)
				other, _ := sample(1, (i+9)%100) // of the same size
				err := object.Lend(ctx, s, key, func(data []byte) error {
					return object.Lend(ctx, s, other, func([]byte) error {
						if !bytes.Equal(data, want) {
							t.Errorf("object %d: %d bytes, want %d", i, len(data), len(want))
						}
						return nil
					})
				})
				if err != nil {
					t.Errorf("object %d: %v", i, err)
				}
			}
		})
	}
	workers.Wait()
	mine := errors.New("mine")
	if err := s.Lend(ctx, key, func([]byte) error { return mine }); err != mine {
		t.Errorf("error %v, want that of the use", err)
	}
	over, cancel := context.WithCancel(ctx)
	cancel()
	if err := s.Lend(over, key, func([]byte) error { panic("called") }); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

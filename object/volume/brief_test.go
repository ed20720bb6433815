package volume

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/kist-vcs/kist/object"
)

// TestGetBriefly checks that the bytes stay valid while they are used, in nested and concurrent
// calls.
func TestGetBriefly(t *testing.T) {
	ctx := context.Background()
	s := openStore(t, t.TempDir(), testOptions(t))
	key, _ := sample(1, 0)
	var absent *object.AbsentError
	if err := s.GetBriefly(ctx, key, func([]byte) error { panic("called") }); !errors.As(err, &absent) || absent.Key != key {
		t.Errorf("read a missing object: %v, want a NotFoundError with its key", err)
	}

	storeSeries(t, s, 1, 0, 100)
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() {
			for i := range 100 {
				key, want := sample(1, i)
				other, _ := sample(1, (i+9)%100) // of the same size
				err := object.GetBriefly(ctx, s, key, func(data []byte) error {
					return object.GetBriefly(ctx, s, other, func([]byte) error {
						if !bytes.Equal(data, want) {
							t.Errorf("read object %d: %d wrong bytes, want %d", i, len(data), len(want))
						}
						return nil
					})
				})
				if err != nil {
					t.Errorf("read object %d: %v", i, err)
				}
			}
		})
	}

	workers.Wait()
	failed := errors.New("use failed")
	if err := s.GetBriefly(ctx, key, func([]byte) error { return failed }); err != failed {
		t.Errorf("read: %v, want the error of use", err)
	}

	over, cancel := context.WithCancel(ctx)
	cancel()
	if err := s.GetBriefly(over, key, func([]byte) error { panic("called") }); !errors.Is(err, context.Canceled) {
		t.Errorf("read with a cancelled context: %v", err)
	}
}

package transfer

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/frame"
	"github.com/kist-vcs/kist/remote/pack"
)

// Rescue takes single objects from the remote, those of keys that it has, whole,
// and calls take with the stored value of each (package object/frame), which was
// verified, and the number of bytes of the object. Calls do not overlap; value
// must not be kept. What the remote lacks, or has only damaged, it passes over,
// and warns of the latter. The error is one of reaching the remote, or of take.
func (r *Remote) Rescue(ctx context.Context, keys []object.Key, take func(key object.Key, value []byte, raw int) error) error {
	snap, err := r.snapshot(ctx)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	return parallel(ctx, r.o.Jobs, len(keys), func(ctx context.Context, i int) error {
		value, e, err := snap.rescue(ctx, keys[i])
		if err != nil || value == nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		return take(keys[i], value, int(e.Raw))
	})
}

// readWhole returns a stored value of the object of e that is no patch, verified.
func (s *snapshot) readWhole(ctx context.Context, e pack.Entry) ([]byte, error) {
	value, data, err := s.readValue(ctx, e)
	if err == nil && frame.IsNear(value) {
		value = frame.NewEncoder(frame.Default).Append(nil, data)
	}
	return value, err
}

// rescue returns the stored value of an object from the first place where it is
// whole, nil if there is none.
func (s *snapshot) rescue(ctx context.Context, key object.Key) (value []byte, at pack.Entry, err error) {
	entries, err := s.all(key)
	if err != nil {
		return nil, at, err
	}
	for _, e := range entries {
		value, err := s.readWhole(ctx, e)
		switch {
		case err == nil:
			return value, e, nil
		case !isBad(err) && !errors.Is(err, object.ErrCorrupt):
			return nil, at, fmt.Errorf("read %s: %w", key, err)
		}
		s.r.o.Warn(err.Error())
	}
	return nil, at, nil
}

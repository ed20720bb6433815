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

// Rescue implements [Source]. It warns of damaged copies.
func (r *Remote) Rescue(ctx context.Context, keys []object.Key, take func(key object.Key, value []byte, raw int) error) error {
	snap, err := r.Snapshot(ctx)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	return Parallel(ctx, r.o.Jobs, len(keys), func(ctx context.Context, i int) error {
		value, e, err := snap.RescueValue(ctx, keys[i])
		if err != nil || value == nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		return take(keys[i], value, int(e.Raw))
	})
}

// ReadPlain returns a verified stored value of the object of e that is no patch.
func (s *Snapshot) ReadPlain(ctx context.Context, e pack.Entry) ([]byte, error) {
	value, data, err := s.readValue(ctx, e)
	if err == nil && frame.IsNear(value) {
		value = frame.NewEncoder(frame.Default).Append(nil, data)
	}
	return value, err
}

// RescueValue returns the stored value of an object from the first place where it is intact,
// or nil if there is none. It warns of the damaged places.
func (s *Snapshot) RescueValue(ctx context.Context, key object.Key) (value []byte, at pack.Entry, err error) {
	entries, err := s.EntriesOf(key)
	if err != nil {
		return nil, at, err
	}
	for _, e := range entries {
		value, err := s.ReadPlain(ctx, e)
		switch {
		case err == nil:
			return value, e, nil
		case !IsBadCopy(err) && !errors.Is(err, object.ErrCorrupt):
			return nil, at, fmt.Errorf("read %s: %w", key, err)
		}
		s.r.o.Warn(err.Error())
	}
	return nil, at, nil
}

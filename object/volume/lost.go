package volume

import (
	"context"
	"maps"
	"slices"

	"github.com/kist-vcs/kist/object"
)

// SetLost sets the objects whose loss was accepted. It must not be called while
// the store is in use.
func (s *Store) SetLost(keys []object.Key) {
	s.lost = make(map[object.Key]struct{}, len(keys))
	for _, key := range keys {
		s.lost[key] = struct{}{}
	}
}

// Lost returns the objects whose loss was accepted and that are missing still,
// sorted.
func (s *Store) Lost(ctx context.Context) ([]object.Key, error) {
	if len(s.lost) == 0 {
		return nil, nil
	}
	missing, err := s.Missing(ctx, slices.Collect(maps.Keys(s.lost)))
	slices.SortFunc(missing, object.Key.Compare)
	return missing, err
}

// IsLost implements [object.LossKeeper]. An object that came back is not lost.
func (s *Store) IsLost(key object.Key) bool {
	if _, accepted := s.lost[key]; !accepted {
		return false
	}
	has, err := s.Has(context.Background(), key)
	return err == nil && !has
}

// IsLost implements [object.LossKeeper].
func (s *Session) IsLost(key object.Key) bool { return s.store.IsLost(key) }

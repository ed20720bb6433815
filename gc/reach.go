package gc

import (
	"context"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs/record"
)

// Reach is the set of the objects in a store that some objects reach. It takes two bits for each
// object of the store.
type Reach struct{ live *liveFinder }

// NewReach follows the links of from, except the links that records exclude. It passes over objects that are missing
// or damaged.
func NewReach(ctx context.Context, store *volume.Store, records *record.Effects, from ...object.Key) (*Reach, error) {
	inventory, err := store.Inventory(ctx)
	if err != nil {
		return nil, err
	}
	f := &liveFinder{
		inventory: inventory, objects: store, records: records,
		skipped: map[link]bool{}, young: func(volume.Listed) bool { return false },
	}
	if err := f.addVolumes(ctx); err != nil {
		return nil, err
	}
	for _, key := range from {
		if err := f.addReachable(ctx, key, true); err != nil {
			return nil, err
		}
	}
	return &Reach{f}, nil
}

// Has reports whether an object is in the set. It is not safe for concurrent use.
func (r *Reach) Has(key object.Key) (bool, error) { return r.live.isLive(key) }

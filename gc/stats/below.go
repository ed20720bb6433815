package stats

import (
	"context"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/graph"
	"github.com/kist-vcs/kist/object/volume"
)

// Size is the total of a set of objects, each counted once, in bytes.
type Size struct {
	Content int64 // of the chunks
	Stored  int64 // of the stored values of all objects: compressed, without the overhead of a volume

	Lost []object.Key // missing objects whose loss was accepted; they count nothing
}

// Below returns the size of some objects and of all objects below them. It calls each
// with the size of every object.
func Below(ctx context.Context, store *volume.Store, keys []object.Key, each func(raw int64)) (Size, error) {
	var size Size
	err := graph.Walk(ctx, map[object.Key]bool{}, keys, func(key object.Key) ([]object.Key, error) {
		raw, stored, err := store.StoredSize(ctx, key)
		if err != nil && store.IsLost(key) {
			size.Lost = append(size.Lost, key)
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		each(raw)
		size.Stored += stored
		if !key.Kind.IsNode() {
			size.Content += raw
		}
		return graph.Links(ctx, store, key)
	})
	return size, err
}

package gc

import (
	"context"
	"errors"
	"slices"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/graph"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/remote/transfer"
)

// Evict merges volumes with fewer bytes than smallEvicted if there are manyEvicted.
const (
	smallEvicted = 4 << 20
	manyEvicted  = 16
)

// EvictOptions configure [Evict].
type EvictOptions struct {
	// Remote reads a remote at its present head.
	Remote *transfer.Reader

	// Kept are objects that refs of the remote reach. The remote keeps everything that
	// they reach.
	Kept []object.Key

	// Volumes are the names of the volumes to look at; nil: all, and also the evicted
	// ones. Objects of these that the remote no longer has are forgotten, so that they
	// are missing.
	Volumes []string

	// MergeAfter, if not "", is the name of a volume. Small volumes with later names are
	// merged if there are many, so that a long backup does not leave thousands.
	MergeAfter string

	SingleHost bool // see [volume.MaintainOptions]
}

// Evict removes chunks from the local store that a remote keeps. The store fetches them
// from there when they are read. Nodes stay, so that history can be read without the
// remote. Evict skips volumes of running sessions. The error is [disk.ErrBusy] if another
// process maintains the store.
func Evict(ctx context.Context, store *volume.Store, o EvictOptions) error {
	kept, err := chunksOf(ctx, store, o.Kept)
	if err != nil {
		return err
	}
	sweep, err := store.Sweep(ctx, volume.SweepOptions{MaintainOptions: volume.MaintainOptions{SingleHost: o.SingleHost}})
	if err != nil {
		return err
	}
	defer sweep.Close()

	var volumes []int
	small := map[bool][]int{} // by whether they are evicted
	for i := range sweep.Len() {
		v := sweep.Volume(i)
		switch {
		case v.InUse || v.Gone:
		case o.Volumes == nil || slices.Contains(o.Volumes, v.Name):
			volumes = append(volumes, i)
		case o.MergeAfter != "" && v.Name > o.MergeAfter && v.Bytes < smallEvicted:
			small[v.Evicted] = append(small[v.Evicted], i)
		}
	}

	merge := map[int]bool{}
	for _, list := range small {
		if len(list) < manyEvicted {
			continue
		}
		for _, i := range list {
			volumes = append(volumes, i)
			merge[i] = true
		}
	}

	if err := sweep.Evict(ctx, volumes, merge, func(i int, key object.Key) (bool, error) {
		if !sweep.Volume(i).Evicted && !kept[key.ID] {
			return false, nil
		}
		unkept, err := o.Remote.FindUnkept(ctx, []object.Key{key})
		return len(unkept) == 0, err
	}); err != nil {
		return err
	}
	_, err = sweep.EmptyTrash(ctx)
	return err
}

// chunksOf returns the chunks that objects reach. It passes over objects that are missing
// here, such as the files of an expired commit.
func chunksOf(ctx context.Context, store *volume.Store, objects []object.Key) (map[object.ID]bool, error) {
	chunks, seen := map[object.ID]bool{}, map[object.Key]bool{}
	err := graph.Walk(ctx, seen, objects, func(key object.Key) ([]object.Key, error) {
		links, err := graph.Links(ctx, store, key)
		if errors.Is(err, object.ErrNotFound) {
			return nil, nil
		}
		return slices.DeleteFunc(links, func(link object.Key) bool {
			if link.Kind == object.KindChunk {
				chunks[link.ID] = true
			}
			return link.Kind == object.KindChunk
		}), err
	})
	return chunks, err
}

package transfer

import (
	"context"
	"maps"

	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/keyset"
	"github.com/kist-vcs/kist/remote/rootlog"
)

// KeyUses counts the live packs and index files that are encrypted with the key of each epoch, and their bytes in the
// store. It reads the header of each.
func KeyUses(ctx context.Context, r *Remote) ([]keyset.Use, error) {
	opened, head, err := r.Keyset(ctx)
	if err != nil {
		return nil, err
	}
	snap, err := r.SnapshotAt(ctx, head)
	if err != nil {
		return nil, err
	}
	sizes := map[string]int64{}
	for _, p := range snap.LivePacks() {
		sizes[p.Name.Path()] = remote.StoredSize(r.b, p.Name.Path(), int64(p.Size))
	}
	for _, f := range head.Indexes {
		sizes[f.Name.IndexPath()] = remote.StoredSize(r.b, f.Name.IndexPath(), f.Size)
	}
	names, epochs, err := epochsOf(ctx, r, sizes)
	if err != nil {
		return nil, err
	}
	return opened.Uses(func(yield func(uint32, int64) bool) {
		for i, name := range names {
			if !yield(epochs[i], sizes[name]) {
				return
			}
		}
	})
}

// epochsOf returns the names of files in any order, and the epoch of each.
func epochsOf(ctx context.Context, r *Remote, files map[string]int64) (names []string, epochs []uint32, err error) {
	for name := range maps.Keys(files) {
		names = append(names, name)
	}
	epochs = make([]uint32, len(names))
	err = Parallel(ctx, r.o.Jobs, len(names), func(ctx context.Context, i int) (err error) {
		epochs[i], err = EpochOf(ctx, r, names[i])
		return err
	})
	return names, epochs, err
}

// EpochOf returns the epoch with whose key a pack, index or state file of an encrypted remote was encrypted. It reads the
// header.
func EpochOf(ctx context.Context, r *Remote, name string) (uint32, error) {
	if r.encrypted == nil {
		return 0, rootlog.ErrNotEncrypted
	}
	return r.encrypted.store.EpochOf(ctx, name)
}

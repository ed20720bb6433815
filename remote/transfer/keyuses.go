package transfer

import (
	"context"
	"maps"
	"slices"

	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/keyset"
	"github.com/kist-vcs/kist/remote/rootlog"
)

// KeyUses counts the live packs, index files and state files that are encrypted with the key of each epoch, and their bytes in
// the store. It reads the header of each.
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
	add := func(name string, plain int64) { sizes[name] = remote.StoredSize(r.b, name, plain) }
	for _, p := range snap.LivePacks() {
		add(p.Name.Path(), int64(p.Size))
	}
	for _, f := range head.Indexes {
		add(f.Name.IndexPath(), f.Size)
	}
	for _, f := range head.StateFiles() {
		add(rootlog.StateName(f.Name), f.Size)
	}
	names := slices.Collect(maps.Keys(sizes))
	epochs, err := EpochsOf(ctx, r, names)
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

// EpochsOf returns, for each of some files of an encrypted remote, the epoch with whose key it was encrypted. It
// reads their headers. The error matches [rootlog.ErrNotEncrypted] for a remote in clear.
func EpochsOf(ctx context.Context, r *Remote, names []string) ([]uint32, error) {
	if r.encrypted == nil {
		return nil, rootlog.ErrNotEncrypted
	}
	epochs := make([]uint32, len(names))
	return epochs, Parallel(ctx, r.o.Jobs, len(names), func(ctx context.Context, i int) (err error) {
		epochs[i], err = r.encrypted.store.EpochOf(ctx, names[i])
		return err
	})
}

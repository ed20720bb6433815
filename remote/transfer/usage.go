package transfer

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/pack"
	"github.com/kist-vcs/kist/remote/rootlog"
)

// Usage tells what takes space on a remote.
type Usage struct {
	Packs []PackUse // live ones, by name

	Indexes    int   // index files
	IndexBytes int64 // of them

	// What is to be deleted: packs, index and state files that gc has condemned,
	// and that are still there.
	Condemned      int
	CondemnedBytes int64
}

// PackUse is what of a pack is needed.
type PackUse struct {
	pack.Info
	Objects int // in it

	// Those that refs and holds reach, and that are read from this pack.
	Needed int
	Stored int64 // bytes of their stored values

	Waste int64 // bytes by which a pack of only what is needed would be smaller
}

// Usage finds out what is needed of a remote's packs, as [Remote.PlanGC] does.
// It reads nodes from local, which may be nil, if that has them. Of an object
// that is in several packs, one copy is needed. The error is a [*NeededError] if
// something that is needed is damaged or missing.
func (r *Remote) Usage(ctx context.Context, local object.Reader) (*Usage, error) {
	head, err := r.Head(ctx)
	if err != nil {
		return nil, err
	}
	var u *Usage
	err = r.following(ctx, head, func(head *rootlog.State) error {
		snap, err := r.snapshotAt(ctx, head)
		if err == nil {
			u, err = r.usage(ctx, snap, local)
		}
		return err
	})
	return u, err
}

func (r *Remote) usage(ctx context.Context, snap *snapshot, local object.Reader) (*Usage, error) {
	m, err := newMarker(r, local, r.o.Jobs)
	if err != nil {
		return nil, err
	}
	defer m.close()
	if _, err := m.follow(snap); err != nil {
		return nil, err
	}
	if err := m.update(ctx); err != nil {
		return nil, err
	}
	packs, err := m.usage()
	if err != nil {
		return nil, err
	}
	u := &Usage{Indexes: len(snap.state.Indexes)}
	for _, p := range packs {
		use := PackUse{Info: p.Info, Objects: p.objects, Needed: p.reached, Stored: p.stored, Waste: p.waste()}
		if p.reached == p.objects {
			use.Waste = 0
		}
		u.Packs = append(u.Packs, use)
	}
	for _, f := range snap.state.Indexes {
		u.IndexBytes += f.Size
	}
	return u, r.condemned(ctx, snap, u)
}

// condemned counts what is condemned, and still there.
func (r *Remote) condemned(ctx context.Context, snap *snapshot, u *Usage) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(r.o.Jobs)
	sizes := make(chan int64, len(snap.state.Condemned))
	for name := range snap.state.Condemned {
		group.Go(func() error {
			info, err := r.b.Stat(ctx, name)
			if errors.Is(err, remote.ErrNotFound) {
				return nil
			}
			if err == nil {
				sizes <- info.Size
			}
			return err
		})
	}
	err := group.Wait()
	close(sizes)
	for size := range sizes {
		u.Condemned++
		u.CondemnedBytes += size
	}
	return err
}

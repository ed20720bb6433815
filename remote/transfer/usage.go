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

// Usage is the space that a remote uses.
type Usage struct {
	Packs []PackUse // live ones, by name

	Indexes    int   // index files
	IndexBytes int64 // of these

	// The files that gc has marked for deletion and that still exist: packs, index files
	// and state files.
	Marked      int
	MarkedBytes int64
}

// PackUse is the use of a pack.
type PackUse struct {
	pack.Info
	Objects int // in it

	// The objects that refs and holds reach, and that are read from this pack.
	Needed int
	Stored int64 // bytes of their stored values

	Waste int64 // bytes that a pack of only the reachable objects would save
}

// Usage returns the use of the remote's packs, as [Remote.PlanGC] finds it. It reads nodes
// from local, which may be nil, if that has them. Of an object in several packs, one copy
// is needed. The error is a [*NeededError] if a reachable object is damaged or missing.
func (r *Remote) Usage(ctx context.Context, local object.Reader) (*Usage, error) {
	head, err := r.Head(ctx)
	if err != nil {
		return nil, err
	}
	var u *Usage
	err = r.following(ctx, head, func(head *rootlog.State) error {
		snap, err := r.snapshotAt(ctx, head)
		if err == nil {
			u, err = snap.usage(ctx, local)
		}
		return err
	})
	return u, err
}

func (s *snapshot) usage(ctx context.Context, local object.Reader) (*Usage, error) {
	m, err := newMarker(s.r, local, s.r.o.Jobs)
	if err != nil {
		return nil, err
	}
	defer m.close()
	if _, err := m.follow(s); err != nil {
		return nil, err
	}
	if err := m.update(ctx); err != nil {
		return nil, err
	}
	packs, err := m.usage()
	if err != nil {
		return nil, err
	}
	u := &Usage{Indexes: len(s.state.Indexes)}
	for _, p := range packs {
		use := PackUse{Info: p.Info, Objects: p.objects, Needed: p.reached, Stored: p.stored, Waste: p.waste()}
		if p.reached == p.objects {
			use.Waste = 0
		}
		u.Packs = append(u.Packs, use)
	}
	for _, f := range s.state.Indexes {
		u.IndexBytes += f.Size
	}
	return u, s.countMarked(ctx, u)
}

// countMarked counts the files that are marked for deletion and still exist.
func (s *snapshot) countMarked(ctx context.Context, u *Usage) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(s.r.o.Jobs)
	sizes := make(chan int64, len(s.state.Condemned))
	for name := range s.state.Condemned {
		group.Go(func() error {
			info, err := s.r.b.Stat(ctx, name)
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
		u.Marked++
		u.MarkedBytes += size
	}
	return err
}

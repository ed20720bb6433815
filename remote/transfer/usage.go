package transfer

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"golang.org/x/sync/errgroup"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/pack"
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
	Objects int   // in it
	Stored  int64 // bytes of their stored values

	// Those that refs reach, and that are read from this pack.
	Needed      int
	NeededBytes int64
}

// Waste returns how many bytes of values are not needed.
func (p *PackUse) Waste() int64 { return p.Stored - p.NeededBytes }

// Usage finds out what of a remote's packs its refs need, by reading the nodes
// that they reach. Of an object that is in several packs, one copy is needed.
func (r *Remote) Usage(ctx context.Context) (*Usage, error) {
	for {
		snap, err := r.snapshot(ctx)
		if err != nil {
			return nil, err
		}
		u, err := r.usage(ctx, snap)
		if err == nil || ctx.Err() != nil {
			return u, err
		}
		// What is not live any more may be deleted while we look.
		head, herr := r.Head(ctx)
		if herr != nil || head.Seq == snap.state.Seq {
			return nil, err
		}
	}
}

func (r *Remote) usage(ctx context.Context, snap *snapshot) (*Usage, error) {
	c := &checker{r: r, snap: snap, reached: map[object.Key]bool{}}
	if err := c.closure(ctx); err != nil {
		return nil, err
	}
	if len(c.problems) > 0 {
		return nil, fmt.Errorf("remote: %w", c.problems[0])
	}
	u := &Usage{Indexes: len(snap.state.Indexes)}
	at := map[pack.Name]int{}
	for i, info := range c.livePacks() {
		u.Packs = append(u.Packs, PackUse{Info: info})
		at[info.Name] = i
	}
	for e, err := range snap.entries() {
		if err != nil {
			return nil, err
		}
		k, live := at[e.Pack.Name]
		if !live {
			continue
		}
		p := &u.Packs[k]
		p.Objects++
		p.Stored += int64(e.Stored)
		if _, reached := c.reached[e.Key]; !reached {
			continue
		}
		first, _, err := snap.find(e.Key)
		if err != nil {
			return nil, err
		}
		if first == e {
			p.Needed++
			p.NeededBytes += int64(e.Stored)
		}
	}
	for _, f := range snap.state.Indexes {
		u.IndexBytes += f.Size
	}
	return u, r.condemned(ctx, snap, u)
}

// entries yields what the index files and the root name, also what is in no live
// pack. An entry may come more than once.
func (s *snapshot) entries() iter.Seq2[pack.Entry, error] {
	return func(yield func(pack.Entry, error) bool) {
		for _, p := range s.state.Packs {
			for _, e := range p.Entries {
				if !yield(e, nil) {
					return
				}
			}
		}
		for _, x := range s.indexes {
			for e, err := range x.All() {
				if !yield(e, err) {
					return
				}
			}
		}
	}
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

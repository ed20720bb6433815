package transfer

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/pack"
	"github.com/kist-vcs/kist/remote/retry"
)

const (
	// minGain is the part of what is needed of a pack that must be compressed
	// data, or nodes, for the pack to be worth optimising: of media nothing is to
	// be gained.
	minGain = 0.25

	// Optimised packs are stored anew together with what is new, the smallest
	// first, as long as they have this much together, or this many times as much
	// as that: so what is new can be stored as patches of what they have, and a
	// large remote is not written anew for a few files.
	alwaysAgain = 64 << 20
	againRatio  = 8
)

// chooseOptimised says which packs are to be optimised. It is none if all are that
// are worth it.
func (c *Collection) chooseOptimised(ctx context.Context) error {
	if !c.o.Optimise {
		return nil
	}
	some := slices.DeleteFunc(slices.Clone(c.packs), func(u *usage) bool {
		return u.gain == 0 || float64(u.gain) < minGain*float64(u.stored)
	})
	if err := c.look(ctx, some); err != nil {
		return err
	}
	var again []*usage
	fresh := int64(0)
	for _, u := range some {
		if c.looked[u.Name] {
			again = append(again, u)
			continue
		}
		u.anew = true
		fresh += u.gain
	}
	if fresh == 0 {
		return nil
	}
	slices.SortFunc(again, func(a, b *usage) int {
		return cmp.Or(cmp.Compare(a.stored, b.stored), a.Name.Compare(b.Name))
	})
	left := max(alwaysAgain, againRatio*fresh)
	for _, u := range again {
		if left -= u.stored; left < 0 {
			break
		}
		u.anew = true
	}
	return nil
}

// look finds out which packs are optimised, by their headers, as far as that is
// not known. It reads small packs whole, so that copying needs no further request.
func (c *Collection) look(ctx context.Context, packs []*usage) error {
	var mu sync.Mutex
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(c.o.Jobs)
	for _, u := range packs {
		mu.Lock()
		_, known := c.looked[u.Name]
		mu.Unlock()
		if known {
			continue
		}
		group.Go(func() error {
			var optimised bool
			get := c.r.read
			if u.Size <= wholePack && !c.o.DryRun {
				get = c.marker.nodes.part // all of it, since the live part will be copied
			}
			err := retry.Verified(func() (err error) {
				optimised, err = pack.Optimised(u.Info, func(p []byte, off int64) (int, error) { return get(gctx, u.Info, p, off) })
				get = c.r.read
				return err
			})
			switch {
			case c.mend != nil && (isBad(err) || errors.Is(err, object.ErrCorrupt)):
				optimised, err = true, nil // then each value may be a patch
			case errors.Is(err, object.ErrCorrupt) || errors.Is(err, remote.ErrDamaged):
				err = &NeededError{Err: err}
			}
			mu.Lock()
			defer mu.Unlock()
			c.looked[u.Name] = optimised && err == nil
			return err
		})
	}
	return group.Wait()
}

// countCopied counts a pack that goes after what is needed of it was copied, if
// anything is: to optimised packs, if it is one that is stored anew.
func (st *CollectStats) countCopied(u *usage, anew bool) {
	switch {
	case u.reached == 0:
	case anew:
		st.Optimised++
		st.OptimisedBytes += int64(u.Size)
	default:
		st.Repacked++
	}
}

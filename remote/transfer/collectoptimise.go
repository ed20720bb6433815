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
	// minGain is the share of a pack's live bytes that must be nodes or compressed data.
	// With less, for example with media, repacking gains nothing.
	minGain = 0.25

	// Packs that were repacked before are repacked again together with new ones, the
	// smallest first, up to alwaysAgain bytes, or againRatio times the bytes of the new
	// ones. So new objects can become patches of theirs, and a few new files do not
	// rewrite a large remote.
	alwaysAgain = 64 << 20
	againRatio  = 8
)

// chooseRepacked chooses the packs to store as small as possible: none, if all packs that
// are worth it were repacked before.
func (c *Collection) chooseRepacked(ctx context.Context) error {
	if !c.o.Repack {
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
		u.repack = true
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
		u.repack = true
	}
	return nil
}

// look reads the headers of packs that are not known yet, and notes which packs were
// repacked. It reads small packs in full, so that copying needs no further request.
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

// countCopied counts a pack that is deleted, if its reachable objects were copied. If
// repack is set, they were stored as small as possible.
func (st *CollectStats) countCopied(u *usage, repack bool) {
	switch {
	case u.reached == 0:
	case repack:
		st.Repacked++
		st.RepackedBytes += int64(u.Size)
	default:
		st.Rewritten++
	}
}

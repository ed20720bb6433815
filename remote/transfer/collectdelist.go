package transfer

import (
	"context"
	"errors"
	"sync"

	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/pack"
)

// delist appends a root that forgets files that were marked long ago and are gone. That
// raises the floor. It replaces index files that name such packs (IDX_WITHOUT_DELISTED).
func (c *Collection) delist(ctx context.Context) error {
	gone, err := c.gone(ctx)
	if err != nil {
		return err
	}
	for {
		change := c.r.newChange()
		forgotten := map[string]bool{}
		for _, name := range gone {
			if _, ok := c.snap.state.Condemned[name]; ok {
				change.Delist = append(change.Delist, name)
				forgotten[name] = true
			}
		}
		if len(change.Delist) == 0 {
			return nil
		}
		due := c.snap.dueIndexes(func(name pack.Name) bool { return forgotten[name.Path()] })
		if err := c.describe(ctx, change, due, nil); err != nil {
			return err
		}
		change.Condemn = append(change.Condemn, c.unused()...)
		next, later, err := c.r.append(ctx, c.snap, change)
		switch {
		case err != nil:
			return err
		case next != nil:
			c.stats.Forgotten = len(change.Delist)
			c.noteCondemned(change)
			return c.arrive(ctx, next)
		}
		c.snap = later
		if err := c.claim().Check(c.snap.state, c.snap.live()); err != nil {
			c.dropIndex()
		}
		if c.index == nil {
			c.start = c.snap
		}
	}
}

// gone returns the files that were marked long ago and do not exist.
func (c *Collection) gone(ctx context.Context) (names []string, err error) {
	old, _, err := c.aged(ctx, c.o.ForgetAfter)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	err = parallel(ctx, c.o.Jobs, len(old), func(ctx context.Context, i int) error {
		if c.mayBeThere(old[i]) {
			return nil
		}
		_, err := c.r.b.Stat(ctx, old[i])
		if errors.Is(err, remote.ErrNotFound) {
			mu.Lock()
			names = append(names, old[i])
			mu.Unlock()
			err = nil
		}
		return err
	})
	return names, err
}

package transfer

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/pack"
	"github.com/kist-vcs/kist/remote/rootlog"
)

// claim returns what the next root relies on (RELY_ON_ALL_LIVE, RECHECK_HEAD, HEED_FLOOR).
func (c *Collection) claim() *rootlog.Claim {
	claim := &rootlog.Claim{Live: c.start.live(), Start: c.start.state.Seq, Records: c.start.state.Records, Lost: c.start.state.Lost}
	if c.own != nil {
		for _, p := range c.own.packs {
			claim.Own = append(claim.Own, p.Name.Path())
		}
		claim.HasPacks = len(c.own.packs) > 0
	}
	if c.index != nil {
		claim.Own = append(claim.Own, c.index.Name.IndexPath())
	}
	return claim
}

// condemn appends a root that condemns what is not needed, after what is needed
// of repacked packs was copied.
func (c *Collection) condemn(ctx context.Context) error {
	for {
		if err := c.copyOnce(ctx); err != nil {
			return err
		}
		change, err := c.change(ctx)
		if change == nil || err != nil {
			return err
		}
		next, later, err := c.r.append(ctx, c.snap, change)
		switch {
		case err != nil:
			return err
		case next != nil:
			return c.done(ctx, next, change)
		}
		if err := c.moveTo(ctx, later); err != nil {
			return err
		}
	}
}

// copyOnce copies what is needed of packs that are to be repacked, unless that
// was done, and then looks for the head anew: it took its time.
func (c *Collection) copyOnce(ctx context.Context) error {
	for c.own == nil {
		err := c.copy(ctx)
		if err != nil && !errors.Is(err, remote.ErrNotFound) {
			return err
		}
		if err == nil && len(c.own.packs) == 0 {
			return nil
		}
		head, herr := c.r.Head(ctx)
		switch {
		case herr != nil:
			return herr
		case head.Seq == c.snap.state.Seq:
		case err != nil: // what was marked as copied may not have been
			c.abandon()
			err = c.plan(ctx, head)
		default:
			var snap *snapshot
			if snap, err = c.r.snapshotAt(ctx, head); err == nil {
				err = c.moveTo(ctx, snap)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// change returns what the root that follows snap is to do; nil: nothing.
func (c *Collection) change(ctx context.Context) (*rootlog.Change, error) {
	change := c.r.newChange()
	goes := map[pack.Name]bool{}
	for _, u := range c.packs {
		if u.goes() && c.mend.condemns(u.Name) {
			goes[u.Name] = true
			change.Condemn = append(change.Condemn, u.Name.Path())
		}
	}
	due := c.mend.due(c.snap.state, c.snap.dueIndexes(c.notLive(goes)))
	if err := c.describe(ctx, change, due, goes); err != nil {
		return nil, err
	}
	if c.mend == nil {
		change.Condemn = append(change.Condemn, c.orphans()...)
	}
	change.Condemn = append(change.Condemn, c.unused()...)
	change.Records, change.Lost = c.ended, c.mend.lostAt(c.snap)
	if len(change.Condemn) == 0 && len(change.AddPacks) == 0 && len(change.AddIndexes) == 0 {
		return nil, nil
	}
	return change, nil
}

// notLive returns a function that reports whether a pack is not live after the
// next root, which condemns those that go.
func (c *Collection) notLive(goes map[pack.Name]bool) func(pack.Name) bool {
	return func(name pack.Name) bool {
		_, live := c.snap.packs[name]
		return !live || goes[name]
	}
}

// unused returns those of our own files that we have no use for, and that the root
// does not name: neither as condemned nor, since a repair took them for packs of
// an index file that is lost, as live.
func (c *Collection) unused() []string {
	if len(c.abandoned) == 0 {
		return nil
	}
	known := c.snap.files()
	return slices.DeleteFunc(slices.Clone(c.abandoned), func(name string) bool { return known[name] })
}

// named reports whether a root names packs of our own already, as a repair has it.
func (c *Collection) named(snap *snapshot) bool {
	return c.own != nil && slices.ContainsFunc(c.own.packs, func(p pack.Info) bool {
		_, live := snap.packs[p.Name]
		return live
	})
}

// done notes what a root has done that was appended, which condemns something.
func (c *Collection) done(ctx context.Context, next *rootlog.State, change *rootlog.Change) error {
	st := &c.stats
	for _, u := range c.packs {
		if u.goes() {
			st.Removed += int64(u.objects - u.reached)
			st.countCopied(u, c.own.anew[u.Name])
		}
	}
	st.Written, st.Patches = len(c.own.packs), c.own.patches
	c.noteCondemned(change)
	c.own.close()
	c.own = &copies{}
	return c.arrive(ctx, next)
}

// noteCondemned notes what a root has condemned that was appended.
func (c *Collection) noteCondemned(change *rootlog.Change) {
	c.countCondemned(change.Condemn)
	for _, name := range change.Condemn {
		c.condemned[name] = true
	}
	c.abandoned = nil
}

// arrive has the collection be at a root that it has appended.
func (c *Collection) arrive(ctx context.Context, next *rootlog.State) (err error) {
	if c.index != nil {
		c.index.keep(c.r)
		c.index = nil
	}
	if err := c.r.remember(ctx, next); err != nil {
		c.r.o.Warn(err.Error())
	}
	if c.snap, err = c.r.snapshotAt(ctx, next); err != nil {
		return fmt.Errorf("after root %d was appended: %w", next.Seq, err)
	}
	c.start = c.snap
	return nil
}

// abandon gives up the files that were made and that no root names.
func (c *Collection) abandon() {
	if c.own != nil {
		for _, p := range c.own.packs {
			c.abandoned = append(c.abandoned, p.Name.Path())
		}
		c.own.close()
		c.own = nil
	}
	c.dropIndex()
}

func (c *Collection) dropIndex() {
	if c.index != nil {
		c.abandoned = append(c.abandoned, c.index.Name.IndexPath())
		c.index.close()
		c.index = nil
	}
}

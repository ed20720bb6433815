package collect

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/pack"
	"github.com/kist-vcs/kist/remote/rootlog"
	"github.com/kist-vcs/kist/remote/transfer"
)

// claimOfRoot returns the conditions of the next root (RELY_ON_ALL_LIVE, RECHECK_HEAD,
// HEED_FLOOR).
func (c *Collection) claimOfRoot() *rootlog.Claim {
	claim := &rootlog.Claim{Live: c.start.Live, Start: c.start.State.Seq, Records: c.start.State.Records, Lost: c.start.State.Lost}
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

// markForDeletion copies the reachable objects of the chosen packs, and appends a root that marks
// the garbage for deletion.
func (c *Collection) markForDeletion(ctx context.Context) error {
	for {
		if err := c.copyAndCatchUp(ctx); err != nil {
			return err
		}
		change, err := c.nextChange(ctx)
		if change == nil || err != nil {
			return err
		}
		next, later, err := c.r.AppendRoot(ctx, c.snap, change)
		switch {
		case err != nil:
			return err
		case next != nil:
			return c.countChange(ctx, next, change)
		}
		if err := c.followTo(ctx, later); err != nil {
			return err
		}
	}
}

// copyAndCatchUp copies the reachable objects of the chosen packs, unless that was done. It then
// reads the head again: copying takes time.
func (c *Collection) copyAndCatchUp(ctx context.Context) error {
	for c.own == nil {
		err := c.copyChosen(ctx)
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
		case head.Seq == c.snap.State.Seq:
		case err != nil: // the marked copies may be incomplete
			c.abandonOwn()
			err = c.planFrom(ctx, head)
		default:
			var snap *transfer.Snapshot
			if snap, err = c.r.SnapshotAt(ctx, head); err == nil {
				err = c.followTo(ctx, snap)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// nextChange returns the changes of the root that follows snap, or nil if there are none.
func (c *Collection) nextChange(ctx context.Context) (*rootlog.Change, error) {
	change := c.r.NewChange()
	emptied := map[pack.Name]bool{}
	for _, u := range c.packs {
		if u.isEmptied() && c.mend.mayReplace(u.Name) {
			emptied[u.Name] = true
			change.Condemn = append(change.Condemn, u.Name.Path())
		}
	}
	due := c.mend.dueIndexes(c.snap.State, dueIndexes(c.snap, isGoneAfter(c.snap, emptied)))
	if err := c.nameOwnPacks(ctx, change, due, emptied); err != nil {
		return nil, err
	}
	if c.mend == nil {
		change.Condemn = append(change.Condemn, c.orphanFiles()...)
	}
	change.Condemn = append(change.Condemn, c.unusedFiles()...)
	change.Records, change.Lost = c.ended, c.mend.damage().LostAt(c.snap)
	if len(change.Condemn) == 0 && len(change.AddPacks) == 0 && len(change.AddIndexes) == 0 {
		return nil, nil
	}
	return change, nil
}

// isGoneAfter returns a function that reports whether a pack is not live after the next root,
// which marks the packs in emptied.
func isGoneAfter(s *transfer.Snapshot, emptied map[pack.Name]bool) func(pack.Name) bool {
	return func(name pack.Name) bool { return !s.IsLive(name) || emptied[name] }
}

// unusedFiles returns our own useless files, except files that the root names. It names one if
// it is marked already, or if a repair took it for a pack of a lost index file.
func (c *Collection) unusedFiles() []string {
	if len(c.abandoned) == 0 {
		return nil
	}
	known := filesOf(c.snap)
	return slices.DeleteFunc(slices.Clone(c.abandoned), func(name string) bool { return known[name] })
}

// namedBy reports whether a root names some of the packs already. A repair may have done that.
func (c *copies) namedBy(snap *transfer.Snapshot) bool {
	return c != nil && slices.ContainsFunc(c.packs, func(p pack.Info) bool { return snap.IsLive(p.Name) })
}

// countChange counts the changes of an appended root, and moves to it.
func (c *Collection) countChange(ctx context.Context, next *rootlog.State, change *rootlog.Change) error {
	st := &c.stats
	for _, u := range c.packs {
		if u.isEmptied() {
			st.Removed += int64(u.objects - u.reached)
			st.countCopied(u, c.own.repack[u.Name])
		}
	}
	st.Written, st.Patches = len(c.own.packs), c.own.patches
	c.noteMarked(change)
	c.own.close()
	c.own = &copies{}
	return c.moveToAppended(ctx, next)
}

// noteMarked counts and remembers the files that an appended root marks for deletion.
func (c *Collection) noteMarked(change *rootlog.Change) {
	c.countMarked(change.Condemn)
	for _, name := range change.Condemn {
		c.marked[name] = true
	}
	c.abandoned = nil
}

// moveToAppended moves the collection to a root that it has appended.
func (c *Collection) moveToAppended(ctx context.Context, next *rootlog.State) (err error) {
	if c.index != nil {
		c.index.KeepCopy(c.r.Indexes())
		c.index = nil
	}
	if err := c.r.RememberHead(ctx, next); err != nil {
		c.r.Options().Warn(err.Error())
	}
	if c.snap, err = c.r.SnapshotAt(ctx, next); err != nil {
		return fmt.Errorf("after root %d was appended: %w", next.Seq, err)
	}
	c.start = c.snap
	return nil
}

// abandonOwn gives up our own files that no root names.
func (c *Collection) abandonOwn() {
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
		c.index.Close()
		c.index = nil
	}
}

// forgetGone appends a root that forgets files that were marked long ago and are gone. That
// raises the floor. It replaces index files that name such packs (IDX_WITHOUT_DELISTED).
func (c *Collection) forgetGone(ctx context.Context) error {
	gone, err := c.goneFiles(ctx)
	if err != nil {
		return err
	}

	for {
		change := c.r.NewChange()
		forgotten := map[string]bool{}
		for _, name := range gone {
			if _, ok := c.snap.State.Condemned[name]; ok {
				change.Delist = append(change.Delist, name)
				forgotten[name] = true
			}
		}
		if len(change.Delist) == 0 {
			return nil
		}
		due := dueIndexes(c.snap, func(name pack.Name) bool { return forgotten[name.Path()] })
		if err := c.nameOwnPacks(ctx, change, due, nil); err != nil {
			return err
		}
		change.Condemn = append(change.Condemn, c.unusedFiles()...)
		next, later, err := c.r.AppendRoot(ctx, c.snap, change)
		switch {
		case err != nil:
			return err
		case next != nil:
			c.stats.Forgotten = len(change.Delist)
			c.noteMarked(change)
			return c.moveToAppended(ctx, next)
		}
		c.snap = later
		if err := c.claimOfRoot().Check(c.snap.State, c.snap.Live); err != nil {
			c.dropIndex()
		}
		if c.index == nil {
			c.start = c.snap
		}
	}
}

// goneFiles returns the files that were marked long ago and do not exist.
func (c *Collection) goneFiles(ctx context.Context) ([]string, error) {
	old, _, err := c.markedBefore(ctx, c.o.ForgetAfter)
	if err != nil {
		return nil, err
	}
	old = slices.DeleteFunc(old, c.mayExist)
	sizes, err := sizesOf(ctx, c.r, old)
	return slices.DeleteFunc(old, func(name string) bool { _, there := sizes[name]; return there }), err
}

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

// nextClaim returns the conditions under which the next root may follow a later head (RELY_ON_ALL_LIVE, RECHECK_HEAD,
// HEED_FLOOR).
func (c *Collection) nextClaim() *rootlog.Claim {
	claim := &rootlog.Claim{Live: c.claimSnap.Live, Start: c.claimSnap.State.Seq, Records: c.claimSnap.State.Records, Lost: c.claimSnap.State.Lost}
	if c.newPacks != nil {
		for _, p := range c.newPacks.infos {
			claim.Own = append(claim.Own, p.Name.Path())
		}
		claim.HasPacks = len(c.newPacks.infos) > 0
	}
	claim.Own = append(claim.Own, c.newIndex.Paths()...)
	return claim
}

// condemnGarbage copies the reachable objects of the chosen packs, and appends a root that condemns
// the garbage. It appends none if there is no garbage.
func (c *Collection) condemnGarbage(ctx context.Context) error {
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
	for c.newPacks == nil {
		err := c.copyChosen(ctx)
		if err != nil && !errors.Is(err, remote.ErrNotFound) {
			return err
		}
		if err == nil && len(c.newPacks.infos) == 0 {
			return nil
		}
		head, herr := c.r.Head(ctx)
		switch {
		case herr != nil:
			return herr
		case head.Seq == c.snap.State.Seq:
		case err != nil: // the copies may be incomplete
			c.abandonNewPacks()
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
	for _, p := range c.livePacks {
		if p.isEmptied() && c.repair.mayReplace(p.Name) {
			emptied[p.Name] = true
			change.Condemn = append(change.Condemn, p.Name.Path())
		}
	}
	due, err := c.indexesToReplace(isGoneAfter(c.snap, emptied))
	if err != nil {
		return nil, err
	}
	if err := c.nameNewPacks(ctx, change, due, emptied); err != nil {
		return nil, err
	}
	if c.repair == nil {
		change.Condemn = append(change.Condemn, c.orphanFiles()...)
	}
	change.Condemn = slices.Concat(change.Condemn, c.filesToAbandon(), statesToReplace(c))
	change.Records, change.Lost = c.endedHolds, c.repair.damage().LostAt(c.snap)
	if len(change.Condemn) == 0 && len(change.AddPacks) == 0 && len(change.AddIndexes) == 0 {
		return nil, nil
	}
	return change, nil
}

// isGoneAfter returns a function that reports whether a pack is not live after the next root,
// which condemns the packs in emptied.
func isGoneAfter(s *transfer.Snapshot, emptied map[pack.Name]bool) func(pack.Name) bool {
	return func(name pack.Name) bool { return !s.IsLive(name) || emptied[name] }
}

// filesToAbandon returns the abandoned files, except files that the root names. It names one if
// it is condemned already, or if a repair took it for a pack of a lost index file.
func (c *Collection) filesToAbandon() []string {
	if len(c.abandoned) == 0 {
		return nil
	}
	known := filesOf(c.snap.State, c.snap.Indexes)
	return slices.DeleteFunc(slices.Clone(c.abandoned), func(name string) bool { return known[name] })
}

// areNamedIn reports whether a root names some of the packs already. A repair may have done that.
func (n *newPacks) areNamedIn(snap *transfer.Snapshot) bool {
	return n != nil && slices.ContainsFunc(n.infos, func(p pack.Info) bool { return snap.IsLive(p.Name) })
}

// countChange counts the changes of an appended root, and moves to it.
func (c *Collection) countChange(ctx context.Context, next *rootlog.State, change *rootlog.Change) error {
	st := &c.stats
	for _, p := range c.livePacks {
		if p.isEmptied() {
			st.Removed += int64(p.objectCount - p.reachedCount)
			st.countCopiedPack(p, c.newPacks.isRepacked[p.Name])
		}
	}
	st.Written, st.Patches = len(c.newPacks.infos), c.newPacks.patchCount
	c.noteCondemned(change)
	c.newPacks.close()
	c.newPacks = &newPacks{}
	return c.moveToAppended(ctx, next)
}

// noteCondemned counts and remembers the files that an appended root condemns.
func (c *Collection) noteCondemned(change *rootlog.Change) {
	c.countCondemned(change.Condemn)
	for _, name := range change.Condemn {
		c.condemned[name] = true
	}
	c.abandoned = nil
}

// moveToAppended moves the collection to a root that it has appended.
func (c *Collection) moveToAppended(ctx context.Context, next *rootlog.State) (err error) {
	c.newIndex.KeepCopies(c.r.Indexes())
	c.newIndex = nil
	if err := c.r.RememberHead(ctx, next); err != nil {
		c.r.Options().Warn(err.Error())
	}
	if c.snap, err = c.r.SnapshotAt(ctx, next); err != nil {
		return fmt.Errorf("after root %d was appended: %w", next.Seq, err)
	}
	c.claimSnap = c.snap
	return nil
}

// abandonNewPacks gives up the new packs and the new index file. The next root condemns them.
func (c *Collection) abandonNewPacks() {
	if c.newPacks != nil {
		for _, p := range c.newPacks.infos {
			c.abandoned = append(c.abandoned, p.Name.Path())
		}
		c.newPacks.close()
		c.newPacks = nil
	}
	c.abandonNewIndex()
}

// abandonNewIndex gives up the new index files, if there are any.
func (c *Collection) abandonNewIndex() {
	c.abandoned = append(c.abandoned, c.newIndex.Paths()...)
	c.newIndex.Close()
	c.newIndex = nil
}

// forgetDeleted appends a root that forgets files that were condemned long ago and do not exist.
// That raises the floor. It replaces index files if a quarter of their entries is dead, and remembers the packs that others
// name (IDX_WITHOUT_DELISTED).
func (c *Collection) forgetDeleted(ctx context.Context) error {
	gone, err := c.deletedLongAgo(ctx)
	if err != nil {
		return err
	}

	for {
		due, named, err := namedAfterReplacement(c.snap)
		if err != nil {
			return err
		}
		change := c.r.NewChange()
		for _, name := range gone {
			if _, ok := c.snap.State.Condemned[name]; ok && !named[name] {
				change.Delist = append(change.Delist, name)
			}
		}
		if len(change.Delist) == 0 {
			return nil
		}
		if err := c.nameNewPacks(ctx, change, due, nil); err != nil {
			return err
		}
		change.Condemn = append(change.Condemn, c.filesToAbandon()...)
		next, later, err := c.r.AppendRoot(ctx, c.snap, change)
		switch {
		case err != nil:
			return err
		case next != nil:
			c.stats.Forgotten = len(change.Delist)
			c.noteCondemned(change)
			return c.moveToAppended(ctx, next)
		}
		c.snap = later
		if err := c.nextClaim().Check(c.snap.State, c.snap.Live); err != nil {
			c.abandonNewIndex()
		}
		if c.newIndex == nil {
			c.claimSnap = c.snap
		}
	}
}

// namedAfterReplacement returns the index files to replace, and the paths of the packs that the others name.
func namedAfterReplacement(s *transfer.Snapshot) (due []rootlog.File, named map[string]bool, err error) {
	if due, err = indexesToReplace(s, isGoneAfter(s, nil)); err != nil {
		return nil, nil, err
	}
	named = map[string]bool{}
	for i, f := range s.State.Indexes {
		if slices.ContainsFunc(due, func(d rootlog.File) bool { return d.Name == f.Name }) {
			continue
		}
		for _, p := range s.Indexes[i].PackInfos {
			named[p.Name.Path()] = true
		}
	}
	return due, named, nil
}

// deletedLongAgo returns the files that were condemned long ago and do not exist, except packs that index files name
// that are not to be replaced.
func (c *Collection) deletedLongAgo(ctx context.Context) ([]string, error) {
	old, _, err := c.condemnedBefore(ctx, c.options.ForgetAfter)
	if err != nil {
		return nil, err
	}
	_, named, err := namedAfterReplacement(c.snap)
	if err != nil {
		return nil, err
	}
	old = slices.DeleteFunc(old, func(name string) bool { return named[name] || c.mayExist(name) })
	sizes, err := sizesOf(ctx, c.r, old)
	return slices.DeleteFunc(old, func(name string) bool { _, there := sizes[name]; return there }), err
}

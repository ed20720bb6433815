package kist

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/worktree"
)

// applyOptions say how [Repository.applyOps] goes about it.
type applyOptions struct {
	stage    staging
	session  *volume.Session // holds objects that the operations name; nil: all are published
	progress Progress
	replaces bool // a file is removed if that which is to replace it was purged
	whole    bool // nothing is staged if it is interrupted: it cannot begin again with anything staged

	unchanged []worktree.Refreshed            // files that turned out to be as they are staged
	needs     []object.ID                     // commits that the operations were made of
	edit      func(idx *index.Index) error    // what else happens to the index
	publish   func(ctx context.Context) error // what is published then
}

// staging says what operations on the worktree mean for the index.
type staging uint8

const (
	stageAll  staging = iota // what they make is staged
	stageStat                // it is staged already
	stageNone                // nothing
)

// applyOps carries out ops in the worktree and stages them. It does not look
// whether something is lost.
//
// Paths that cannot be written are in a [*worktree.ApplyError]. All else is
// done then, and these paths are staged like the others, unless the error says
// that it was no use going on: then what was written is staged, or nothing if that
// is asked for, and nothing published.
func (r *Repository) applyOps(ctx context.Context, idx *index.Index, ops []worktree.Op, o applyOptions) error {
	if len(ops)+len(o.unchanged) == 0 && o.edit == nil && o.publish == nil {
		return nil
	}
	source := r.Contents()
	if o.session != nil {
		source = r.unpurged(o.session)
	}
	todo := r.prepare(idx, ops)
	applied, applyErr := r.worktree.Apply(ctx, source, todo, worktree.ApplyOptions{Progress: applyProgress(ops, o.progress)})
	done := applyErr == nil || isPartial(applyErr)
	if !done && o.whole {
		return applyErr
	}
	if failed := (*worktree.ApplyError)(nil); o.replaces && errors.As(applyErr, &failed) {
		if err := r.clearPurged(ctx, idx, todo, failed); err != nil {
			return err
		}
	}
	if done && (applyErr != nil || len(todo) != len(ops)) {
		applied = append(applied, unwritten(ops, applied)...)
		slices.SortFunc(applied, func(a, b worktree.Applied) int { return tree.ComparePaths(a.Path, b.Path) })
	}
	// What was written is staged even if the operation was interrupted.
	ctx = context.WithoutCancel(ctx)
	err := r.publishWith(ctx, o.session, func(ctx context.Context) error {
		if err := r.stillUsable(ctx, o.needs...); err != nil {
			return err
		}
		err := index.Update(ctx, r.dir, func(idx *index.Index) error {
			if err := stageApplied(idx, applied, o.stage); err != nil {
				return err
			}
			noteUnchanged(idx, o.unchanged)
			if o.edit == nil || !done {
				return nil
			}
			return o.edit(idx)
		})
		if err != nil || !done || o.publish == nil {
			return err
		}
		return o.publish(ctx)
	})
	return cmp.Or(err, applyErr)
}

// isPartial reports whether err says that some paths could not be written, but
// all others were.
func isPartial(err error) bool {
	var failed *worktree.ApplyError
	return errors.As(err, &failed) && !failed.Stopped
}

// prepare returns ops as the worktree can carry them out:
//
//   - the folder that the user is in is not removed;
//   - folders that are tracked as read-only, in which something changes, are
//     among them, so that they are made writable and then read-only again.
func (r *Repository) prepare(idx *index.Index, ops []worktree.Op) []worktree.Op {
	stays := func(op worktree.Op) bool { return op.Old == nil && op.New == nil && tree.Below(r.at, op.Path) }
	if r.at != "" && slices.ContainsFunc(ops, stays) {
		ops = slices.DeleteFunc(slices.Clone(ops), stays)
	}
	list := slices.Clip(ops)
	folders := r.readOnlyFolders(idx, ops)
	for _, path := range slices.Sorted(maps.Keys(folders)) {
		list = append(list, worktree.Op{Path: path, New: &object.Entry{Type: object.TypeDir, Mode: folders[path]}})
	}
	return list
}

// readOnlyFolders returns the modes of folders that are tracked as read-only
// and in which ops change something, by their paths, unless there is an
// operation of the folder itself. What the user has in the place of one stays, and
// one that is gone is only made for what is to be in it.
func (r *Repository) readOnlyFolders(idx *index.Index, ops []worktree.Op) map[string]uint16 {
	folders := map[string]uint16{}
	last := ""
	for _, op := range ops {
		path, _ := tree.Split(op.Path)
		if path == last || path == "" {
			continue
		}
		last = path
		if d := idx.Dir(path); d != nil && d.Mode()&0o300 != 0o300 {
			folders[path] = d.Mode()
		}
	}
	if len(folders) == 0 {
		return nil
	}
	made := map[string]bool{} // folders in which something is
	for _, op := range ops {
		if op.Old == nil {
			delete(folders, op.Path)
		}
		if dir, _ := tree.Split(op.Path); op.New != nil {
			made[dir] = true
		}
	}
	maps.DeleteFunc(folders, func(path string, _ uint16) bool {
		info, err := r.worktree.Lstat(path)
		return err == nil && info.Type != object.TypeDir || err != nil && !made[path]
	})
	return folders
}

// unwritten returns the operations that were not carried out as if they were,
// without anything being known of the files.
func unwritten(ops []worktree.Op, applied []worktree.Applied) []worktree.Applied {
	done := make(map[string]bool, len(applied))
	for _, a := range applied {
		done[a.Path] = true
	}
	var rest []worktree.Applied
	for _, op := range ops {
		if done[op.Path] {
			continue
		}
		rest = append(rest, worktree.Applied{Path: op.Path, New: op.New})
	}
	return rest
}

// stageApplied stages what was written to the worktree. It lets go of what it
// has staged: with a million files, both would not be in memory at once.
func stageApplied(idx *index.Index, applied []worktree.Applied, how staging) error {
	if how == stageNone {
		return nil
	}
	// What is gone goes first, and folders after what was in them: one that
	// holds something else stays.
	for _, a := range slices.Backward(applied) {
		if a.New != nil || how != stageAll {
			continue
		}
		if d := idx.Dir(a.Path); d == nil || d.Len() == 0 && len(d.Subdirs()) == 0 {
			idx.Remove(a.Path)
		}
	}
	for i, a := range applied {
		applied[i] = worktree.Applied{}
		var err error
		switch {
		case a.New == nil:
		case how == stageStat:
			e := index.NewEntry(*a.New, a.Stat)
			if have := idx.Entry(a.Path); have != nil && have.SameContent(&e) {
				idx.SetStat(a.Path, a.Stat)
			}
		case a.New.Type == object.TypeDir:
			err = idx.SetDir(a.Path, a.New.Mode)
		default:
			err = idx.Set(a.Path, index.NewEntry(*a.New, a.Stat))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// noteUnchanged notes files that were read and are as they are staged, so that
// they need not be read again.
func noteUnchanged(idx *index.Index, unchanged []worktree.Refreshed) {
	for _, u := range unchanged {
		if e := idx.Entry(u.Path); e != nil && e.SameContent(u.Old) {
			idx.SetStat(u.Path, u.Stat)
		}
	}
}

// checkOps makes sure that ops destroy nothing that exists in the worktree
// alone. The error names all that is in the way, and what is known to be.
func (r *Repository) checkOps(ctx context.Context, idx *index.Index, ops []worktree.Op, inTheWay []Obstacle) error {
	found, err := r.worktree.Check(ctx, idx, ops)
	if err != nil {
		return err
	}
	only, err := r.onlyCopies(ops)
	if err != nil {
		return err
	}
	return obstacleError(append(append(inTheWay, r.obstacles(ops, found)...), only...))
}

// obstacles turns what a worktree found in the way into obstacles, and adds the
// folder that the user is in, if something else is to be in its place.
func (r *Repository) obstacles(ops []worktree.Op, found []worktree.Obstacle) []Obstacle {
	var list []Obstacle
	for _, o := range found {
		why := o.Reason.String()
		if o.Err != nil {
			why += ": " + reason(o.Err)
		}
		list = append(list, Obstacle{o.Path, why})
	}
	if r.at == "" {
		return list
	}
	for _, op := range ops {
		if op.New != nil && op.New.Type != object.TypeDir && tree.Below(r.at, op.Path) {
			list = append(list, Obstacle{op.Path, "the current folder"})
		}
	}
	return list
}

// obstacleError returns the error that there are obstacles, nil if there are
// none.
func obstacleError(list []Obstacle) error {
	if len(list) == 0 {
		return nil
	}
	slices.SortStableFunc(list, func(a, b Obstacle) int { return tree.ComparePaths(a.Path, b.Path) })
	list = slices.CompactFunc(list, func(a, b Obstacle) bool { return a.Path == b.Path })
	return &LocalChangesError{list}
}

// applyProgress turns a worktree's progress into one that knows the total.
func applyProgress(ops []worktree.Op, progress Progress) func(files, bytes int64) {
	if progress == nil {
		return nil
	}
	var total Amount
	for _, op := range ops {
		if op.New != nil && op.New.Type != object.TypeDir {
			total.Files++
			total.Bytes += int64(op.New.Size)
		}
	}
	return func(files, bytes int64) { progress(Amount{files, bytes}, total) }
}

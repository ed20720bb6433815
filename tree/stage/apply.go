package stage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs/intact"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/view"
	"github.com/kist-vcs/kist/tree/worktree"
)

// ApplyOptions say how [ApplyOps] goes about it.
type ApplyOptions struct {
	Stage    staging
	Session  *volume.Session // holds objects that the operations name; nil: all are published
	Progress kist.Progress
	Replaces bool // a file is removed if that which is to replace it was purged
	Whole    bool // nothing is staged if it is interrupted: it cannot begin again with anything staged

	Unchanged []worktree.Refreshed            // files that turned out to be as they are staged
	Needs     []object.ID                     // commits that the operations were made of
	Lost      []view.LostFolder               // of these commits
	Edit      func(idx *index.Index) error    // what else happens to the index
	Publish   func(ctx context.Context) error // what is published then
}

// staging says what operations on the worktree mean for the index.
type staging uint8

const (
	stageAll  staging = iota // what they make is staged
	StageStat                // it is staged already
	StageNone                // nothing
)

// ApplyOps carries out ops in the worktree and stages them. It does not look
// whether something is lost.
//
// Paths that cannot be written are in a [*worktree.ApplyError]. All else is
// done then, and these paths are staged like the others, unless the error says
// that it was no use going on: then what was written is staged, or nothing if that
// is asked for, and nothing published.
func ApplyOps(ctx context.Context, r *kist.Repository, idx *index.Index, ops []worktree.Op, o ApplyOptions) error {
	if len(ops)+len(o.Unchanged)+len(o.Lost) == 0 && o.Edit == nil && o.Publish == nil {
		return nil
	}
	source := r.Contents()
	if o.Session != nil {
		source = r.Unpurged(o.Session)
	}
	todo := prepare(r, idx, ops)
	applied, applyErr := r.Worktree().Apply(ctx, source, todo, worktree.ApplyOptions{Progress: ApplyProgress(ops, o.Progress)})
	done := applyErr == nil || IsPartial(applyErr)
	if !done && o.Whole {
		return applyErr
	}
	if failed := (*worktree.ApplyError)(nil); o.Replaces && errors.As(applyErr, &failed) {
		if err := clearPurged(ctx, r, idx, todo, failed); err != nil {
			return err
		}
	}
	if done && (applyErr != nil || len(todo) != len(ops)) {
		applied = append(applied, unwritten(ops, applied)...)
		slices.SortFunc(applied, func(a, b worktree.Applied) int { return tree.ComparePaths(a.Path, b.Path) })
	}
	// What was written is staged even if the operation was interrupted.
	ctx = context.WithoutCancel(ctx)
	err := r.PublishWith(ctx, o.Session, func(ctx context.Context) error {
		if err := intact.CheckUsable(ctx, r, o.Needs...); err != nil {
			return err
		}
		err := index.Update(ctx, r.Dir(), func(idx *index.Index) error {
			if err := stageApplied(idx, applied, o.Stage); err != nil {
				return err
			}
			noteUnchanged(idx, o.Unchanged)
			if o.Stage == stageAll {
				if err := view.StageLost(idx, o.Lost, done); err != nil {
					return err
				}
			}
			if o.Edit == nil || !done {
				return nil
			}
			return o.Edit(idx)
		})
		if err != nil || !done || o.Publish == nil {
			return err
		}
		return o.Publish(ctx)
	})
	return cmp.Or(err, view.WithLost(applyErr, o.Lost))
}

// IsPartial reports whether err says that some paths could not be written, but
// all others were.
func IsPartial(err error) bool {
	var failed *worktree.ApplyError
	return errors.As(err, &failed) && !failed.Stopped
}

// prepare returns ops as the worktree can carry them out:
//
//   - the folder that the user is in is not removed;
//   - folders that are tracked as read-only, in which something changes, are
//     among them, so that they are made writable and then read-only again.
func prepare(r *kist.Repository, idx *index.Index, ops []worktree.Op) []worktree.Op {
	stays := func(op worktree.Op) bool { return op.Old == nil && op.New == nil && tree.Below(r.At(), op.Path) }
	if r.At() != "" && slices.ContainsFunc(ops, stays) {
		ops = slices.DeleteFunc(slices.Clone(ops), stays)
	}
	list := slices.Clip(ops)
	folders := readOnlyFolders(r, idx, ops)
	for _, path := range slices.Sorted(maps.Keys(folders)) {
		list = append(list, worktree.Op{Path: path, New: &object.Entry{Type: object.TypeDir, Mode: folders[path]}})
	}
	return list
}

// readOnlyFolders returns the modes of folders that are tracked as read-only
// and in which ops change something, by their paths, unless there is an
// operation of the folder itself. What the user has in the place of one stays, and
// one that is gone is only made for what is to be in it.
func readOnlyFolders(r *kist.Repository, idx *index.Index, ops []worktree.Op) map[string]uint16 {
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
		info, err := r.Worktree().Lstat(path)
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
	if how == StageNone {
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
		case how == StageStat:
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

// CheckOps makes sure that ops destroy nothing that exists in the worktree
// alone. The error names all that is in the way, and what is known to be.
func CheckOps(ctx context.Context, r *kist.Repository, idx *index.Index, ops []worktree.Op, inTheWay []Obstacle) error {
	found, err := r.Worktree().Check(ctx, idx, ops)
	if err != nil {
		return err
	}
	only, err := OnlyCopies(r, ops)
	if err != nil {
		return err
	}
	return ObstacleError(append(append(inTheWay, Obstacles(r, ops, found)...), only...))
}

// Obstacles turns what a worktree found in the way into obstacles, and adds the
// folder that the user is in, if something else is to be in its place.
func Obstacles(r *kist.Repository, ops []worktree.Op, found []worktree.Obstacle) []Obstacle {
	var list []Obstacle
	for _, o := range found {
		why := o.Reason.String()
		if o.Err != nil {
			why += ": " + reason(o.Err)
		}
		list = append(list, Obstacle{o.Path, why})
	}
	if r.At() == "" {
		return list
	}
	for _, op := range ops {
		if op.New != nil && op.New.Type != object.TypeDir && tree.Below(r.At(), op.Path) {
			list = append(list, Obstacle{op.Path, "the current folder"})
		}
	}
	return list
}

// ObstacleError returns the error that there are obstacles, nil if there are
// none.
func ObstacleError(list []Obstacle) error {
	if len(list) == 0 {
		return nil
	}
	slices.SortStableFunc(list, func(a, b Obstacle) int { return tree.ComparePaths(a.Path, b.Path) })
	list = slices.CompactFunc(list, func(a, b Obstacle) bool { return a.Path == b.Path })
	return &LocalChangesError{list}
}

// ApplyProgress turns a worktree's progress into one that knows the total.
func ApplyProgress(ops []worktree.Op, progress kist.Progress) func(files, bytes int64) {
	if progress == nil {
		return nil
	}
	var total kist.Amount
	for _, op := range ops {
		if op.New != nil && op.New.Type != object.TypeDir {
			total.Files++
			total.Bytes += int64(op.New.Size)
		}
	}
	return func(files, bytes int64) { progress(kist.Amount{Files: files, Bytes: bytes}, total) }
}

// Outermost returns paths in order, without those that are, or lie below,
// another one.
func Outermost(paths []string) []string {
	var outer []string
	for _, path := range slices.SortedFunc(slices.Values(paths), tree.ComparePaths) {
		if n := len(outer); n == 0 || !tree.Below(path, outer[n-1]) {
			outer = append(outer, path)
		}
	}
	return outer
}

// ErrLocalChanges is matched by every [*LocalChangesError].
var ErrLocalChanges = errors.New("local changes would be lost")

// LocalChangesError says that an operation was not begun because it would
// overwrite what exists in the worktree or the index alone.
type LocalChangesError struct{ Obstacles []Obstacle }

// Obstacle is a path in the way, and why.
type Obstacle struct{ Path, Reason string }

func (e *LocalChangesError) Error() string {
	if len(e.Obstacles) == 1 {
		return fmt.Sprintf("%v: %q: %s", ErrLocalChanges, e.Obstacles[0].Path, e.Obstacles[0].Reason)
	}
	return fmt.Sprintf("%v: %d paths", ErrLocalChanges, len(e.Obstacles))
}

// Is makes errors.Is(err, ErrLocalChanges) true.
func (e *LocalChangesError) Is(target error) bool { return target == ErrLocalChanges }

// Indexed returns what the index has at path as a tree would hold it, nil if
// it has nothing. Of a directory only type and mode are told.
func Indexed(idx *index.Index, path string) *object.Entry {
	if e := idx.Entry(path); e != nil {
		o := e.Object()
		return &o
	}
	if d := idx.Dir(path); d != nil {
		return &object.Entry{Name: d.Name(), Type: object.TypeDir, Mode: d.Mode()}
	}
	return nil
}

// SameEntry reports whether two entries are the same. What is below
// directories is told apart by its own paths.
func SameEntry(a, b *object.Entry) bool {
	if a != nil && b != nil && a.Type == object.TypeDir && b.Type == object.TypeDir {
		return a.Mode == b.Mode
	}
	return tree.ContentEqual(a, b)
}

package checkout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/look/compare"
	"github.com/kist-vcs/kist/tree/work/stage"
	"github.com/kist-vcs/kist/tree/worktree"
)

// RestoreOptions configure [Restore].
type RestoreOptions struct {
	Paths    []string       // "" means everything
	Source   string         // a revision; empty: HEAD with Staged, otherwise the index
	At       string         // with Source and one path: the path in the source; empty: the same path
	Side     tree.MergeSide // write this side of conflicts; needs an empty Source and restores only files
	Staged   bool           // restore the index
	Worktree bool           // restore the files
	Overlay  bool           // remove no path that is missing in the source
	Force    bool           // also overwrite untracked files
	Progress kist.Progress
}

// Restore makes paths in the index, the worktree or both match a commit or the
// index, and returns how many differed. It overwrites local changes of tracked
// files at these paths. Untracked files are a [*stage.LocalChangesError],
// except with o.Force. If only some paths cannot be written, all others are,
// and the error is a [*worktree.ApplyError].
func Restore(ctx context.Context, r *kist.Repository, o RestoreOptions) (int, error) {
	idx, err := r.Index()
	if err != nil {
		return 0, err
	}
	if o.Side != tree.NoSide {
		return restoreSide(ctx, r, idx, o)
	}

	source, err := restoreSource(ctx, r, idx, o)
	if err != nil {
		return 0, err
	}
	if err := checkPaths(ctx, idx, source, o); err != nil {
		return 0, err
	}
	if o.Worktree {
		if err := stage.CheckPaths(idx, o.Paths...); err != nil {
			return 0, err
		}
	}
	if !o.Worktree {
		return restoreIndex(ctx, r, idx, source, o)
	}

	f, err := restoreForced(ctx, r, idx, source, o)
	if err != nil {
		return 0, err
	}

	for i, l := range f.Lost {
		d := idx.Dir(l.Path)
		f.Lost[i].Staged = d != nil && d.Len()+len(d.Subdirs()) > 0
	}

	keep, added := restoreOps(idx, f, o)
	f.Whole = slices.DeleteFunc(f.Whole, func(c tree.Change) bool { return c.New == nil && inFolders(f.Lost, c.Path) })
	if !o.Force {
		found, err := r.Worktree().Check(ctx, idx, added)
		if err != nil {
			return 0, err
		}
		found = slices.DeleteFunc(found, func(o worktree.Obstacle) bool { return o.Reason == worktree.LocalChange })
		if err := stage.ObstacleError(stage.Obstacles(r, keep, found)); err != nil {
			return 0, err
		}
	}

	a := stage.ApplyOptions{
		GiveUp: o.Force, Progress: o.Progress, Unchanged: f.Unchanged, Lost: f.Lost, Whole: f.Whole, Needs: []object.ID{source.Commit},
	}
	switch {
	case o.Staged:
		a.Edit = func(idx *index.Index) error { return ClearConflicts(idx, o.Paths) }
	case o.Source != "":
		a.Stage = stage.StageNone
	case !slices.ContainsFunc(keep, func(op worktree.Op) bool { return compare.BelowLost(idx, op.Path) }):
		a.Stage = stage.StageStat
	}

	return len(keep) + len(f.Whole), stage.ApplyOps(ctx, r, idx, keep, a)
}

// restoreForced returns what makes paths of the worktree, and of the index with o.Staged, match source.
func restoreForced(ctx context.Context, r *kist.Repository, idx *index.Index, source compare.Side, o RestoreOptions) (Forced, error) {
	f, err := ForceOps(ctx, r, idx, source, o.Paths)
	switch {
	case err != nil:
	case !o.Staged:
		f.Whole = nil // they are not in the worktree
	case o.Overlay:
		err = f.splitFolders(ctx, r, idx, source)
	}
	return f, err
}

// splitFolders replaces the changes of whole folders by those of their paths.
func (f *Forced) splitFolders(ctx context.Context, r *kist.Repository, idx *index.Index, to compare.Side) error {
	if len(f.Whole) == 0 {
		return nil
	}
	paths := make([]string, len(f.Whole))
	for i, c := range f.Whole {
		paths[i] = c.Path
	}
	ops, lost, err := changeOps(ctx, r, idx, to, tree.DiffOptions{Paths: paths, Recursive: true, Paired: true})
	f.Ops, f.Lost, f.Whole = append(f.Ops, ops...), append(f.Lost, lost...), nil
	return err
}

// checkPaths returns an error that matches [kist.ErrNoMatch] if a path is neither in
// source nor tracked.
func checkPaths(ctx context.Context, idx *index.Index, source compare.Side, o RestoreOptions) error {
	for _, path := range o.Paths {
		_, err := source.Find(ctx, path)
		if err == nil {
			continue
		}
		if !errors.Is(err, tree.ErrNotExist) && !errors.Is(err, tree.ErrNotDir) {
			return err
		}
		staged, err := stage.IndexedIn(ctx, source.Objects, idx, path)
		if err != nil {
			return err
		}
		if o.Overlay || staged == nil && !conflictsBelow(idx, path) && !(o.Staged && idx.Intended(path)) {
			return fmt.Errorf("path %q: %w", path, kist.ErrNoMatch)
		}
	}

	return nil
}

// restoreOps returns the operations to carry out. Added are the ones that create a folder
// or an untracked path. Nothing is removed from a lost folder, because its
// content is unknown.
func restoreOps(idx *index.Index, f Forced, o RestoreOptions) (keep, added []worktree.Op) {
	var replaced []string // folders in whose place a file comes
	for _, op := range f.Ops {
		if op.New != nil && !tree.IsDir(op.New) && idx.Dir(op.Path) != nil {
			replaced = append(replaced, op.Path)
		}
	}
	for _, op := range f.Ops {
		tracked := stage.Indexed(idx, op.Path) != nil
		stays := o.Overlay && !slices.ContainsFunc(replaced, func(path string) bool { return tree.Below(op.Path, path) })
		if op.New == nil && (stays || !tracked || inFolders(f.Lost, op.Path)) {
			continue
		}
		keep = append(keep, op)
		if op.New != nil && (tree.IsDir(op.New) || !tracked) {
			added = append(added, op)
		}
	}
	return keep, added
}

// inFolders reports whether a path is or lies in one of some folders.
func inFolders(folders []compare.LostFolder, path string) bool {
	return slices.ContainsFunc(folders, func(l compare.LostFolder) bool { return tree.Below(path, l.Path) })
}

// restoreSource returns the view to restore from.
func restoreSource(ctx context.Context, r *kist.Repository, idx *index.Index, o RestoreOptions) (compare.Side, error) {
	switch {
	case o.Source != "":
		source, err := compare.OfCommit(ctx, r, o.Source)
		if err == nil && o.At != "" {
			return compare.Moved(ctx, source, o.At, o.Paths[0])
		}
		return source, err
	case o.Staged:
		return compare.OfHead(ctx, r)
	}
	return compare.FromIndex(ctx, r, idx)
}

// restoreSide writes one side of conflicts to the worktree, and its attributes to the index.
// The conflicts stay.
func restoreSide(ctx context.Context, r *kist.Repository, idx *index.Index, o RestoreOptions) (int, error) {
	var ops []worktree.Op
	var sides []index.Conflict // with the chosen side as Ours
	for _, path := range o.Paths {
		if !conflictsBelow(idx, path) {
			return 0, fmt.Errorf("conflict at path %q: %w", path, kist.ErrNoMatch)
		}
	}

	for _, c := range idx.Conflicts() {
		if !stage.Selected(c.Path, o.Paths) {
			continue
		}
		side, name := c.Ours, "ours"
		if o.Side == tree.Theirs {
			side, name = c.Theirs, "theirs"
		}
		if side == nil {
			return 0, fmt.Errorf("path %q in %s: %w", c.Path, name, kist.ErrNoMatch)
		}
		sides = append(sides, index.Conflict{Path: c.Path, Ours: side})
		if !tree.IsDir(side) {
			ops = append(ops, worktree.Op{Path: c.Path, Old: idx.Entry(c.Path), New: side})
		}
	}

	setAttrs := func(idx *index.Index) error {
		for _, side := range sides {
			if stage.Indexed(idx, side.Path) == nil {
				continue
			}
			if err := idx.SetAttrs(side.Path, side.Ours.Attrs); err != nil {
				return err
			}
		}
		return nil
	}
	return len(ops), stage.ApplyOps(ctx, r, idx, ops, stage.ApplyOptions{Stage: stage.StageNone, Progress: o.Progress, Edit: setAttrs})
}

// conflictsBelow reports whether there is a conflict at path or below it.
func conflictsBelow(idx *index.Index, path string) bool {
	return slices.ContainsFunc(idx.Conflicts(), func(c index.Conflict) bool { return tree.Below(c.Path, path) })
}

// ClearConflicts clears the conflicts at paths and below them, and the notes about files
// that are to be added.
func ClearConflicts(idx *index.Index, paths []string) error {
	for _, c := range slices.Clone(idx.Conflicts()) {
		if stage.Selected(c.Path, paths) {
			idx.ClearConflict(c.Path)
		}
	}
	for _, path := range idx.Intents() {
		if stage.Selected(path, paths) {
			idx.ClearSkipped(path)
		}
	}
	return nil
}

// restoreIndex stages the paths of source and does not touch the worktree.
func restoreIndex(ctx context.Context, r *kist.Repository, idx *index.Index, source compare.Side, o RestoreOptions) (int, error) {
	staged, err := compare.FromIndex(ctx, r, idx)
	if err != nil {
		return 0, err
	}

	changes, lost, err := compare.DiffKnown(ctx, staged, source, tree.DiffOptions{Paths: o.Paths, Recursive: true, Paired: true})
	if err != nil {
		return 0, err
	}

	if o.Overlay {
		changes = slices.DeleteFunc(changes, func(c tree.Change) bool { return c.New == nil })
	}
	tx := r.Begin(volume.SessionOptions{})
	defer tx.Close()
	tx.NeedUsable(source.Commit)
	err = stage.NoteChanges(ctx, tx, idx, changes, func(idx *index.Index) error {
		return cmp.Or(compare.StageLost(idx, lost, true), ClearConflicts(idx, o.Paths))
	})
	return len(changes), cmp.Or(err, tx.Publish(ctx))
}

package kist

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/worktree"
)

// RestoreOptions say what [Repository.Restore] brings back.
type RestoreOptions struct {
	Paths    []string // "" is everything
	Source   string   // a revision; empty: what is staged, or HEAD where the index is to be restored
	Side     Side     // of conflicts; then Source is empty, and only files are restored
	Staged   bool     // restore the index
	Worktree bool     // restore the files
	Overlay  bool     // remove nothing that the source does not have
	Force    bool     // overwrite untracked files too
	Progress Progress
}

// Side is one of the two sides of a merge.
type Side uint8

// The sides of a merge.
const (
	NoSide Side = iota
	Ours        // what HEAD has
	Theirs      // what is being merged
)

// ErrNoMatch is matched by the error for a path that is nowhere.
var ErrNoMatch = errors.New("matches nothing")

// Restore brings paths in the index, the worktree, or both to what they are in
// a commit or in the index, and returns how many were not. Local changes of
// tracked files at these paths are overwritten; untracked files are a
// [*LocalChangesError] unless forced. If only some paths cannot be written,
// all others are, and the error is a [*worktree.ApplyError].
func (r *Repository) Restore(ctx context.Context, o RestoreOptions) (int, error) {
	idx, err := r.Index()
	if err != nil {
		return 0, err
	}
	if o.Side != NoSide {
		return r.restoreSide(ctx, idx, o)
	}
	source, err := r.restoreSource(ctx, idx, o)
	if err != nil {
		return 0, err
	}
	for _, path := range o.Paths {
		_, err := source.find(ctx, path)
		if err == nil {
			continue
		}
		if !errors.Is(err, tree.ErrNotExist) && !errors.Is(err, tree.ErrNotDir) {
			return 0, err
		}
		if o.Overlay || indexed(idx, path) == nil && !conflictsBelow(idx, path) {
			return 0, fmt.Errorf("path %q: %w", path, ErrNoMatch)
		}
	}
	if !o.Worktree {
		return r.restoreIndex(ctx, idx, source, o)
	}
	ops, unchanged, err := r.forceOps(ctx, idx, source, o.Paths)
	if err != nil {
		return 0, err
	}
	var keep, added []worktree.Op
	for _, op := range ops {
		if op.New == nil && (o.Overlay || indexed(idx, op.Path) == nil) {
			continue
		}
		keep = append(keep, op)
		if op.New != nil && (isFolder(op.New) || indexed(idx, op.Path) == nil) {
			added = append(added, op)
		}
	}
	if !o.Force {
		found, err := r.worktree.Check(ctx, idx, added)
		if err != nil {
			return 0, err
		}
		found = slices.DeleteFunc(found, func(o worktree.Obstacle) bool { return o.Reason == worktree.LocalChange })
		if err := obstacleError(r.obstacles(keep, found)); err != nil {
			return 0, err
		}
	}
	a := applyOptions{progress: o.Progress, unchanged: unchanged, needs: []object.ID{source.Commit}}
	switch {
	case o.Staged:
		a.edit = func(idx *index.Index) error { return clearConflicts(idx, o.Paths) }
	case o.Source != "":
		a.stage = stageNone
	default:
		a.stage = stageStat
	}
	return len(keep), r.applyOps(ctx, idx, keep, a)
}

// restoreSource returns what is restored.
func (r *Repository) restoreSource(ctx context.Context, idx *index.Index, o RestoreOptions) (View, error) {
	switch {
	case o.Source != "":
		return r.CommitView(ctx, o.Source)
	case o.Staged:
		return r.HeadView(ctx)
	}
	return r.viewIndex(ctx, idx)
}

// restoreSide writes one side of conflicts to the worktree. The conflicts stay.
func (r *Repository) restoreSide(ctx context.Context, idx *index.Index, o RestoreOptions) (int, error) {
	var ops []worktree.Op
	for _, path := range o.Paths {
		if !conflictsBelow(idx, path) {
			return 0, fmt.Errorf("conflict at path %q: %w", path, ErrNoMatch)
		}
	}
	for _, c := range idx.Conflicts() {
		if !asked(c.Path, o.Paths) {
			continue
		}
		side, name := c.Ours, "ours"
		if o.Side == Theirs {
			side, name = c.Theirs, "theirs"
		}
		if side == nil {
			return 0, fmt.Errorf("path %q in %s: %w", c.Path, name, ErrNoMatch)
		}
		if !isFolder(side) {
			ops = append(ops, worktree.Op{Path: c.Path, Old: idx.Entry(c.Path), New: side})
		}
	}
	return len(ops), r.applyOps(ctx, idx, ops, applyOptions{stage: stageNone, progress: o.Progress})
}

// conflictsBelow reports whether there is a conflict at path or below it.
func conflictsBelow(idx *index.Index, path string) bool {
	return slices.ContainsFunc(idx.Conflicts(), func(c index.Conflict) bool { return tree.Below(c.Path, path) })
}

// clearConflicts clears the conflicts at paths and below them.
func clearConflicts(idx *index.Index, paths []string) error {
	for _, c := range slices.Clone(idx.Conflicts()) {
		if asked(c.Path, paths) {
			idx.ClearConflict(c.Path)
		}
	}
	return nil
}

// restoreIndex stages what source has at the paths, and leaves the worktree.
func (r *Repository) restoreIndex(ctx context.Context, idx *index.Index, source View, o RestoreOptions) (int, error) {
	staged, err := r.viewIndex(ctx, idx)
	if err != nil {
		return 0, err
	}
	changes, err := diff(ctx, staged, source, tree.DiffOptions{Paths: o.Paths, Recursive: true, Paired: true})
	if err != nil {
		return 0, err
	}
	return len(changes), r.editIndex(ctx, idx, func(idx *index.Index) error {
		if err := r.stillUsable(ctx, source.Commit); err != nil {
			return err
		}
		for _, c := range changes {
			if err := setEntry(idx, c.Path, c.New, o.Overlay); err != nil {
				return err
			}
		}
		return clearConflicts(idx, o.Paths)
	})
}

// setEntry stages e at path, without anything being known of the file there;
// nil removes what is staged.
func setEntry(idx *index.Index, path string, e *object.Entry, keep bool) error {
	switch {
	case e == nil && keep:
		return nil
	case e == nil:
		idx.Remove(path)
		return nil
	case e.Type == object.TypeDir:
		return idx.SetDir(path, e.Mode)
	}
	return idx.Set(path, index.NewEntry(*e, index.Stat{}))
}

// editIndex changes the index, and publishes it. From is what the index was when
// it was looked at: it is changed, and not to be used after, unless that is
// outdated.
func (r *Repository) editIndex(ctx context.Context, from *index.Index, edit func(idx *index.Index) error) error {
	return r.publish(ctx, func(ctx context.Context) error {
		return index.UpdateWith(ctx, r.dir, index.Options{From: from}, edit)
	})
}

// publish runs f, which changes names, but stores no objects.
func (r *Repository) publish(ctx context.Context, f func(ctx context.Context) error) error {
	return r.publishWith(ctx, nil, f)
}

// publishWith runs f, which changes names, and makes sure of the objects that
// were stored in session. Without one, f names what was published before.
func (r *Repository) publishWith(ctx context.Context, session *volume.Session, f func(ctx context.Context) error) error {
	if session != nil {
		return session.Publish(ctx, f)
	}
	session = r.objects.Begin(volume.SessionOptions{})
	err := session.Publish(ctx, f)
	return errors.Join(err, session.Close())
}

package kist

import (
	"context"
	"errors"
	"fmt"
	"os"
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
	Staged   bool     // restore the index
	Worktree bool     // restore the files
	Overlay  bool     // remove nothing that the source does not have
	Force    bool     // overwrite untracked files too
	Progress Progress
}

// ErrNoMatch is matched by the error for a path that is nowhere.
var ErrNoMatch = errors.New("matches nothing")

// Restore brings paths in the index, the worktree, or both to what they are in
// a commit or in the index. Local changes of tracked files at these paths are
// overwritten; untracked files are a [*LocalChangesError] unless forced.
func (r *Repository) Restore(ctx context.Context, o RestoreOptions) error {
	idx, err := r.Index()
	if err != nil {
		return err
	}
	staged, err := r.viewIndex(ctx, idx)
	if err != nil {
		return err
	}
	source := staged
	switch {
	case o.Source != "":
		source, err = r.CommitView(ctx, o.Source)
	case o.Staged:
		source, err = r.HeadView(ctx)
	}
	if err != nil {
		return err
	}
	for _, path := range o.Paths {
		if _, err := source.find(ctx, path); err == nil {
			continue
		} else if !errors.Is(err, tree.ErrNotExist) {
			return err
		}
		if indexed(idx, path) == nil {
			return fmt.Errorf("path %q: %w", path, ErrNoMatch)
		}
	}
	if !o.Worktree {
		return r.restoreIndex(ctx, staged, source, o)
	}

	ops, err := r.forceOps(ctx, idx, source, o.Paths)
	if err != nil {
		return err
	}
	keep := ops[:0]
	var added []worktree.Op
	for _, op := range ops {
		if op.New == nil && (o.Overlay || op.Old == nil && idx.Dir(op.Path) == nil) {
			continue
		}
		keep = append(keep, op)
		if op.Old == nil && op.New != nil {
			added = append(added, op)
		}
	}
	if !o.Force {
		if err := r.checkOps(ctx, idx, added); err != nil {
			return err
		}
	}
	return r.applyOps(ctx, idx, keep, applyOptions{force: true, unstaged: !o.Staged && o.Source != "", progress: o.Progress})
}

// restoreIndex stages what source has at the paths, and leaves the worktree.
func (r *Repository) restoreIndex(ctx context.Context, staged, source View, o RestoreOptions) error {
	changes, err := diff(ctx, staged, source, tree.DiffOptions{Paths: o.Paths, Recursive: true})
	if err != nil {
		return err
	}
	return r.editIndex(ctx, func(idx *index.Index) error {
		for _, path := range o.Paths {
			for _, c := range slices.Clone(idx.Conflicts()) {
				if path == "" || c.Path == path {
					idx.ClearConflict(c.Path)
				}
			}
		}
		for _, c := range changes {
			if err := setEntry(idx, c.Path, c.New, o.Overlay); err != nil {
				return err
			}
		}
		return nil
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

// editIndex changes the index, and publishes it.
func (r *Repository) editIndex(ctx context.Context, edit func(idx *index.Index) error) error {
	return r.publish(ctx, func(ctx context.Context) error {
		return index.Update(ctx, r.dir, edit)
	})
}

// publish runs f, which changes names, but stores no objects.
func (r *Repository) publish(ctx context.Context, f func(ctx context.Context) error) error {
	session := r.objects.Begin(volume.SessionOptions{})
	err := session.Publish(ctx, f)
	return errors.Join(err, session.Close())
}

// find returns the entry at path, of the root itself if path is "".
func (v View) find(ctx context.Context, path string) (object.Entry, error) {
	if path == "" {
		return object.Entry{Type: object.TypeDir, Mode: 0o755, Content: object.Key{Kind: object.KindTree, ID: v.Tree}}, nil
	}
	if v.Tree.IsZero() {
		return object.Entry{}, fmt.Errorf("path %q: %w", path, tree.ErrNotExist)
	}
	return tree.Find(ctx, v.Objects, v.Tree, path)
}

// Extract writes paths of a commit below another folder, which is made if it
// is absent, with the modification times that were recorded. Files that are
// there and differ are a [*LocalChangesError] unless forced.
func (r *Repository) Extract(ctx context.Context, source View, paths []string, to string, force bool, progress Progress) error {
	var ops []worktree.Op
	for _, path := range paths {
		e, err := source.find(ctx, path)
		if errors.Is(err, tree.ErrNotExist) {
			return fmt.Errorf("path %q: %w", path, ErrNoMatch)
		}
		if err != nil {
			return err
		}
		if path != "" {
			for i, c := range path { // the folders that lead to it
				if c != '/' {
					continue
				}
				dir, err := source.find(ctx, path[:i])
				if err != nil {
					return err
				}
				ops = append(ops, worktree.Op{Path: path[:i], New: &dir})
			}
			ops = append(ops, worktree.Op{Path: path, New: &e})
		}
		if e.Type != object.TypeDir {
			continue
		}
		err = tree.Walk(ctx, source.Objects, e.Content.ID, func(below string, e object.Entry) error {
			if path != "" {
				below = path + "/" + below
			}
			ops = append(ops, worktree.Op{Path: below, New: &e})
			return nil
		})
		if err != nil {
			return err
		}
	}
	if err := os.MkdirAll(to, 0o777); err != nil {
		return err
	}
	w, err := r.openWorktree(to)
	if err != nil {
		return err
	}
	if !force {
		obstacles, err := w.Check(ctx, nil, ops)
		if err := obstacleError(obstacles, err); err != nil {
			return err
		}
	}
	_, err = w.Apply(ctx, source.Objects, ops, worktree.ApplyOptions{RestoreTimes: true, Progress: applyProgress(ops, progress)})
	return err
}

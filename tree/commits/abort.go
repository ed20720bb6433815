package commits

import (
	"context"
	"fmt"
	"slices"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs/intact"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/checkout"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/operation"
	"github.com/kist-vcs/kist/tree/stage"
	"github.com/kist-vcs/kist/tree/view"
	"github.com/kist-vcs/kist/tree/worktree"
)

// Abort ends a merge or revert in progress. It restores HEAD's version of the
// paths that the operation touched and of other staged paths. Other local
// changes stay. The error is a [*stage.LocalChangesError], and nothing is
// done, if it would overwrite changes of staged files. If a revert of several
// commits has made some already, HEAD goes back to its commit before the
// first, unless it was moved in another way.
func Abort(ctx context.Context, r *kist.Repository, op operation.Operation, progress kist.Progress) error {
	state, err := operation.Current(r)
	if err != nil {
		return err
	}
	if state.Operation != op {
		return fmt.Errorf("a %s is %w", op, operation.ErrNotInProgress)
	}

	head, err := r.Refs().Head()
	if err != nil {
		return err
	}

	var start object.ID // the tree before the first commit, if back
	back := head.ID == state.Left && state.Start != state.Left
	if back {
		if start, err = intact.CommitTree(ctx, r, state.Start); err != nil {
			return err
		}
	}

	end := func(ctx context.Context) error { return operation.ClearState(ctx, r) }
	if back {
		end = nil
	}

	var partial error
	if state.Stopped {
		if partial, err = abortStep(ctx, r, end, progress); err != nil {
			return err
		}
	} else if !back {
		return r.Publish(ctx, end)
	}
	if !back {
		return partial
	}

	from, err := intact.CommitTree(ctx, r, head.ID)
	if err != nil {
		return err
	}

	return checkout.SwitchTree(ctx, r, checkout.Tips{
		From: checkout.Tip{Commit: head.ID, Tree: from}, To: checkout.Tip{Commit: state.Start, Tree: start}, Progress: progress,
		Publish: func(ctx context.Context) error {
			if err := checkout.MoveHead(ctx, r, head, state.Start, "revert: back to where it began"); err != nil {
				return err
			}
			return operation.ClearState(ctx, r)
		},
	})
}

// abortStep restores HEAD's version of the paths that a merge touched, and
// then calls end. The first result is the error for paths that could not be
// written.
func abortStep(ctx context.Context, r *kist.Repository, end func(context.Context) error, progress kist.Progress) (partial, err error) {
	head, err := view.OfHead(ctx, r)
	if err != nil {
		return nil, err
	}

	idx, err := r.Index()
	if err != nil {
		return nil, err
	}

	paths, err := stagedPaths(ctx, r, idx, head)
	if err != nil {
		return nil, err
	}

	var ops []worktree.Op
	var unchanged []worktree.Refreshed
	var lost []view.LostFolder
	if len(paths) > 0 {
		if ops, unchanged, lost, err = checkout.ForceOps(ctx, r, idx, head, paths); err != nil {
			return nil, err
		}
	}

	ops = abortOps(idx, ops)
	found, err := r.Worktree().Check(ctx, idx, ops)
	if err != nil {
		return nil, err
	}

	// At conflicts, the file in the worktree comes from the merge.
	found = slices.DeleteFunc(found, func(o worktree.Obstacle) bool {
		return o.Reason == worktree.LocalChange && atConflict(idx, o.Path)
	})
	if err := stage.ObstacleError(stage.Obstacles(r, ops, found)); err != nil {
		return nil, err
	}

	err = stage.ApplyOps(ctx, r, idx, ops, stage.ApplyOptions{
		Progress: progress, Unchanged: unchanged, Lost: lost, Publish: end,
		Edit: func(idx *index.Index) error { return checkout.ClearConflicts(idx, nil) },
	})
	if stage.IsPartial(err) {
		return err, nil
	}

	return nil, err
}

// abortOps removes from ops the paths that the merge did not touch: their
// index entry already equals HEAD's.
func abortOps(idx *index.Index, ops []worktree.Op) []worktree.Op {
	return slices.DeleteFunc(ops, func(op worktree.Op) bool {
		return stage.SameEntry(stage.Indexed(idx, op.Path), op.New) && !atConflict(idx, op.Path)
	})
}

// atConflict reports whether a path or a folder above it has a conflict.
func atConflict(idx *index.Index, path string) bool {
	for ; path != ""; path, _ = tree.Split(path) {
		if _, ok := idx.Conflict(path); ok {
			return true
		}
	}
	return false
}

// stagedPaths returns the paths at which the index differs from HEAD or has
// conflicts.
func stagedPaths(ctx context.Context, r *kist.Repository, idx *index.Index, head view.View) ([]string, error) {
	var paths []string
	for _, c := range idx.Conflicts() {
		paths = append(paths, c.Path)
	}

	staged, err := view.FromIndex(ctx, r, idx)
	if err != nil {
		return nil, err
	}

	changes, err := view.DiffWith(ctx, head, staged, tree.DiffOptions{Paired: true})
	for _, c := range changes {
		paths = append(paths, c.Path)
	}

	return paths, err
}

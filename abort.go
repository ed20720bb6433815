package kist

import (
	"context"
	"fmt"
	"slices"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/worktree"
)

// Abort ends a merge or revert under way and brings the paths that it touched
// back to HEAD, and what else was staged meanwhile. Other local changes stay;
// those of what was staged are a [*LocalChangesError], and nothing is done.
// After several commits, of which some were reverted, HEAD goes back to where
// it was before the first, unless it was moved in another way.
func (r *Repository) Abort(ctx context.Context, op Operation, progress Progress) error {
	state, err := r.State()
	if err != nil {
		return err
	}
	if state.Operation != op {
		return fmt.Errorf("a %s is %w", op, ErrNotInProgress)
	}
	head, err := r.refs.Head()
	if err != nil {
		return err
	}
	var start object.ID // the tree to go back to beyond HEAD's
	back := head.ID == state.Left && state.Start != state.Left
	if back {
		if start, err = r.commitTree(ctx, state.Start); err != nil {
			return err
		}
	}
	end := r.clearState
	if back {
		end = nil
	}
	var partial error
	if state.Stopped {
		if partial, err = r.abortStep(ctx, end, progress); err != nil {
			return err
		}
	} else if !back {
		return r.publish(ctx, end)
	}
	if !back {
		return partial
	}
	from, err := r.commitTree(ctx, head.ID)
	if err != nil {
		return err
	}
	return r.switchTree(ctx, tip{head.ID, from}, tip{state.Start, start}, false, progress, func(ctx context.Context) error {
		if err := r.moveHead(ctx, head, state.Start, "revert: back to where it began"); err != nil {
			return err
		}
		return r.clearState(ctx)
	})
}

// abortStep brings what a merge has touched back to HEAD, and then publishes
// end. The first error is a partial one.
func (r *Repository) abortStep(ctx context.Context, end func(context.Context) error, progress Progress) (partial, err error) {
	head, err := r.HeadView(ctx)
	if err != nil {
		return nil, err
	}
	idx, err := r.Index()
	if err != nil {
		return nil, err
	}
	paths, err := r.stagedPaths(ctx, idx, head)
	if err != nil {
		return nil, err
	}
	var ops []worktree.Op
	var unchanged []worktree.Refreshed
	if len(paths) > 0 {
		if ops, unchanged, err = r.forceOps(ctx, idx, head, paths); err != nil {
			return nil, err
		}
	}
	ops = abortOps(idx, ops)
	found, err := r.worktree.Check(ctx, idx, ops)
	if err != nil {
		return nil, err
	}
	// At conflicts, the worktree holds what the merge left there.
	found = slices.DeleteFunc(found, func(o worktree.Obstacle) bool {
		return o.Reason == worktree.LocalChange && atConflict(idx, o.Path)
	})
	if err := obstacleError(r.obstacles(ops, found)); err != nil {
		return nil, err
	}
	err = r.applyOps(ctx, idx, ops, applyOptions{
		progress: progress, unchanged: unchanged, publish: end,
		edit: func(idx *index.Index) error { return clearConflicts(idx, nil) },
	})
	if isPartial(err) {
		return err, nil
	}
	return nil, err
}

// abortOps returns those of ops that an abort is about: all but local changes
// of what is staged as HEAD has it.
func abortOps(idx *index.Index, ops []worktree.Op) []worktree.Op {
	return slices.DeleteFunc(ops, func(op worktree.Op) bool {
		return sameEntry(indexed(idx, op.Path), op.New) && !atConflict(idx, op.Path)
	})
}

// atConflict reports whether a path, or a folder that it is in, has a conflict.
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
func (r *Repository) stagedPaths(ctx context.Context, idx *index.Index, head View) ([]string, error) {
	var paths []string
	for _, c := range idx.Conflicts() {
		paths = append(paths, c.Path)
	}
	staged, err := r.viewIndex(ctx, idx)
	if err != nil {
		return nil, err
	}
	changes, err := diff(ctx, head, staged, tree.DiffOptions{Paired: true})
	for _, c := range changes {
		paths = append(paths, c.Path)
	}
	return paths, err
}

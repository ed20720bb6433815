package commits

import (
	"context"
	"errors"
	"slices"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/look/compare"
	"github.com/kist-vcs/kist/tree/work/checkout"
	"github.com/kist-vcs/kist/tree/work/operation"
	"github.com/kist-vcs/kist/tree/work/stage"
	"github.com/kist-vcs/kist/tree/worktree"
)

// Abort ends an operation in progress. It restores HEAD's version of the
// paths that the operation touched and of other staged paths. Other local
// changes stay. The error is a [*stage.LocalChangesError], and nothing is
// done, if it would overwrite changes of staged files. If a revert or cherry-pick
// has made commits already, HEAD goes back to its commit before the first,
// unless it was moved in another way. After a rebase, HEAD always goes back, and
// o.Unstash applies its stash.
func Abort(ctx context.Context, r *kist.Repository, op operation.Operation, o StepOptions) error {
	s, head, err := resume(r, op, o)
	if err != nil {
		return err
	}
	if op == operation.Merging {
		partial, err := abortStep(ctx, r, operation.ClearState, s.Progress)
		if err != nil {
			return err
		}
		return partial
	}

	if s.Untouched() {
		return s.abortUntouched(ctx)
	}
	if err := s.completeKilled(ctx, head); err != nil {
		return err
	}
	from := head.ID
	switch {
	case !s.To.IsZero(): // some files may have the content of that commit
		if err := s.switchTo(ctx, head.ID, s.To, nil); err != nil {
			return err
		}
		from = s.To
	case s.Stopped || op == operation.Rebasing:
		if err := s.undoUnstash(ctx, head.ID); err != nil {
			return err
		}
		if s.partial, err = abortStep(ctx, r, nil, s.Progress); err != nil {
			return err
		}
	}

	if op != operation.Rebasing && s.To.IsZero() && head.ID != s.Left {
		return errors.Join(s.partial, r.Publish(ctx, operation.ClearState))
	}
	err = s.switchTo(ctx, from, s.Start, func(tx *kist.Tx) {
		s.noteReturn(tx, head)
		if !s.mustUnstash() { // otherwise the stash is still to be applied
			operation.ClearState(tx)
		}
	})
	if err == nil && s.mustUnstash() {
		err = s.abortUntouched(ctx)
	}
	return errors.Join(s.partial, err)
}

// abortUntouched ends a rebase that has not moved HEAD, and applies its stash.
func (s *sequence) abortUntouched(ctx context.Context) error {
	if !s.mustUnstash() {
		return s.r.Publish(ctx, operation.ClearState)
	}
	err := s.Unstash(ctx, s.r, s.noteNoOperation)
	if err == nil && !s.ended {
		err = s.r.Publish(ctx, operation.ClearState)
	}
	return err
}

// undoUnstash undoes the changes that a killed Unstash may have left in the worktree. It
// completes them first: so a file is an obstacle only if it was changed later.
func (s *sequence) undoUnstash(ctx context.Context, head object.ID) error {
	if s.Stash.IsZero() || s.Doing != "" || len(s.Rest) > 0 {
		return nil
	}
	at, err := object.ReadCommit(ctx, s.r.Objects(), head)
	if err != nil {
		return err
	}
	m, err := pickOf(ctx, s.r, operation.Step{Do: operation.Pick, Commit: s.Stash}, 1, at)
	if err != nil {
		return err
	}
	tx := s.r.Begin(volume.SessionOptions{})
	defer tx.Close()

	merged, err := m.mergeOver(ctx, s.r, s.r.Unpurged(tx), at.Tree)
	if err != nil || len(merged.Conflicts) > 0 {
		return err
	}
	if err := tx.Publish(ctx); err != nil {
		return err
	}
	before, after := checkout.Tip{Commit: head, Tree: at.Tree}, checkout.Tip{Commit: head, Tree: merged.Tree.ID}
	if err := s.switchTree(ctx, checkout.Tips{From: before, To: after}); err != nil {
		return err
	}
	return s.switchTree(ctx, checkout.Tips{From: after, To: before})
}

// switchTo brings worktree and index from one commit to another, as switchTree does.
func (s *sequence) switchTo(ctx context.Context, from, to object.ID, names func(tx *kist.Tx)) error {
	old, err := kist.CommitTree(ctx, s.r, from)
	if err != nil {
		return err
	}
	new, err := kist.CommitTree(ctx, s.r, to)
	if err != nil {
		return err
	}
	return s.switchTree(ctx, checkout.Tips{From: checkout.Tip{Commit: from, Tree: old}, To: checkout.Tip{Commit: to, Tree: new}, Names: names})
}

// switchTree is [checkout.SwitchTree]. It keeps the error for paths that could not be written
// in s.partial.
func (s *sequence) switchTree(ctx context.Context, tips checkout.Tips) error {
	tips.Progress = s.Progress
	err := checkout.SwitchTree(ctx, s.r, tips)
	if stage.IsPartial(err) {
		s.partial = errors.Join(s.partial, err)
		err = nil
	}
	return err
}

// noteReturn notes that HEAD moves to Start, and in a rebase to its branch.
func (s *sequence) noteReturn(tx *kist.Tx, head refs.Head) {
	if s.Operation != operation.Rebasing {
		s.noteHeadMove(tx, head, headMove{s.Start, string(s.Operation) + ": back to where it began"})
		return
	}
	branch, ok := refs.BranchOf(s.Branch)
	if !ok {
		s.noteHeadMove(tx, head, headMove{s.Start, "rebase (abort): returning to " + s.Start.String()})
		return
	}

	if have, err := s.r.Refs().Get(s.Branch); err == nil && have == head.ID && have != s.Start { // a killed rebase had moved it
		tx.Move(refs.Change{Name: s.Branch, Old: have, New: s.Start, Reason: "rebase (abort): back to where it began"})
	}
	tx.SetHead(refs.Head{Branch: branch, ID: s.Start}, "rebase (abort): returning to "+s.Branch)
}

// abortStep restores HEAD's version of the paths that a merge touched, with the changes of
// names that end notes. The first result is the error for paths that could not be
// written.
func abortStep(ctx context.Context, r *kist.Repository, end func(tx *kist.Tx), progress kist.Progress) (partial, err error) {
	head, err := compare.OfHead(ctx, r)
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

	var f checkout.Forced
	if len(paths) > 0 {
		if f, err = checkout.ForceOps(ctx, r, idx, head, paths); err != nil {
			return nil, err
		}
	}

	ops := abortOps(idx, f.Ops)
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
		Progress: progress, Unchanged: f.Unchanged, Lost: f.Lost, Whole: f.Whole, Names: end,
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
// conflicts. Of a folder that is left out, it reads and returns only the folder itself.
func stagedPaths(ctx context.Context, r *kist.Repository, idx *index.Index, head compare.Side) ([]string, error) {
	var paths []string
	for _, c := range idx.Conflicts() {
		paths = append(paths, c.Path)
	}

	staged, err := compare.FromIndex(ctx, r, idx)
	if err != nil {
		return nil, err
	}

	leftOut := stage.NewLeftOut(idx, r.Config().Cone())
	changes, err := compare.DiffWith(ctx, head, staged, tree.DiffOptions{Paired: true, Whole: leftOut.Whole()})
	for _, c := range changes {
		paths = append(paths, c.Path)
	}

	return paths, err
}

package kist

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/history"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/worktree"
)

// ErrNotFastForward says that a merge would need a commit of its own.
var ErrNotFastForward = errors.New("not a fast-forward")

// ErrNoCommonHistory says that two commits have no ancestor in common.
var ErrNoCommonHistory = errors.New("no common history")

// MergeOptions say how [Repository.Merge] merges.
type MergeOptions struct {
	Rev             string
	Message         string // of the merge commit; empty: one is made
	FastForwardOnly bool   // fail rather than make a commit
	NoFastForward   bool   // make a commit even if it is not needed
	NoCommit        bool   // stop before the commit
	Unrelated       bool   // merge what has no common history
	Progress        Progress
}

// MergeResult tells what came of a merge or revert.
type MergeResult struct {
	UpToDate    bool            // there was nothing to do
	FastForward bool            // the branch was moved, no commit was made
	ID          object.ID       // where HEAD is now
	Conflicts   []tree.Conflict // left to be resolved; then there is no commit yet
}

// Merge brings another commit's changes into HEAD's branch. Where both sides
// changed the same, the conflicts are left in the worktree and the index to be
// resolved, and a commit ends the merge.
func (r *Repository) Merge(ctx context.Context, o MergeOptions) (*MergeResult, error) {
	if err := r.noOperation(); err != nil {
		return nil, err
	}
	other, theirs, err := r.ReadCommit(ctx, o.Rev)
	if err != nil {
		return nil, err
	}
	head, err := r.refs.Head()
	if err != nil {
		return nil, err
	}
	if head.ID.IsZero() {
		return r.fastForward(ctx, head, object.ID{}, other, theirs.Tree, o)
	}
	ours, err := object.ReadCommit(ctx, r.objects, head.ID)
	if err != nil {
		return nil, err
	}
	bases, err := history.MergeBases(ctx, r.objects, head.ID, other)
	switch {
	case err != nil:
		return nil, err
	case len(bases) == 0 && !o.Unrelated:
		return nil, ErrNoCommonHistory
	case len(bases) > 0 && bases[0] == other:
		return &MergeResult{UpToDate: true, ID: head.ID}, nil
	case len(bases) > 0 && bases[0] == head.ID && !o.NoFastForward:
		return r.fastForward(ctx, head, ours.Tree, other, theirs.Tree, o)
	case o.FastForwardOnly:
		return nil, ErrNotFastForward
	}
	var base object.ID
	if len(bases) > 0 {
		if base, err = r.commitTree(ctx, bases[0]); err != nil {
			return nil, err
		}
	}
	if o.Message == "" {
		o.Message = mergeMessage(o.Rev, head)
	}
	return r.threeWay(ctx, head, ours.Tree, base, theirs.Tree, tree.Labels{Ours: "HEAD", Theirs: o.Rev},
		State{Operation: Merging, Other: other, Message: o.Message}, o.NoCommit, o.Progress)
}

func mergeMessage(rev string, head refs.Head) string {
	text := fmt.Sprintf("Merge %s", rev)
	if head.Branch != "" && head.Branch != DefaultBranch {
		text += " into " + head.Branch
	}
	return text
}

func (r *Repository) fastForward(ctx context.Context, head refs.Head, from, to, toTree object.ID, o MergeOptions) (*MergeResult, error) {
	err := r.switchTree(ctx, from, toTree, false, o.Progress, func(ctx context.Context) error {
		return r.moveHead(ctx, head, to, "merge "+o.Rev+": fast-forward")
	})
	return &MergeResult{FastForward: true, ID: to}, err
}

// RevertOptions say how [Repository.Revert] undoes a commit.
type RevertOptions struct {
	Rev      string
	Parent   int  // of a merge commit: which parent, from 1, to go back to
	NoCommit bool // stop before the commit
	Progress Progress
}

// Revert makes a commit that undoes what another one changed. Conflicts are
// left as [Repository.Merge] leaves them.
func (r *Repository) Revert(ctx context.Context, o RevertOptions) (*MergeResult, error) {
	if err := r.noOperation(); err != nil {
		return nil, err
	}
	id, c, err := r.ReadCommit(ctx, o.Rev)
	if err != nil {
		return nil, err
	}
	head, ours, err := r.headCommit(ctx)
	if err != nil {
		return nil, err
	}
	var before object.ID
	switch n := len(c.Parents); {
	case n > 1 && (o.Parent < 1 || o.Parent > n):
		return nil, fmt.Errorf("%s is a merge of %d parents: which of them is to be gone back to?", id.Short(), n)
	case n > 1:
		before, err = r.commitTree(ctx, c.Parents[o.Parent-1])
	case n == 1:
		before, err = r.commitTree(ctx, c.Parents[0])
	}
	if err != nil {
		return nil, err
	}
	state := State{
		Operation: Reverting, Other: id,
		Message: fmt.Sprintf("Revert %q\n\nThis reverts commit %s.", subject(c.Message), id),
	}
	return r.threeWay(ctx, head, ours.Tree, c.Tree, before, tree.Labels{Ours: "HEAD", Theirs: "before " + id.Short()}, state, o.NoCommit, o.Progress)
}

// threeWay merges trees, brings the result into worktree and index, and makes
// the commit if it can.
func (r *Repository) threeWay(ctx context.Context, head refs.Head, ours, base, theirs object.ID, l tree.Labels, state State, noCommit bool, progress Progress) (*MergeResult, error) {
	session := r.objects.Begin(volume.SessionOptions{})
	defer session.Close()
	merged, err := tree.Merge(ctx, session, base, ours, theirs, tree.MergeOptions{Labels: l, Split: r.chunker.Split})
	if err != nil {
		return nil, err
	}
	// What the merge has stored has to be on disk before the worktree refers to it.
	if err := session.Publish(ctx, func(context.Context) error { return nil }); err != nil {
		return nil, err
	}
	idx, err := r.Index()
	if err != nil {
		return nil, err
	}
	ops, err := r.mergeOps(idx, merged)
	if err != nil {
		return nil, err
	}
	err = r.applyOps(ctx, idx, ops, applyOptions{
		progress: progress,
		edit: func(idx *index.Index) error {
			for _, c := range merged.Conflicts {
				if err := idx.SetConflict(c.Path, c.Base, c.Ours, c.Theirs); err != nil {
					return err
				}
			}
			return nil
		},
		publish: func(ctx context.Context) error {
			if err := r.refs.SetSpecial(ctx, refs.OrigHead, head.ID); err != nil {
				return err
			}
			return r.setState(ctx, state)
		},
	})
	result := &MergeResult{ID: head.ID, Conflicts: merged.Conflicts}
	if err != nil || len(merged.Conflicts) > 0 || noCommit {
		return result, err
	}
	committed, err := r.Commit(ctx, CommitOptions{})
	if errors.Is(err, ErrNothingToCommit) {
		return result, r.clearState(ctx)
	}
	if err != nil {
		return result, err
	}
	result.ID = committed.ID
	return result, nil
}

// mergeOps returns what a merge changes in the worktree, given that nothing
// else is staged at its paths.
func (r *Repository) mergeOps(idx *index.Index, merged *tree.MergeResult) ([]worktree.Op, error) {
	var ops []worktree.Op
	var inTheWay []Obstacle
	for _, c := range merged.Changes {
		if !sameEntry(indexed(idx, c.Path), c.Old) {
			inTheWay = append(inTheWay, Obstacle{c.Path, "a change is staged"})
		}
		ops = append(ops, worktree.Op{Path: c.Path, Old: idx.Entry(c.Path), New: c.New})
	}
	if len(inTheWay) > 0 {
		return nil, &LocalChangesError{inTheWay}
	}
	return ops, nil
}

// Abort ends a merge or revert under way and brings the paths that it touched
// back to HEAD. Other local changes stay.
func (r *Repository) Abort(ctx context.Context, op Operation, progress Progress) error {
	state, err := r.State()
	if err != nil {
		return err
	}
	if state.Operation != op {
		return fmt.Errorf("no %s is %w", op, ErrInProgress)
	}
	head, err := r.HeadView(ctx)
	if err != nil {
		return err
	}
	idx, err := r.Index()
	if err != nil {
		return err
	}
	paths, err := r.stagedPaths(ctx, idx, head)
	if err != nil {
		return err
	}
	var ops []worktree.Op
	if len(paths) > 0 {
		if ops, err = r.forceOps(ctx, idx, head, paths); err != nil {
			return err
		}
	}
	return r.applyOps(ctx, idx, ops, applyOptions{
		force: true, progress: progress,
		edit: func(idx *index.Index) error {
			for _, c := range slices.Clone(idx.Conflicts()) {
				idx.ClearConflict(c.Path)
			}
			return nil
		},
		publish: r.clearState,
	})
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
	changes, err := diff(ctx, head, staged, tree.DiffOptions{})
	for _, c := range changes {
		paths = append(paths, c.Path)
	}
	return paths, err
}

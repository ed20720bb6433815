// Package checkout changes the worktree and the index to match a commit: it
// switches branches, resets, restores, extracts, removes and moves files.
package checkout

import (
	"context"
	"errors"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/intact"
	"github.com/kist-vcs/kist/tree/operation"
	"github.com/kist-vcs/kist/tree/stage"
)

// SwitchOptions configure [Switch].
type SwitchOptions struct {
	Rev      string // a branch or any other revision, which detaches HEAD; empty: HEAD
	Create   string // make this branch at Rev and switch to it
	Reset    bool   // Create may exist: then move it
	Detach   bool   // switch to the branch's commit, not to the branch
	Force    bool   // discard local changes, and end an operation in progress
	Progress kist.Progress
}

// Switch moves HEAD, the index and the worktree to another commit. Local
// changes stay at paths that are equal in both commits. Elsewhere they are a
// [*stage.LocalChangesError]. If only some paths cannot be written, the rest
// is done, and the error is a [*worktree.ApplyError].
func Switch(ctx context.Context, r *kist.Repository, o SwitchOptions) (refs.Head, error) {
	old, err := r.Refs().Head()
	if err != nil {
		return old, err
	}
	if !o.Force {
		if err := operation.NoOperation(r); err != nil {
			return old, err
		}
	}

	next, changes, err := checkoutTarget(ctx, r, old, o)
	if err != nil {
		return old, err
	}

	from, to, err := switchTrees(ctx, r, old.ID, next.ID, o.Force)
	if err != nil {
		return old, err
	}

	publish := func(ctx context.Context) error {
		if len(changes) > 0 {
			if err := r.Refs().Update(ctx, changes, r.Who()); err != nil {
				return err
			}
		}
		if next != old {
			if err := r.Refs().SetHead(ctx, next, r.Who(), refs.CheckoutReason(old, next)); err != nil {
				return err
			}
		}
		if o.Force {
			return operation.ClearState(ctx, r)
		}
		return nil
	}

	err = SwitchTree(ctx, r, Tips{Tip{old.ID, from}, Tip{next.ID, to}, o.Force, o.Progress, publish})
	if err != nil && !stage.IsPartial(err) {
		return old, err
	}

	return next, err
}

// switchTrees returns the trees of the commits to switch between. The content
// of the first commit may be missing if force is set or its loss was accepted.
// If both are the same commit, the content of neither is needed.
func switchTrees(ctx context.Context, r *kist.Repository, old, next object.ID, force bool) (from, to object.ID, err error) {
	read := func(ctx context.Context, commit object.ID) (object.ID, error) {
		return intact.CommitTree(ctx, r, commit)
	}
	if force || old == next || r.Objects().IsLost(object.Key{Kind: object.KindCommit, ID: old}) {
		read = r.RecordedTree
	}
	if from, err = read(ctx, old); err != nil || old == next && !force {
		return from, from, err
	}
	to, err = intact.CommitTree(ctx, r, next)
	return from, to, err
}

// checkoutTarget returns the new HEAD, and the changes of branches to make
// first.
func checkoutTarget(ctx context.Context, r *kist.Repository, old refs.Head, o SwitchOptions) (refs.Head, []refs.Change, error) {
	rev := o.Rev
	if rev == "" || rev == "@" {
		rev = "HEAD"
	}
	if o.Create != "" {
		return createTarget(ctx, r, old, o, rev)
	}
	if !o.Detach && (rev == "HEAD" || old.Unborn() && rev == old.Branch) {
		return old, nil, nil
	}

	branch, err := branchName(ctx, r, rev)
	if err != nil {
		return refs.Head{}, nil, err
	}
	if branch != "" {
		id, err := r.Resolve(ctx, refs.Heads+branch)
		if o.Detach {
			branch = ""
		}
		return refs.Head{Branch: branch, ID: id}, nil, err
	}

	id, err := r.Resolve(ctx, rev)
	return refs.Head{ID: id}, nil, err
}

// createTarget is checkoutTarget for a new branch.
func createTarget(ctx context.Context, r *kist.Repository, old refs.Head, o SwitchOptions, rev string) (refs.Head, []refs.Change, error) {
	was, err := CheckNew(r, refs.Heads, o.Create, o.Reset)
	if err != nil {
		return refs.Head{}, nil, err
	}
	if old.Unborn() && rev == "HEAD" { // the unborn branch gets another name
		return refs.Head{Branch: o.Create}, nil, nil
	}

	id, err := r.Resolve(ctx, rev)
	if err != nil {
		return refs.Head{}, nil, err
	}

	reason := "branch: created from " + rev
	if !was.IsZero() {
		reason = "branch: reset to " + rev
	}

	change := refs.Change{Name: refs.Heads + o.Create, Old: was, New: id, Reason: reason}
	return refs.Head{Branch: o.Create, ID: id}, []refs.Change{change}, nil
}

// branchName returns the branch that a revision names, or "". A branch comes
// before a tag of the same name. (Where a command wants a commit, the tag
// comes first.)
func branchName(ctx context.Context, r *kist.Repository, rev string) (string, error) {
	if refs.CheckName(refs.Heads+rev) == nil {
		_, err := r.Refs().Get(refs.Heads + rev)
		if err == nil || !errors.Is(err, refs.ErrNotFound) {
			return rev, err
		}
	}

	name, err := r.Refs().Expand(ctx, rev)
	if errors.Is(err, refs.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}

	branch, ok := refs.BranchOf(name)
	if !ok {
		return "", nil
	}

	return branch, nil
}

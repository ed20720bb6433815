package kist

import (
	"context"
	"errors"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
)

// CheckoutOptions say where [Repository.Checkout] goes.
type CheckoutOptions struct {
	Rev      string // a branch, or any revision, which detaches HEAD; empty: HEAD
	Create   string // make this branch at Rev, and switch to it
	Reset    bool   // the branch to create may exist: then it is moved
	Detach   bool   // do not switch to the branch, only to its commit
	Force    bool   // give up local changes, and an operation under way
	Progress Progress
}

// Checkout brings the worktree to a commit and HEAD with it. Local changes at
// paths that differ between HEAD and the commit are a [*LocalChangesError],
// others are kept. If only some paths cannot be written, the rest is done, and
// the error is a [*worktree.ApplyError].
func (r *Repository) Checkout(ctx context.Context, o CheckoutOptions) (refs.Head, error) {
	old, err := r.refs.Head()
	if err != nil {
		return old, err
	}
	if !o.Force {
		if err := r.noOperation(); err != nil {
			return old, err
		}
	}
	next, changes, err := r.checkoutTarget(ctx, old, o)
	if err != nil {
		return old, err
	}
	from, to, err := r.switchTrees(ctx, old.ID, next.ID, o.Force)
	if err != nil {
		return old, err
	}
	err = r.switchTree(ctx, tip{old.ID, from}, tip{next.ID, to}, o.Force, o.Progress, func(ctx context.Context) error {
		if len(changes) > 0 {
			if err := r.refs.Update(ctx, changes, r.who()); err != nil {
				return err
			}
		}
		if next != old {
			if err := r.refs.SetHead(ctx, next, r.who(), refs.CheckoutReason(old, next)); err != nil {
				return err
			}
		}
		if o.Force {
			return r.clearState(ctx)
		}
		return nil
	})
	if err != nil && !isPartial(err) {
		return old, err
	}
	return next, err
}

// switchTrees returns the trees of two commits between which HEAD is to be
// switched. With force, that of the first need not be here; if they are one
// commit, neither.
func (r *Repository) switchTrees(ctx context.Context, old, next object.ID, force bool) (from, to object.ID, err error) {
	read := r.commitTree
	if force || old == next {
		read = r.recordedTree
	}
	if from, err = read(ctx, old); err != nil || old == next && !force {
		return from, from, err
	}
	to, err = r.commitTree(ctx, next)
	return from, to, err
}

// checkoutTarget returns where HEAD is to be, and what happens to branches
// before.
func (r *Repository) checkoutTarget(ctx context.Context, old refs.Head, o CheckoutOptions) (refs.Head, []refs.Change, error) {
	rev := o.Rev
	if rev == "" || rev == "@" {
		rev = "HEAD"
	}
	if o.Create != "" {
		return r.createTarget(ctx, old, o, rev)
	}
	if !o.Detach && (rev == "HEAD" || old.Unborn() && rev == old.Branch) {
		return old, nil, nil
	}
	branch, err := r.branchName(ctx, rev)
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

// createTarget is checkoutTarget for a branch to be made.
func (r *Repository) createTarget(ctx context.Context, old refs.Head, o CheckoutOptions, rev string) (refs.Head, []refs.Change, error) {
	was, err := r.checkNew(refs.Heads, o.Create, o.Reset)
	if err != nil {
		return refs.Head{}, nil, err
	}
	if old.Unborn() && rev == "HEAD" { // the branch to come gets another name
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

// branchName returns the branch that a revision names, "" if it names none. A
// branch comes before a tag of the same name, other than where commits are
// named.
func (r *Repository) branchName(ctx context.Context, rev string) (string, error) {
	if refs.CheckName(refs.Heads+rev) == nil {
		_, err := r.refs.Get(refs.Heads + rev)
		if err == nil || !errors.Is(err, refs.ErrNotFound) {
			return rev, err
		}
	}
	name, err := r.refs.Expand(ctx, rev)
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

package kist

import (
	"context"
	"errors"
	"fmt"

	"github.com/kist-vcs/kist/refs"
)

// CheckoutOptions say where [Repository.Checkout] goes.
type CheckoutOptions struct {
	Rev      string // a branch, or any revision, which detaches HEAD; empty: HEAD
	Create   string // make this branch at Rev, and switch to it
	Detach   bool   // do not switch to the branch, only to its commit
	Force    bool   // give up local changes
	Progress Progress
}

// Checkout brings the worktree to a commit and HEAD with it. Local changes at
// paths that differ between HEAD and the commit are a [*LocalChangesError],
// others are kept.
func (r *Repository) Checkout(ctx context.Context, o CheckoutOptions) (refs.Head, error) {
	old, err := r.refs.Head()
	if err != nil {
		return old, err
	}
	if state, err := r.State(); err != nil {
		return old, err
	} else if state.Operation != "" && !o.Force {
		return old, state.inProgress()
	}
	next, changes, err := r.checkoutTarget(ctx, old, o)
	if err != nil {
		return old, err
	}
	from, err := r.commitTree(ctx, old.ID)
	if err != nil {
		return old, err
	}
	to, err := r.commitTree(ctx, next.ID)
	if err != nil {
		return old, err
	}
	message := fmt.Sprintf("checkout: moving from %s to %s", headName(old), headName(next))
	err = r.switchTree(ctx, from, to, o.Force, o.Progress, func(ctx context.Context) error {
		if len(changes) > 0 {
			if err := r.refs.Update(ctx, changes, r.who()); err != nil {
				return err
			}
		}
		if err := r.refs.SetHead(ctx, next, r.who(), message); err != nil {
			return err
		}
		if o.Force {
			return r.clearState(ctx)
		}
		return nil
	})
	if err != nil {
		return old, err
	}
	return next, nil
}

// checkoutTarget returns where HEAD is to be, and the branch to make first.
func (r *Repository) checkoutTarget(ctx context.Context, old refs.Head, o CheckoutOptions) (refs.Head, []refs.Change, error) {
	rev := o.Rev
	if rev == "" {
		rev = "HEAD"
	}
	if o.Create != "" {
		if old.ID.IsZero() && o.Rev == "" { // rename the branch that is to be
			return refs.Head{Branch: o.Create}, nil, refs.CheckName(refs.Heads + o.Create)
		}
		id, err := r.Resolve(ctx, rev)
		if err != nil {
			return refs.Head{}, nil, err
		}
		change := refs.Change{Name: refs.Heads + o.Create, New: id, Reason: "branch: created from " + rev}
		return refs.Head{Branch: o.Create, ID: id}, []refs.Change{change}, nil
	}
	branch, err := r.branchName(ctx, rev)
	if err != nil {
		return refs.Head{}, nil, err
	}
	name := rev
	if branch != "" {
		name = refs.Heads + branch
	}
	id, err := r.Resolve(ctx, name)
	switch {
	case errors.Is(err, refs.ErrNotFound) && rev == "HEAD":
		return old, nil, nil
	case err != nil:
		return refs.Head{}, nil, err
	case branch != "" && !o.Detach:
		return refs.Head{Branch: branch, ID: id}, nil, nil
	case rev == "HEAD" && !o.Detach:
		return old, nil, nil
	}
	return refs.Head{ID: id}, nil, nil
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
	branch, _ := refs.BranchOf(name)
	return branch, nil
}

// headName names HEAD for people.
func headName(h refs.Head) string {
	if h.Branch != "" {
		return h.Branch
	}
	return h.ID.String()
}

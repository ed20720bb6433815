package kist

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/history"
)

var (
	// ErrNameTaken is matched by the error for a branch or tag that exists.
	ErrNameTaken = errors.New("already exists")

	// ErrCheckedOut is matched by the error for a branch that cannot be
	// changed because HEAD is on it.
	ErrCheckedOut = errors.New("is checked out")

	// ErrNotMerged is matched by the error for a branch whose deletion would
	// leave commits without a name.
	ErrNotMerged = errors.New("is not fully merged")
)

// CreateBranch makes a branch at the commit that a revision names. With force
// it is moved if it exists, unless HEAD is on it.
func (r *Repository) CreateBranch(ctx context.Context, name, rev string, force bool) (object.ID, error) {
	was, err := r.checkNew(refs.Heads, name, force)
	if err != nil {
		return object.ID{}, err
	}
	if err := r.notCheckedOut(name); err != nil {
		return object.ID{}, err
	}
	id, err := r.Resolve(ctx, rev)
	if err != nil {
		return id, err
	}
	reason := "branch: created from " + rev
	if !was.IsZero() {
		reason = "branch: reset to " + rev
	}
	return id, r.updateRef(ctx, refs.Change{Name: refs.Heads + name, Old: was, New: id, Reason: reason})
}

// DeleteBranch deletes a branch, given its full name, and returns where it was.
// One whose commits neither HEAD has, nor, as far as was seen, its upstream, is
// only deleted with force.
func (r *Repository) DeleteBranch(ctx context.Context, name string, force bool) (object.ID, error) {
	id, err := r.refs.Get(name)
	if err != nil {
		return id, err
	}
	branch, local := refs.BranchOf(name)
	if local {
		if err := r.notCheckedOut(branch); err != nil {
			return id, err
		}
	}
	if local && !force {
		merged, err := r.isMerged(ctx, branch, id)
		if err != nil {
			return id, err
		}
		if !merged {
			return id, fmt.Errorf("branch %q %w", branch, ErrNotMerged)
		}
	}
	if err := r.updateRef(ctx, refs.Change{Name: name, Old: id, Reason: "branch: deleted"}); err != nil || !local {
		return id, err
	}
	return id, r.SetUpstream(ctx, branch, Upstream{})
}

// isMerged reports whether HEAD, or the upstream of a branch, has the commit
// that the branch is at.
func (r *Repository) isMerged(ctx context.Context, branch string, id object.ID) (bool, error) {
	head, err := r.refs.Head()
	if err != nil {
		return false, err
	}
	if !head.Unborn() {
		if merged, err := history.IsAncestor(ctx, r.objects, id, head.ID); merged || err != nil {
			return merged, err
		}
	}
	upstream, err := r.Upstream(branch)
	if errors.Is(err, ErrNoUpstream) {
		return false, nil
	}
	seen, err := r.refs.Get(upstream.Tracking())
	if errors.Is(err, refs.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return history.IsAncestor(ctx, r.objects, id, seen)
}

// RenameBranch gives a branch, the current one if from is empty, another name.
// With force a branch of that name is replaced, unless HEAD is on it.
func (r *Repository) RenameBranch(ctx context.Context, from, to string, force bool) error {
	head, err := r.refs.Head()
	if err != nil {
		return err
	}
	if from == "" {
		from = head.Branch
	}
	if from == "" {
		return errors.New("HEAD is on no branch that could be renamed")
	}
	if from == to {
		return nil
	}
	was, err := r.checkNew(refs.Heads, to, force)
	if err != nil {
		return err
	}
	if from == head.Branch && head.Unborn() {
		err := r.publish(ctx, func(ctx context.Context) error {
			return r.refs.SetHead(ctx, refs.Head{Branch: to}, r.who(), "")
		})
		if err != nil {
			return err
		}
		return r.moveUpstream(ctx, from, to)
	}
	if _, err := r.refs.Get(refs.Heads + from); err != nil {
		return err
	}
	if err := r.notCheckedOut(to); err != nil {
		return err
	}
	err = r.publish(ctx, func(ctx context.Context) error {
		if !was.IsZero() {
			change := refs.Change{Name: refs.Heads + to, Old: was, Reason: "branch: replaced by " + from}
			if err := r.refs.Update(ctx, []refs.Change{change}, r.who()); err != nil {
				return err
			}
		}
		return r.refs.Rename(ctx, refs.Heads+from, refs.Heads+to, r.who())
	})
	if err != nil {
		return err
	}
	return r.moveUpstream(ctx, from, to)
}

// moveUpstream gives one branch the upstream of another, which loses it.
func (r *Repository) moveUpstream(ctx context.Context, from, to string) error {
	upstream, err := r.Upstream(from)
	if err != nil && !errors.Is(err, ErrNoUpstream) {
		return err
	}
	if err := r.SetUpstream(ctx, to, upstream); err != nil {
		return err
	}
	return r.SetUpstream(ctx, from, Upstream{})
}

// notCheckedOut makes sure that HEAD is not on a branch.
func (r *Repository) notCheckedOut(branch string) error {
	head, err := r.refs.Head()
	if err == nil && head.Branch == branch {
		err = fmt.Errorf("branch %q %w", branch, ErrCheckedOut)
	}
	return err
}

// checkNew makes sure that a branch or tag, below prefix, can be made, and
// returns where it is if it exists and may.
func (r *Repository) checkNew(prefix, name string, mayExist bool) (object.ID, error) {
	if err := refs.CheckShort(name); err != nil {
		return object.ID{}, err
	}
	full := prefix + name
	id, err := r.refs.Get(full)
	switch {
	case err == nil && !mayExist:
		what := map[string]string{refs.Heads: "branch", refs.Tags: "tag"}[prefix]
		return id, fmt.Errorf("%s %q %w", what, name, ErrNameTaken)
	case err == nil || !errors.Is(err, refs.ErrNotFound):
		return id, err
	}
	// A ref is a file, and those with its name before a slash are in a folder.
	for at := strings.LastIndexByte(full, '/'); at >= len(prefix); at = strings.LastIndexByte(full[:at], '/') {
		if _, err := r.refs.Get(full[:at]); err == nil {
			return id, &refs.ConflictError{Name: full, With: full[:at]}
		}
	}
	if list, _ := r.refs.List(full + "/"); len(list) > 0 {
		return id, &refs.ConflictError{Name: full, With: list[0].Name}
	}
	return object.ID{}, nil
}

// updateRef publishes the change of a ref, and makes sure that what it names
// is still there.
func (r *Repository) updateRef(ctx context.Context, change refs.Change) error {
	return r.publish(ctx, func(ctx context.Context) error {
		if !change.New.IsZero() {
			commit, err := refs.Peel(ctx, r.objects, change.New)
			if err == nil {
				err = r.stillThere(ctx, commit)
			}
			if err != nil {
				return err
			}
		}
		return r.refs.Update(ctx, []refs.Change{change}, r.who())
	})
}

package commits

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/sshsig"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/history"
	"github.com/kist-vcs/kist/tree/work/checkout"
	"github.com/kist-vcs/kist/tree/work/operation"
)

var (
	// ErrCheckedOut is matched by the error for a branch that cannot be
	// changed because HEAD is on it.
	ErrCheckedOut = errors.New("is checked out")

	// ErrNotMerged is matched by the error for a branch whose deletion would
	// leave commits without a name.
	ErrNotMerged = errors.New("is not fully merged")
)

// CreateBranch makes a branch at the commit that a revision names. With force,
// an existing branch is moved, unless HEAD is on it.
func CreateBranch(ctx context.Context, r *kist.Repository, name, rev string, force bool) (object.ID, error) {
	change, err := checkout.NewBranch(ctx, r, name, rev, force)
	if err == nil {
		err = notCheckedOut(r, name)
	}
	if err == nil && !change.Old.IsZero() {
		err = notRebased(r, name)
	}
	if err != nil {
		return change.New, err
	}
	return change.New, r.Publish(ctx, func(tx *kist.Tx) { tx.Move(change) })
}

// DeleteBranch deletes a branch, given its full name, and returns its commit.
// Without force, HEAD or the remote-tracking branch of its upstream must reach
// that commit.
func DeleteBranch(ctx context.Context, r *kist.Repository, name string, force bool) (object.ID, error) {
	id, err := r.Refs().Get(name)
	if err != nil {
		return id, err
	}

	branch, local := refs.BranchOf(name)
	if local {
		if err := cmp.Or(notCheckedOut(r, branch), notRebased(r, branch)); err != nil {
			return id, err
		}
	}
	if local && !force {
		merged, err := isMerged(ctx, r, branch, id)
		if err != nil {
			return id, err
		}
		if !merged {
			return id, fmt.Errorf("branch %q %w", branch, ErrNotMerged)
		}
	}
	if local { // first, so that the call can be repeated if the disk is full
		if err := kist.SetUpstream(ctx, r, branch, kist.Upstream{}); err != nil {
			return id, err
		}
	}
	return id, r.Publish(ctx, func(tx *kist.Tx) { tx.Move(refs.Change{Name: name, Old: id, Reason: "branch: deleted"}) })
}

// isMerged reports whether HEAD or the upstream of a branch reaches id, the
// branch's commit.
func isMerged(ctx context.Context, r *kist.Repository, branch string, id object.ID) (bool, error) {
	head, err := r.Refs().Head()
	if err != nil {
		return false, err
	}
	if !head.Unborn() {
		if merged, err := history.IsAncestor(ctx, r.Objects(), id, head.ID); merged || err != nil {
			return merged, err
		}
	}

	upstream, err := kist.UpstreamOf(r, branch)
	if errors.Is(err, kist.ErrNoUpstream) {
		return false, nil
	}
	if err != nil {
		return false, err
	}

	seen, err := r.Refs().Get(upstream.Tracking())
	if errors.Is(err, refs.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}

	return history.IsAncestor(ctx, r.Objects(), id, seen)
}

// RenameBranch renames a branch; an empty from means the current one. With
// force, it replaces an existing branch, unless HEAD is on that.
func RenameBranch(ctx context.Context, r *kist.Repository, from, to string, force bool) error {
	m, err := newBranchMove(r, from, to, force)
	if err != nil || m.from == to {
		return err
	}
	err = r.Publish(ctx, func(tx *kist.Tx) {
		if m.unborn {
			tx.SetHead(refs.Head{Branch: to}, "")
			return
		}
		m.makeRoom(tx)
		tx.NoteStep(func(ctx context.Context) error {
			return r.Refs().Rename(ctx, refs.Heads+m.from, refs.Heads+to, r.Who())
		})
	})
	if err != nil {
		return err
	}

	return moveUpstream(ctx, r, m.from, to)
}

// CopyBranch copies a branch with its log and its upstream. It is like [RenameBranch]
// otherwise.
func CopyBranch(ctx context.Context, r *kist.Repository, from, to string, force bool) error {
	m, err := newBranchMove(r, from, to, force)
	switch {
	case err != nil || m.from == to:
		return err
	case m.unborn:
		return kist.ErrUnborn
	}
	err = r.Publish(ctx, func(tx *kist.Tx) {
		m.makeRoom(tx)
		tx.NoteStep(func(ctx context.Context) error {
			return refs.Copy(ctx, r.Refs(), refs.Heads+m.from, refs.Heads+to, r.Who())
		})
	})
	if err != nil {
		return err
	}

	upstream, err := kist.UpstreamOf(r, m.from)
	if err != nil && !errors.Is(err, kist.ErrNoUpstream) {
		return err
	}
	return kist.SetUpstream(ctx, r, to, upstream)
}

// branchMove is a checked renaming or copy of a branch.
type branchMove struct {
	from, to string
	was      object.ID // the commit of a branch that is replaced; zero: there is none
	unborn   bool      // from is HEAD's branch and has no commit
}

func newBranchMove(r *kist.Repository, from, to string, force bool) (m branchMove, err error) {
	head, err := r.Refs().Head()
	if err != nil {
		return m, err
	}
	m = branchMove{from: cmp.Or(from, head.Branch), to: to}
	if m.from == "" {
		return m, errors.New("HEAD is on no branch")
	}
	if m.from == to {
		return m, nil
	}

	var conflict *refs.ConflictError
	m.was, err = checkout.CheckNew(r, refs.Heads, to, force)
	if err != nil && (!errors.As(err, &conflict) || conflict.With != refs.Heads+m.from) {
		return m, err // a rename moves the branch itself out of the way
	}
	if m.unborn = m.from == head.Branch && head.Unborn(); m.unborn {
		return m, nil
	}
	if _, err := r.Refs().Get(refs.Heads + m.from); err != nil {
		return m, err
	}
	for _, branch := range []string{m.from, to} {
		if err := notRebased(r, branch); err != nil {
			return m, err
		}
	}
	return m, notCheckedOut(r, to)
}

// makeRoom notes the deletion of the branch that is replaced.
func (m branchMove) makeRoom(tx *kist.Tx) {
	if !m.was.IsZero() {
		tx.Move(refs.Change{Name: refs.Heads + m.to, Old: m.was, Reason: "branch: replaced by " + m.from})
	}
}

// moveUpstream moves the upstream of one branch to another.
func moveUpstream(ctx context.Context, r *kist.Repository, from, to string) error {
	upstream, err := kist.UpstreamOf(r, from)
	if err != nil && !errors.Is(err, kist.ErrNoUpstream) {
		return err
	}
	if err := kist.SetUpstream(ctx, r, to, upstream); err != nil {
		return err
	}
	return kist.SetUpstream(ctx, r, from, kist.Upstream{})
}

// notCheckedOut makes sure that HEAD is not on a branch.
func notCheckedOut(r *kist.Repository, branch string) error {
	head, err := r.Refs().Head()
	if err == nil && head.Branch == branch {
		err = fmt.Errorf("branch %q %w", branch, ErrCheckedOut)
	}
	return err
}

// notRebased makes sure that no rebase moves a branch.
func notRebased(r *kist.Repository, branch string) error {
	state, err := operation.Current(r)
	if err == nil && state.Branch == refs.Heads+branch {
		err = fmt.Errorf("branch %q: %w", branch, state.InProgress())
	}
	return err
}

// TagOptions configure [CreateTag].
type TagOptions struct {
	Name     string
	Rev      string // the commit
	Message  string // message of an annotated tag
	Annotate bool   // make an annotated tag even without a message; otherwise, it is only a name
	Force    bool   // replace a tag of this name
}

// CreateTag makes a tag and returns its new and its former value. An annotated
// tag is an object of its own that records who made it, when and why.
func CreateTag(ctx context.Context, r *kist.Repository, o TagOptions) (id, was object.ID, err error) {
	if was, err = checkout.CheckNew(r, refs.Tags, o.Name, o.Force); err != nil {
		return id, was, err
	}
	err = r.Update(ctx, func(tx *kist.Tx) error {
		id, err = createTag(ctx, tx, o, was)
		return err
	})
	return id, was, err
}

func createTag(ctx context.Context, tx *kist.Tx, o TagOptions, was object.ID) (object.ID, error) {
	r := tx.Repository()
	id, err := r.Resolve(ctx, o.Rev)
	if err != nil {
		return id, err
	}

	change := refs.Change{Name: refs.Tags + o.Name, Old: was, New: id, Reason: "tag: " + o.Rev}
	if o.Message != "" || o.Annotate {
		tag := &object.Tag{Target: id, Name: o.Name, Tagger: r.Stamp(), Message: o.Message}
		if kist.SignsTags(r) {
			if err := sshsig.SignTag(ctx, kist.SignerOf(r), tag); err != nil {
				return id, err
			}
		}
		if change.New, err = object.PutNode(ctx, tx, object.KindTag, tag); err != nil {
			return id, err
		}
	}
	tx.Move(change)
	return change.New, nil
}

// DeleteTag deletes a tag and returns its value.
func DeleteTag(ctx context.Context, r *kist.Repository, name string) (object.ID, error) {
	id, err := r.Refs().Get(refs.Tags + name)
	if errors.Is(err, refs.ErrNotFound) {
		return id, fmt.Errorf("tag %q: %w", name, err)
	}
	if err != nil {
		return id, err
	}
	return id, r.Publish(ctx, func(tx *kist.Tx) { tx.Move(refs.Change{Name: refs.Tags + name, Old: id}) })
}

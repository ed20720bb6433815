package kist

import (
	"context"
	"errors"
	"fmt"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/tree"
)

// RevertOptions say what [Repository.Revert] undoes, and how.
type RevertOptions struct {
	Commits  []object.ID // in the order in which they are undone
	Parent   int         // of merge commits: which parent, from 1, to go back to
	NoCommit bool        // stop before the commits
	Progress Progress
}

// RevertResult tells what came of a revert, also if there is an error after
// some commits.
type RevertResult struct {
	Commits   []*CommitResult // what was committed
	Nothing   []object.ID     // what was undone already
	Stopped   object.ID       // the commit that has the conflicts; zero if there are none
	Conflicts []tree.Conflict // left to be resolved
	Rest      []object.ID     // the commits after it
}

// ErrWhichParent says that a merge cannot be reverted without saying to which
// of its parents to go back, or that another commit has no such parent.
var ErrWhichParent = errors.New("which parent?")

// Revert makes commits that undo what others changed. It stops at conflicts,
// which are left as [Repository.Merge] leaves them; [Repository.Continue] goes
// on. Nothing may be staged before, unless NoCommit is set. If only some paths
// cannot be written, the rest is done, and the error is a
// [*worktree.ApplyError].
func (r *Repository) Revert(ctx context.Context, o RevertOptions) (*RevertResult, error) {
	state, err := r.State()
	if err != nil {
		return nil, err
	}
	// More can be undone before a commit is made of it all.
	if more := o.NoCommit && state.Operation == Reverting && len(state.Rest) == 0; state.Operation != "" && !more {
		return nil, state.inProgress()
	}
	for _, id := range o.Commits {
		if _, _, err := r.undone(ctx, id, o.Parent); err != nil {
			return nil, err
		}
	}
	head, _, err := r.headCommit(ctx)
	if err != nil {
		return nil, err
	}
	return r.revertAll(ctx, o, head.ID)
}

// revertAll reverts commits, given where HEAD was before the first of all.
func (r *Repository) revertAll(ctx context.Context, o RevertOptions, start object.ID) (*RevertResult, error) {
	result := &RevertResult{}
	var partial error
	for i, id := range o.Commits {
		head, ours, err := r.headCommit(ctx)
		if err != nil {
			return result, err
		}
		m, err := r.revertOf(ctx, id, o.Parent)
		if err != nil {
			return result, err
		}
		m.head, m.ours, m.noCommit, m.progress = head, ours.Tree, o.NoCommit, o.Progress
		m.state.Start, m.state.Left, m.state.Rest, m.state.Parent = start, head.ID, o.Commits[i+1:], o.Parent
		if o.NoCommit {
			staged, err := r.writeIndex(ctx)
			if err != nil {
				return result, err
			}
			m.ours, m.state.Rest = staged, nil
		} else if err := r.nothingStaged(ctx, ours.Tree); err != nil {
			return result, err
		}
		done, err := r.merge(ctx, m)
		if done == nil {
			return result, err
		}
		partial = errors.Join(partial, err)
		switch {
		case len(done.conflicts) > 0:
			result.Stopped, result.Conflicts, result.Rest = id, done.conflicts, o.Commits[i+1:]
			return result, partial
		case done.commit != nil:
			result.Commits = append(result.Commits, done.commit)
		case !o.NoCommit:
			result.Nothing = append(result.Nothing, id)
		}
	}
	return result, partial
}

// revertOf returns the merge that undoes a commit.
func (r *Repository) revertOf(ctx context.Context, id object.ID, parent int) (*threeWay, error) {
	c, before, err := r.undone(ctx, id, parent)
	if err == nil {
		err = r.usable(ctx, id)
	}
	if err != nil {
		return nil, err
	}
	to, err := r.commitTree(ctx, before)
	if err != nil {
		return nil, err
	}
	message := fmt.Sprintf("Revert \"%s\"\n\nThis reverts commit %s", subject(c.Message), id)
	if len(c.Parents) > 1 {
		message += fmt.Sprintf(", reversing\nchanges made to %s", before)
	}
	return &threeWay{
		theirs: to,
		needs:  []object.ID{before},
		base:   func(context.Context, object.ReadWriter) (object.ID, error) { return c.Tree, nil },
		labels: tree.Labels{Ours: "HEAD", Theirs: "parent of " + id.Short()},
		state:  State{Operation: Reverting, Other: id, Message: message + "."},
	}, nil
}

// undone returns a commit to be reverted, and the parent to go back to, zero if
// it has none.
func (r *Repository) undone(ctx context.Context, id object.ID, parent int) (*object.Commit, object.ID, error) {
	c, err := object.ReadCommit(ctx, r.objects, id)
	if err != nil {
		return nil, object.ID{}, err
	}
	switch n := len(c.Parents); {
	case n > 1 && parent == 0:
		return nil, object.ID{}, fmt.Errorf("commit %s is a merge of %d: %w", id.Short(), n, ErrWhichParent)
	case parent > n:
		return nil, object.ID{}, fmt.Errorf("commit %s has no parent %d: %w", id.Short(), parent, ErrWhichParent)
	case n == 0:
		return c, object.ID{}, nil
	default:
		return c, c.Parents[max(parent, 1)-1], nil
	}
}

// writeIndex stores what is staged as a tree.
func (r *Repository) writeIndex(ctx context.Context) (object.ID, error) {
	session := r.objects.Begin(volume.SessionOptions{})
	defer session.Close()
	_, idx, err := r.trusted(ctx, session)
	if err != nil {
		return object.ID{}, err
	}
	if err := Unresolved(idx.Conflicts()); err != nil {
		return object.ID{}, err
	}
	info, err := idx.WriteTree(ctx, session)
	if err != nil {
		return object.ID{}, err
	}
	return info.ID, session.Publish(ctx, func(context.Context) error { return nil })
}

// Continue ends the step of a revert whose conflicts have been resolved with a
// commit, and goes on with the commits that are left.
func (r *Repository) Continue(ctx context.Context, progress Progress) (*RevertResult, error) {
	state, err := r.State()
	if err != nil {
		return nil, err
	}
	if state.Operation != Reverting {
		return nil, fmt.Errorf("a %s is %w", Reverting, ErrNotInProgress)
	}
	result := &RevertResult{}
	if state.Stopped {
		switch done, err := r.Commit(ctx, CommitOptions{}); {
		case err == nil:
			result.Commits = append(result.Commits, done)
		case errors.Is(err, ErrNothingToCommit):
			result.Nothing = append(result.Nothing, state.Other)
			if err := r.endStep(ctx, state); err != nil {
				return nil, err
			}
		default:
			return nil, err
		}
	}
	rest, err := r.revertAll(ctx, RevertOptions{Commits: state.Rest, Parent: state.Parent, Progress: progress}, state.Start)
	rest.Commits = append(result.Commits, rest.Commits...)
	rest.Nothing = append(result.Nothing, rest.Nothing...)
	return rest, err
}

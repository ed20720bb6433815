package commits

import (
	"context"
	"errors"
	"fmt"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs/intact"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/operation"
	"github.com/kist-vcs/kist/tree/stage"
	"github.com/kist-vcs/kist/tree/view"
)

// RevertOptions configure [Revert].
type RevertOptions struct {
	Commits  []object.ID // the commits to undo, in this order
	Parent   int         // for merge commits: the parent to go back to, counted from 1
	NoCommit bool        // stop before the commits
	Progress kist.Progress
}

// RevertResult is the result of [Revert], also after an error.
type RevertResult struct {
	Commits   []*CommitResult // the new commits
	Nothing   []object.ID     // commits without an effect to undo
	Stopped   object.ID       // the commit with conflicts, or zero
	Conflicts []tree.Conflict // conflicts to resolve
	Rest      []object.ID     // the commits after Stopped
}

// ErrWhichParent means that the user must choose a parent to revert a merge,
// or that a commit does not have the chosen parent.
var ErrWhichParent = errors.New("which parent?")

// Revert makes commits that undo other commits. It stops at conflicts and
// leaves them as [Merge] does; [Continue] goes on. Nothing may be staged
// before, unless NoCommit is set. If only some paths cannot be written, the
// rest is done, and the error is a [*worktree.ApplyError].
func Revert(ctx context.Context, r *kist.Repository, o RevertOptions) (*RevertResult, error) {
	state, err := operation.Current(r)
	if err != nil {
		return nil, err
	}

	// With NoCommit, several reverts may go into one commit.
	if more := o.NoCommit && state.Operation == operation.Reverting && len(state.Rest) == 0; state.Operation != "" && !more {
		return nil, state.InProgress()
	}

	for _, id := range o.Commits {
		if _, _, err := undone(ctx, r, id, o.Parent); err != nil {
			return nil, err
		}
	}

	head, _, err := view.HeadCommit(ctx, r)
	if err != nil {
		return nil, err
	}

	return revertAll(ctx, r, o, head.ID)
}

// revertAll reverts commits. Start is HEAD's commit before the first of them.
func revertAll(ctx context.Context, r *kist.Repository, o RevertOptions, start object.ID) (*RevertResult, error) {
	result := &RevertResult{}
	var partial error
	for i, id := range o.Commits {
		head, ours, err := view.HeadCommit(ctx, r)
		if err != nil {
			return result, err
		}
		m, err := revertOf(ctx, r, id, o.Parent)
		if err != nil {
			return result, err
		}
		m.head, m.ours, m.noCommit, m.progress = head, ours.Tree, o.NoCommit, o.Progress
		m.state.Start, m.state.Left, m.state.Rest, m.state.Parent = start, head.ID, o.Commits[i+1:], o.Parent
		if o.NoCommit {
			staged, err := writeIndex(ctx, r)
			if err != nil {
				return result, err
			}
			m.ours, m.state.Rest = staged, nil
		} else if err := NothingStaged(ctx, r, ours.Tree); err != nil {
			return result, err
		}
		done, err := merge(ctx, r, m)
		if done == nil {
			return result, err
		}
		partial = errors.Join(partial, err)
		switch {
		case len(done.Conflicts) > 0:
			result.Stopped, result.Conflicts, result.Rest = id, done.Conflicts, o.Commits[i+1:]
			return result, partial
		case done.Commit != nil:
			result.Commits = append(result.Commits, done.Commit)
		case !o.NoCommit:
			result.Nothing = append(result.Nothing, id)
		}
	}

	return result, partial
}

// revertOf returns the merge that undoes a commit.
func revertOf(ctx context.Context, r *kist.Repository, id object.ID, parent int) (*threeWay, error) {
	c, before, err := undone(ctx, r, id, parent)
	if err == nil {
		err = intact.Usable(ctx, r, id)
	}
	if err != nil {
		return nil, err
	}

	to, err := intact.CommitTree(ctx, r, before)
	if err != nil {
		return nil, err
	}

	message := fmt.Sprintf("Revert \"%s\"\n\nThis reverts commit %s", stage.Subject(c.Message), id)
	if len(c.Parents) > 1 {
		message += fmt.Sprintf(", reversing\nchanges made to %s", before)
	}

	return &threeWay{
		theirs: to,
		needs:  []object.ID{before},
		base:   func(context.Context, object.ReadWriter) (object.ID, error) { return c.Tree, nil },
		labels: tree.Labels{Ours: "HEAD", Theirs: "parent of " + id.Short()},
		state:  operation.State{Operation: operation.Reverting, Other: id, Message: message + "."},
	}, nil
}

// undone returns a commit to revert and the parent to go back to, zero if it
// has none.
func undone(ctx context.Context, r *kist.Repository, id object.ID, parent int) (*object.Commit, object.ID, error) {
	c, err := object.ReadCommit(ctx, r.Objects(), id)
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

// writeIndex stores the index as a tree.
func writeIndex(ctx context.Context, r *kist.Repository) (object.ID, error) {
	session := r.Objects().Begin(volume.SessionOptions{})
	defer session.Close()

	_, idx, err := ReadTrusted(ctx, r, session)
	if err != nil {
		return object.ID{}, err
	}

	info, err := idx.WriteTree(ctx, session)
	if err != nil {
		return object.ID{}, err
	}

	return info.ID, session.Publish(ctx, func(context.Context) error { return nil })
}

// Continue commits the resolved step of a revert and goes on with the
// remaining commits.
func Continue(ctx context.Context, r *kist.Repository, progress kist.Progress) (*RevertResult, error) {
	state, err := operation.Current(r)
	if err != nil {
		return nil, err
	}
	if state.Operation != operation.Reverting {
		return nil, fmt.Errorf("a %s is %w", operation.Reverting, operation.ErrNotInProgress)
	}

	result := &RevertResult{}
	if state.Stopped {
		switch done, err := Commit(ctx, r, CommitOptions{}); {
		case err == nil:
			result.Commits = append(result.Commits, done)
		case errors.Is(err, ErrNothingToCommit):
			result.Nothing = append(result.Nothing, state.Other)
			if err := operation.EndStep(ctx, r, state); err != nil {
				return nil, err
			}
		default:
			return nil, err
		}
	}

	rest, err := revertAll(ctx, r, RevertOptions{Commits: state.Rest, Parent: state.Parent, Progress: progress}, state.Start)
	rest.Commits = append(result.Commits, rest.Commits...)
	rest.Nothing = append(result.Nothing, rest.Nothing...)
	return rest, err
}

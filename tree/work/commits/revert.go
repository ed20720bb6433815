package commits

import (
	"context"
	"errors"
	"fmt"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/look/compare"
	"github.com/kist-vcs/kist/tree/work/operation"
)

// RevertOptions configure [Revert] and [CherryPick].
type RevertOptions struct {
	Commits  []object.ID // in this order
	Parent   int         // of merge commits: the parent to compare with, counted from 1
	NoCommit bool        // stop before the commits
	Origin   bool        // of CherryPick: messages name the picked commits
	StepOptions
}

// ErrWhichParent means that the user must choose a parent to revert or pick a
// merge, or that a commit does not have the chosen parent.
var ErrWhichParent = errors.New("which parent?")

// Revert makes commits that undo other commits. It stops at conflicts and
// leaves them as [Merge] does; [Continue] goes on. Nothing may be staged
// before, unless NoCommit is set. If only some paths cannot be written, the
// rest is done, and the error is a [*worktree.ApplyError].
func Revert(ctx context.Context, r *kist.Repository, o RevertOptions) (*StepsResult, error) {
	return begin(ctx, r, operation.Reverting, operation.Revert, o)
}

// CherryPick repeats the changes of commits on HEAD's branch. The new commits keep message,
// author and author's time. Errors and conflicts are as for [Revert].
func CherryPick(ctx context.Context, r *kist.Repository, o RevertOptions) (*StepsResult, error) {
	do := operation.Pick
	if o.Origin {
		do = operation.PickFrom
	}
	if o.NoCommit {
		do = operation.Apply
	}
	return begin(ctx, r, operation.Picking, do, o)
}

// begin begins a revert or cherry-pick.
func begin(ctx context.Context, r *kist.Repository, op operation.Operation, do operation.Action, o RevertOptions) (*StepsResult, error) {
	state, err := operation.Current(r)
	if err != nil {
		return nil, err
	}

	// With NoCommit, several may go into one commit.
	more := o.NoCommit && state.Operation == op && state.Stopped && len(state.Rest) == 0
	if state.Operation != "" && !more {
		return nil, state.InProgress()
	}

	for _, id := range o.Commits {
		if _, _, err := compared(ctx, r, id, o.Parent); err != nil {
			return nil, err
		}
	}

	head, _, err := compare.HeadCommit(ctx, r)
	if err != nil {
		return nil, err
	}

	s := &sequence{r: r, StepOptions: o.StepOptions, result: &StepsResult{}, noCommit: o.NoCommit, recorded: more}
	if more {
		s.State = state
	} else {
		s.State = operation.State{Operation: op, Start: head.ID}
	}
	s.Parent = o.Parent
	if o.NoCommit {
		return s.applyUncommitted(ctx, operation.StepsOf(do, o.Commits))
	}
	s.Rest = operation.StepsOf(do, o.Commits)
	return s.runSteps(ctx)
}

// applyUncommitted carries out steps without commits, over the index.
func (s *sequence) applyUncommitted(ctx context.Context, steps []operation.Step) (*StepsResult, error) {
	for i, step := range steps {
		head, at, err := compare.HeadCommit(ctx, s.r)
		if err != nil {
			return s.result, err
		}
		ours, err := writeIndex(ctx, s.r)
		if err != nil {
			return s.result, err
		}
		s.Rest = []operation.Step{step}
		done, err := s.mergeNextStep(ctx, head, at, ours)
		if err != nil {
			return s.result, err
		}
		if len(done.Conflicts) > 0 {
			s.result.Stopped, s.result.Conflicts = step.Commit, done.Conflicts
			for _, left := range steps[i+1:] {
				s.result.Rest = append(s.result.Rest, left.Commit)
			}
			break
		}
		if s.State, err = operation.Current(s.r); err != nil {
			return s.result, err
		}
	}

	return s.result, s.partial
}

// revertOf returns the merge that undoes a commit.
func revertOf(ctx context.Context, r *kist.Repository, id object.ID, parent int) (*threeWay, error) {
	c, before, err := compared(ctx, r, id, parent)
	if err == nil {
		err = kist.CheckUsable(ctx, r, id)
	}
	if err != nil {
		return nil, err
	}

	to, err := kist.CommitTree(ctx, r, before)
	if err != nil {
		return nil, err
	}

	message := fmt.Sprintf("Revert \"%s\"\n\nThis reverts commit %s", c.Subject(), id)
	if len(c.Parents) > 1 {
		message += fmt.Sprintf(", reversing\nchanges made to %s", before)
	}

	return &threeWay{
		from:   c,
		theirs: to,
		needs:  []object.ID{before},
		base:   func(context.Context, object.ReadWriter) (object.ID, error) { return c.Tree, nil },
		labels: tree.Labels{Ours: "HEAD", Theirs: "parent of " + id.Short()},
		state:  operation.State{Message: message + "."},
	}, nil
}

// compared returns a commit and the parent that its changes are compared with, zero
// if it has none.
func compared(ctx context.Context, r *kist.Repository, id object.ID, parent int) (*object.Commit, object.ID, error) {
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
	tx := r.Begin(volume.SessionOptions{})
	defer tx.Close()

	_, idx, err := tx.ReadTrusted(ctx)
	if err != nil {
		return object.ID{}, err
	}
	info, err := idx.WriteTree(ctx, tx)
	if err != nil {
		return object.ID{}, err
	}
	return info.ID, tx.Publish(ctx)
}

// Continue commits the resolved step of an operation and goes on with the remaining
// steps. If a rebase stopped to edit a commit, Continue adds the staged changes to it.
func Continue(ctx context.Context, r *kist.Repository, op operation.Operation, o StepOptions) (*StepsResult, error) {
	s, head, err := resume(r, op, o)
	if err != nil {
		return nil, err
	}
	if err := s.completeKilled(ctx, head); err != nil {
		return nil, err
	}

	var done *CommitResult
	switch {
	case s.Stopped:
		done, err = Commit(ctx, r, CommitOptions{Brief: o.Brief, step: true})
	case s.Doing == operation.Edit:
		err = s.amendHead(ctx)
	}
	switch {
	case errors.Is(err, ErrNothingToCommit):
		s.result.Nothing = append(s.result.Nothing, s.Other)
		s.Rest = dropped(s.Rest)
		if err := s.endStep(ctx); err != nil {
			return nil, err
		}
	case err != nil:
		return nil, err
	case done != nil:
		s.result.Commits = append(s.result.Commits, done)
		s.Left = done.ID
	}

	s.Doing, s.Stopped = "", false
	return s.runSteps(ctx)
}

// amendHead adds the staged changes to HEAD's commit and ends the step.
func (s *sequence) amendHead(ctx context.Context) error {
	_, c, err := compare.HeadCommit(ctx, s.r)
	if err != nil {
		return err
	}
	staged, err := compare.OfIndex(ctx, s.r)
	if err != nil {
		return err
	}
	s.Doing = ""
	if staged.Tree != c.Tree {
		if _, err := Commit(ctx, s.r, CommitOptions{Amend: true, Brief: s.Brief}); err != nil {
			return err
		}
	}
	return s.endStep(ctx)
}

// endStep records that the step at hand is over.
func (s *sequence) endStep(ctx context.Context) error {
	return s.r.Publish(ctx, func(tx *kist.Tx) { operation.EndStep(tx, s.State) })
}

// Skip gives up the step at hand, with its changes, and goes on with the remaining
// steps.
func Skip(ctx context.Context, r *kist.Repository, op operation.Operation, o StepOptions) (*StepsResult, error) {
	s, head, err := resume(r, op, o)
	if err != nil {
		return nil, err
	}
	if err := s.completeKilled(ctx, head); err != nil {
		return nil, err
	}

	switch {
	case s.Doing == "" && s.To.IsZero() && len(s.Rest) > 0 && s.Rest[0].Do == operation.Reword:
		s.Rest = s.Rest[1:] // the message stays
	case s.Doing == "" && s.To.IsZero() && op == operation.Rebasing: // the user has committed the step
	case s.Doing == "" && s.To.IsZero():
		return nil, fmt.Errorf("a step of the %s is %w", op, operation.ErrNotInProgress)
	case s.Doing != "":
		if s.partial, err = abortStep(ctx, r, nil, o.Progress); err != nil {
			return nil, err
		}
		if !s.Doing.Amends() && s.Doing != operation.Edit {
			s.Rest = dropped(s.Rest)
		}
	}
	s.Doing, s.Stopped = "", false
	if s.To.IsZero() {
		if err := s.endStep(ctx); err != nil {
			return nil, err
		}
	}
	return s.runSteps(ctx)
}

// resume returns the sequence of the operation in progress, and HEAD.
func resume(r *kist.Repository, op operation.Operation, o StepOptions) (*sequence, refs.Head, error) {
	head, err := r.Refs().Head()
	if err != nil {
		return nil, head, err
	}
	state, err := operation.Current(r)
	if err == nil && state.Operation != op {
		err = fmt.Errorf("a %s is %w", op, operation.ErrNotInProgress)
	}
	return &sequence{r: r, State: state, StepOptions: o, result: &StepsResult{}, onto: state.Onto.String(), recorded: true}, head, err
}

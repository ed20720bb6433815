// Package operation records an operation in progress, such as a merge with
// conflicts, so that a later command can continue or abort it.
package operation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
)

// Operation is an operation that can stop to let the user decide.
type Operation string

// The operations that can be in progress. Messages contain these names.
const (
	Merging   Operation = "merge"
	Reverting Operation = "revert"
	Picking   Operation = "cherry-pick"
	Rebasing  Operation = "rebase"
)

// ErrInProgress is matched by the error of an operation that cannot begin
// because another one is under way.
var ErrInProgress = errors.New("in progress")

// ErrNotInProgress is matched by the error for an operation that cannot be
// continued or aborted because it is not under way.
var ErrNotInProgress = errors.New("not in progress")

// State is the operation under way in a repository; zero if there is none. All
// operations except a merge are sequences of steps.
type State struct {
	Operation Operation
	Other     object.ID // the commit of the merge or of the step at hand, or of the next step
	Message   string    // default message of the commit that ends the step

	// Doing is the step at hand that waits for the user. It is empty between two
	// steps. Stopped means that the step, or the merge, waits for a commit.
	Doing   Action
	Stopped bool

	Rest   []Step    // the steps after the one at hand
	Parent int       // of merge commits: the parent that a step compares with
	Start  object.ID // HEAD's commit before the first step
	Left   object.ID // HEAD's commit when the step at hand began; zero: no step has begun

	// To is a finished commit that worktree, index and HEAD are being brought to. It
	// is zero otherwise.
	To object.ID

	// Of a rebase.
	Branch string    // its full name; empty: HEAD was detached
	Onto   object.ID // the commit below the new ones
	Stash  object.ID // the stash to apply at the end; zero: none
}

// InProgress returns the error of an operation that cannot begin because of s.
func (s State) InProgress() error {
	return fmt.Errorf("a %s is %w", s.Operation, ErrInProgress)
}

// Untouched reports whether s is a rebase that is recorded, but has not begun to move HEAD.
func (s State) Untouched() bool {
	return s.Operation == Rebasing && s.Left.IsZero() && s.To.IsZero()
}

// Commits returns all commits that s needs.
func (s State) Commits() []object.ID {
	ids := []object.ID{s.Other, s.Start, s.Left, s.To, s.Onto, s.Stash}
	for _, step := range s.Rest {
		ids = append(ids, step.Commit)
	}
	return slices.DeleteFunc(ids, object.ID.IsZero)
}

var stateNames = map[Operation]string{
	Merging: refs.MergeHead, Reverting: refs.RevertHead, Picking: refs.PickHead, Rebasing: refs.RebaseHead,
}

// Current returns the operation under way. If there is none, the state may still have
// a default message for the next commit: that of squashed commits.
func Current(r *kist.Repository) (State, error) {
	head, err := r.Refs().Head()
	if err != nil {
		return State{}, err
	}
	return CurrentAt(r, head)
}

// CurrentAt returns what [Current] returns, for a caller that has read HEAD.
func CurrentAt(r *kist.Repository, head refs.Head) (State, error) {
	s, err := current(r, head)
	if err != nil || s.Operation != "" {
		return s, err
	}
	text, err := message(r, refs.SquashMsg)
	if id, rest, _ := strings.Cut(text, "\n"); err == nil && id == head.ID.String() {
		s.Message = rest
	}
	return s, err
}

func current(r *kist.Repository, head refs.Head) (State, error) {
	id, err := special(r, refs.MergeHead)
	if err != nil {
		return State{}, err
	}
	if !id.IsZero() {
		began, err := special(r, refs.OrigHead)
		if err != nil {
			return State{}, err
		}
		if began.IsZero() || began == head.ID { // otherwise the merge is committed
			s := State{Operation: Merging, Other: id, Stopped: true}
			s.Message, err = message(r, refs.MergeMsg)
			return s, err
		}
	}

	s, err := Recorded(r)
	if err != nil || s.Operation == "" {
		return State{}, err
	}
	return s.atHead(r, head)
}

// atHead completes s, a recorded sequence of steps, by the present HEAD. If HEAD moved
// since the step at hand began, the step is committed, and at removes it from Rest.
func (s State) atHead(r *kist.Repository, head refs.Head) (State, error) {
	id, err := special(r, stateNames[s.Operation])
	if err != nil {
		return State{}, err
	}

	waits := !id.IsZero() && head.ID == s.Left
	switch {
	case s.Operation == Rebasing && head.Branch != "":
		return s.onBranch(r)
	case s.Operation == Rebasing && waits && id == s.Left:
		s.Doing, s.Other = Edit, id
	case !id.IsZero() && len(s.Rest) > 0 && s.Rest[0].Commit == id:
		if waits {
			s.Doing, s.Stopped, s.Other = s.Rest[0].Do, true, id
			s.Message, err = message(r, refs.MergeMsg)
		}
		s.Rest = s.Rest[1:]
	}
	if s.Doing == "" && len(s.Rest) > 0 {
		s.Other = s.Rest[0].Commit
	}
	if s.Doing == "" && len(s.Rest) == 0 && s.To.IsZero() && s.Operation != Rebasing {
		return State{}, err
	}

	return s, err
}

// onBranch completes s, a rebase, if HEAD is on a branch: the rebase has not begun or is over,
// or an abort was killed before it applied the stash.
func (s State) onBranch(r *kist.Repository) (State, error) {
	if s.Branch != "" {
		id, err := r.Refs().Get(s.Branch)
		if errors.Is(err, refs.ErrNotFound) || err == nil && id != s.Start {
			return State{}, nil // the steps are those of another commit
		}
		if err != nil {
			return State{}, err
		}
	}
	if !s.Left.IsZero() {
		if s.Stash.IsZero() {
			return State{}, nil
		}
		s.Left, s.To = object.ID{}, object.ID{}
	}
	if len(s.Rest) > 0 {
		s.Other = s.Rest[0].Commit
	}
	return s, nil
}

// special returns a commit that commands leave for each other, zero if there is none.
func special(r *kist.Repository, name string) (object.ID, error) {
	id, err := r.Refs().Special(name)
	if errors.Is(err, refs.ErrNotFound) {
		return object.ID{}, nil
	}
	return id, err
}

// message returns a text that commands leave for each other, "" if there is none.
func message(r *kist.Repository, name string) (string, error) {
	text, err := r.Refs().Message(name)
	if errors.Is(err, refs.ErrNotFound) {
		return "", nil
	}
	return text, err
}

// NoOperation returns an error if an operation is under way that is none of except.
func NoOperation(r *kist.Repository, except ...Operation) error {
	state, err := Current(r)
	if err == nil && state.Operation != "" && !slices.Contains(except, state.Operation) {
		err = state.InProgress()
	}
	return err
}

// SetState notes that an operation is under way from now on. The step at hand of a sequence, if
// any, is the commit Other with the action Doing.
func SetState(tx *kist.Tx, s State) {
	r := tx.Repository()
	tx.NoteStep(func(ctx context.Context) error {
		if s.Operation == Merging {
			head, err := r.Refs().Head()
			if err != nil {
				return err
			}
			if err := r.Refs().SetSpecial(ctx, refs.OrigHead, head.ID); err != nil {
				return err
			}
		}
		if s.Doing == "" && s.Operation != Merging {
			if err := r.Refs().ClearSpecial(ctx, stateNames[s.Operation]); err != nil {
				return err
			}
			return s.recordSequence(ctx, r)
		}

		if err := r.Refs().SetMessage(ctx, refs.MergeMsg, s.Message); err != nil {
			return err
		}
		if s.Operation != Merging {
			if err := s.recordSequence(ctx, r); err != nil {
				return err
			}
		}
		return r.Refs().SetSpecial(ctx, stateNames[s.Operation], s.Other)
	})
}

// SetSquashed notes the default message of the next commit, unless HEAD moves before.
// No operation is in progress.
func SetSquashed(tx *kist.Tx, message string) {
	r := tx.Repository()
	tx.NoteStep(func(ctx context.Context) error {
		head, err := r.Refs().Head()
		if err != nil {
			return err
		}
		return r.Refs().SetMessage(ctx, refs.SquashMsg, head.ID.String()+"\n"+message)
	})
}

// EndStep notes that the operation no longer waits for a commit. The operation
// ends, unless it has further steps or is a rebase, whose branch must still move.
func EndStep(tx *kist.Tx, s State) {
	tx.NoteStep(func(ctx context.Context) error { return s.endStep(ctx, tx.Repository()) })
}

// EndCommitted is EndStep for a step whose commit exists by then, so an error is only a warning.
func EndCommitted(tx *kist.Tx, s State) {
	tx.NoteStep(func(ctx context.Context) error {
		if err := s.endStep(ctx, tx.Repository()); err != nil {
			tx.Repository().Options().Warn(fmt.Sprintf("the state of the %s could not be removed: %v", s.Operation, err))
		}
		return nil
	})
}

// endStep is EndStep, at once.
func (s State) endStep(ctx context.Context, r *kist.Repository) error {
	switch {
	case s.Operation == "" && s.Message == "":
		return nil
	case s.Operation == "":
		return r.Refs().ClearSpecial(ctx, refs.SquashMsg)
	case len(s.Rest) == 0 && s.Operation != Rebasing:
		return clear(ctx, r)
	}

	s.Doing = ""
	if err := s.recordSequence(ctx, r); err != nil {
		return err
	}
	return r.Refs().ClearSpecial(ctx, stateNames[s.Operation], refs.MergeMsg)
}

// ClearState notes that no operation is in progress any more.
func ClearState(tx *kist.Tx) {
	tx.NoteStep(func(ctx context.Context) error { return clear(ctx, tx.Repository()) })
}

// clear is ClearState, at once.
func clear(ctx context.Context, r *kist.Repository) error {
	return r.Refs().ClearSpecial(ctx, refs.MergeHead, refs.RevertHead, refs.PickHead, refs.RebaseHead, refs.MergeMsg, refs.SquashMsg,
		refs.StepsMsg, refs.StepsHead)
}

// ClearForReset is ClearState for a reset. A rebase goes on, as in git: the reset may be a part
// of it.
func ClearForReset(tx *kist.Tx) {
	tx.NoteStep(func(ctx context.Context) error {
		state, err := Current(tx.Repository())
		if err != nil && !errors.Is(err, object.ErrCorrupt) {
			return err
		}
		if state.Operation == Rebasing {
			return nil
		}
		return clear(ctx, tx.Repository())
	})
}

// Package operation records an operation in progress, such as a merge with
// conflicts, so that a later command can continue or abort it.
package operation

import (
	"context"
	"errors"
	"fmt"
	"strconv"
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
)

// ErrInProgress is matched by the error of an operation that cannot begin
// because another one is under way.
var ErrInProgress = errors.New("in progress")

// ErrNotInProgress is matched by the error for an operation that cannot be
// continued or aborted because it is not under way.
var ErrNotInProgress = errors.New("not in progress")

// State is the operation under way in a repository; zero if there is none.
type State struct {
	Operation Operation
	Other     object.ID // the commit being merged or reverted, or to be reverted next
	Message   string    // default message of the commit that ends it

	// Stopped means that the operation waits for a commit. It is false only
	// between two commits of a revert.
	Stopped bool

	// Of a revert of several commits.
	Rest   []object.ID // the commits to revert after Other; if not Stopped, Other included
	Parent int         // for merge commits: the parent to go back to
	Start  object.ID   // HEAD's commit before the first revert
	Left   object.ID   // HEAD's commit before this revert
}

func (s State) InProgress() error {
	return fmt.Errorf("a %s is %w", s.Operation, ErrInProgress)
}

var stateNames = map[Operation]string{Merging: refs.MergeHead, Reverting: refs.RevertHead}

// Current returns the operation under way.
func Current(r *kist.Repository) (State, error) {
	for _, op := range []Operation{Merging, Reverting} {
		id, err := r.Refs().Special(stateNames[op])
		if errors.Is(err, refs.ErrNotFound) {
			continue
		}
		if err != nil {
			return State{}, err
		}
		if done, err := committed(r); err != nil {
			return State{}, err
		} else if done {
			continue
		}
		s := State{Operation: op, Other: id, Stopped: true}
		if s.Message, err = message(r, refs.MergeMsg); err != nil {
			return State{}, err
		}
		if op == Reverting {
			err = ReadRest(r, &s)
		}
		return s, err
	}

	var s State
	if err := ReadRest(r, &s); err != nil || len(s.Rest) == 0 {
		return State{}, err
	}
	s.Operation, s.Other = Reverting, s.Rest[0]
	return s, nil
}

// committed reports whether HEAD moved since the operation was recorded. Then its
// commit exists, and only the record of the operation is left over.
func committed(r *kist.Repository) (bool, error) {
	began, err := r.Refs().Special(refs.OrigHead)
	if errors.Is(err, refs.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	head, err := r.Refs().Head()
	return head.ID != began, err
}

// message returns a text that commands leave for each other, "" if there is none.
func message(r *kist.Repository, name string) (string, error) {
	text, err := r.Refs().Message(name)
	if errors.Is(err, refs.ErrNotFound) {
		return "", nil
	}
	return text, err
}

// ReadRest reads the state of a revert of several commits, if there is one.
func ReadRest(r *kist.Repository, s *State) error {
	text, err := message(r, refs.RevertMsg)
	if err != nil || text == "" {
		return err
	}
	var ids []object.ID
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	s.Parent, err = strconv.Atoi(lines[0])
	for _, line := range lines[1:] {
		var id object.ID
		if err == nil {
			id, err = object.ParseID(line)
		}
		ids = append(ids, id)
	}

	if err == nil && len(ids) < 2 {
		err = errors.New("is cut short")
	}
	if err != nil {
		return refs.Damaged(refs.RevertMsg, err)
	}
	s.Start, s.Left, s.Rest = ids[0], ids[1], ids[2:]
	return nil
}

// writeRest writes the state that ReadRest reads. It removes an empty state.
func writeRest(ctx context.Context, r *kist.Repository, s State) error {
	if s.Start == s.Left && len(s.Rest) == 0 {
		return r.Refs().ClearSpecial(ctx, refs.RevertMsg)
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%d\n%s\n%s\n", s.Parent, s.Start, s.Left)
	for _, id := range s.Rest {
		fmt.Fprintf(&text, "%s\n", id)
	}

	return r.Refs().SetMessage(ctx, refs.RevertMsg, text.String())
}

// NoOperation returns an error if an operation is under way.
func NoOperation(r *kist.Repository) error {
	state, err := Current(r)
	if err == nil && state.Operation != "" {
		err = state.InProgress()
	}
	return err
}

// SetState records that an operation is under way.
func SetState(ctx context.Context, r *kist.Repository, s State) error {
	head, err := r.Refs().Head()
	if err != nil {
		return err
	}
	if err := r.Refs().SetSpecial(ctx, refs.OrigHead, head.ID); err != nil {
		return err
	}
	if err := r.Refs().SetMessage(ctx, refs.MergeMsg, s.Message); err != nil {
		return err
	}
	if s.Operation == Reverting {
		if err := writeRest(ctx, r, s); err != nil {
			return err
		}
	}
	return r.Refs().SetSpecial(ctx, stateNames[s.Operation], s.Other)
}

// EndStep records that the operation no longer waits for a commit. The operation
// ends, unless it is a revert with further commits.
func EndStep(ctx context.Context, r *kist.Repository, state State) error {
	switch {
	case state.Operation == "":
		return nil
	case len(state.Rest) == 0:
		return ClearState(ctx, r)
	}
	return r.Refs().ClearSpecial(ctx, refs.RevertHead, refs.MergeMsg)
}

// ClearState records that no operation is in progress.
func ClearState(ctx context.Context, r *kist.Repository) error {
	return r.Refs().ClearSpecial(ctx, refs.MergeHead, refs.RevertHead, refs.MergeMsg, refs.RevertMsg)
}

package kist

import (
	"context"
	"errors"
	"fmt"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
)

// Operation is one that has stopped to let a person decide something.
type Operation string

// The operations that can be under way. Their values are for people to read.
const (
	Merging   Operation = "merge"
	Reverting Operation = "revert"
)

// ErrInProgress is matched by the error of an operation that cannot begin
// because another one is under way.
var ErrInProgress = errors.New("in progress")

// State is the operation under way in a repository; zero if there is none.
type State struct {
	Operation Operation
	Other     object.ID // the commit being merged or reverted
	Message   string    // what the commit that ends it will say, unless told otherwise
}

func (s State) inProgress() error {
	return fmt.Errorf("a %s is %w", s.Operation, ErrInProgress)
}

var stateNames = map[Operation]string{Merging: refs.MergeHead, Reverting: refs.RevertHead}

// State returns the operation under way.
func (r *Repository) State() (State, error) {
	for _, op := range []Operation{Merging, Reverting} {
		id, err := r.refs.Special(stateNames[op])
		if errors.Is(err, refs.ErrNotFound) {
			continue
		}
		if err != nil {
			return State{}, err
		}
		text, err := r.refs.Message(refs.MergeMsg)
		if err != nil && !errors.Is(err, refs.ErrNotFound) {
			return State{}, err
		}
		return State{op, id, text}, nil
	}
	return State{}, nil
}

// noOperation returns an error if an operation is under way.
func (r *Repository) noOperation() error {
	state, err := r.State()
	if err == nil && state.Operation != "" {
		err = state.inProgress()
	}
	return err
}

// setState records that an operation is under way.
func (r *Repository) setState(ctx context.Context, s State) error {
	if err := r.refs.SetMessage(ctx, refs.MergeMsg, s.Message); err != nil {
		return err
	}
	return r.refs.SetSpecial(ctx, stateNames[s.Operation], s.Other)
}

// clearState records that no operation is under way any more.
func (r *Repository) clearState(ctx context.Context) error {
	return r.refs.ClearSpecial(ctx, refs.MergeHead, refs.RevertHead, refs.MergeMsg)
}

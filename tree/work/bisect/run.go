package bisect

import (
	"context"
	"errors"
	"fmt"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree/work/checkout"
)

// ErrNoMarks is the error of [Run] without a bad commit and a good one.
var ErrNoMarks = errors.New("a bad commit and a good one are needed first")

// TestError means that a test has no answer.
type TestError struct {
	Status int
	AtGood bool // a good commit has the same status, so the test itself cannot be run
}

func (e *TestError) Error() string { return fmt.Sprintf("the test ended with status %d", e.Status) }

// RunOptions configure [Run].
type RunOptions struct {
	// Test tests the worktree and returns an exit status, as the shell has it. 0 means good, 125
	// skip, and others below 128 mean bad.
	Test func(ctx context.Context) (status int, err error)

	// Step carries out a step, and may report its progress and its outcome; nil does only that.
	Step func(answer func(kist.Progress) (Outcome, error)) (Outcome, error)
}

// Run tests commits until the first bad one is found, or only skipped commits are left. A test
// without an answer is a [*TestError]. If the first test ends with 126 or 127, which the shell has
// for a program that cannot be run, Run also tests a good commit.
func Run(ctx context.Context, r *kist.Repository, o RunOptions) (Outcome, error) {
	s, err := Current(r)
	if err != nil {
		return Outcome{}, err
	}
	if s.Bad.IsZero() || len(s.Good) == 0 {
		return Outcome{}, ErrNoMarks
	}
	if o.Step == nil {
		o.Step = func(answer func(kist.Progress) (Outcome, error)) (Outcome, error) { return answer(nil) }
	}
	for first := true; ; first = false {
		status, err := o.Test(ctx)
		if err == nil && first && (status == 126 || status == 127) {
			err = o.checkAtGood(ctx, r, s.Good[0], status)
		}
		if err == nil && status >= 128 {
			err = &TestError{Status: status}
		}
		if err != nil {
			return Outcome{}, err
		}

		out, err := o.Step(func(progress kist.Progress) (Outcome, error) {
			switch status {
			case 0:
				return Mark(ctx, r, s.Terms.Good, nil, progress)
			case 125:
				return Skip(ctx, r, nil, progress)
			}
			return Mark(ctx, r, s.Terms.Bad, nil, progress)
		})
		if err != nil || len(out.Possible) > 0 || !out.Found.IsZero() {
			return out, err
		}
	}
}

// checkAtGood returns an error if the test has the same status at a good commit. It comes back to
// the current commit.
func (o *RunOptions) checkAtGood(ctx context.Context, r *kist.Repository, good object.ID, status int) error {
	head, err := r.Refs().Head()
	if err != nil {
		return err
	}
	if _, err := checkout.Switch(ctx, r, checkout.SwitchOptions{Rev: good.String(), Detach: true}); err != nil {
		return err
	}
	atGood, err := o.Test(ctx)
	if _, serr := checkout.Switch(ctx, r, checkout.SwitchOptions{Rev: head.String()}); err == nil {
		err = serr
	}
	if err == nil && atGood == status {
		err = &TestError{status, true}
	}
	return err
}

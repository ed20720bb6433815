package operation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
)

// Action is the kind of a step.
type Action string

// The actions. Those up to Fixup merge the changes of a commit into HEAD.
const (
	Revert   Action = "revert"    // undo the changes in a new commit
	Pick     Action = "pick"      // repeat the changes in a new commit
	PickFrom Action = "pick-from" // Pick, with the commit's name in the message
	Apply    Action = "apply"     // repeat the changes without a commit
	Squash   Action = "squash"    // add the changes and the message to HEAD's commit
	Fixup    Action = "fixup"     // add only the changes to HEAD's commit

	Reword Action = "reword" // edit the message of HEAD's commit
	Edit   Action = "edit"   // stop, so that the user can change HEAD's commit
	Break  Action = "break"  // stop
	Exec   Action = "exec"   // run a command, and stop if it fails
)

// actions has the actions that a record can contain.
var actions = []Action{Revert, Pick, PickFrom, Apply, Squash, Fixup, Reword, Edit, Break, Exec}

// Amends reports whether the action replaces HEAD's commit.
func (a Action) Amends() bool { return a == Squash || a == Fixup }

// Merges reports whether the action merges the changes of a commit.
func (a Action) Merges() bool { return a != Reword && a != Edit && a != Break && a != Exec }

// Step is a part of an operation. The commit is zero if the action merges none.
type Step struct {
	Do      Action
	Commit  object.ID
	Command string // of Exec
}

// StepsOf returns a step for each commit.
func StepsOf(do Action, commits []object.ID) []Step {
	var steps []Step
	for _, id := range commits {
		steps = append(steps, Step{Do: do, Commit: id})
	}
	return steps
}

// Recorded returns the recorded sequence of steps, finished or not; zero if there is
// none. The step at hand is the first of Rest.
func Recorded(r *kist.Repository) (State, error) {
	text, err := message(r, refs.StepsMsg)
	if err != nil || text == "" {
		return State{}, err
	}
	s, err := parse(text)
	if err != nil {
		return State{}, refs.Damaged(refs.StepsMsg, err)
	}
	return s, nil
}

// recordSequence writes the text of the sequence. It first names the commit To, so that checks
// of it know that it is intact.
func (s State) recordSequence(ctx context.Context, r *kist.Repository) error {
	if !s.To.IsZero() {
		if err := r.Refs().SetSpecial(ctx, refs.StepsHead, s.To); err != nil {
			return err
		}
	}
	return r.Refs().SetMessage(ctx, refs.StepsMsg, s.sequenceText())
}

// sequenceText returns the text that parse reads.
func (s State) sequenceText() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s %d %s\n", s.Operation, s.Parent, s.Branch)
	for _, line := range []struct {
		word string
		id   object.ID
	}{{"start", s.Start}, {"left", s.Left}, {"to", s.To}, {"onto", s.Onto}, {"stash", s.Stash}} {
		if !line.id.IsZero() {
			fmt.Fprintf(&text, "%s %s\n", line.word, line.id)
		}
	}

	steps := s.Rest
	if s.Doing.Merges() && s.Doing != "" {
		steps = slices.Concat([]Step{{Do: s.Doing, Commit: s.Other}}, steps)
	}
	for _, step := range steps {
		if step.Do == Exec {
			fmt.Fprintf(&text, "%s %q\n", step.Do, step.Command)
		} else {
			fmt.Fprintf(&text, "%s %s\n", step.Do, step.Commit)
		}
	}
	return text.String()
}

// parse reads a recorded sequence of steps.
func parse(text string) (State, error) {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	fields := strings.Split(lines[0], " ")
	if len(fields) != 3 || !strings.HasSuffix(text, "\n") {
		return State{}, errors.New("is cut short")
	}

	s := State{Operation: Operation(fields[0]), Branch: fields[2]}
	if stateNames[s.Operation] == "" || s.Operation == Merging {
		return State{}, fmt.Errorf("has the unknown operation %q", fields[0])
	}
	if _, ok := refs.BranchOf(s.Branch); s.Branch != "" && !ok {
		return State{}, fmt.Errorf("names %q, which is no branch", s.Branch)
	} else if ok {
		if err := refs.CheckName(s.Branch); err != nil {
			return State{}, err
		}
	}

	var err error
	if s.Parent, err = strconv.Atoi(fields[1]); err != nil || s.Parent < 0 {
		return State{}, fmt.Errorf("has the parent %q", fields[1])
	}

	for _, line := range lines[1:] {
		if err := s.parseLine(line); err != nil {
			return State{}, err
		}
	}

	if s.Start.IsZero() || s.Operation == Rebasing && s.Onto.IsZero() {
		return State{}, errors.New("is cut short")
	}
	return s, nil
}

// parseLine reads a line after the first: a word with an ID, or exec with a command.
func (s *State) parseLine(line string) error {
	word, name, _ := strings.Cut(line, " ")
	if Action(word) == Exec {
		command, err := strconv.Unquote(name)
		if err != nil || strconv.Quote(command) != name {
			return fmt.Errorf("has the step %q", line)
		}
		s.Rest = append(s.Rest, Step{Do: Exec, Command: command})
		return nil
	}
	id, err := object.ParseID(name)
	if err != nil {
		return err
	}
	switch do := Action(word); {
	case word == "start":
		s.Start = id
	case word == "left":
		s.Left = id
	case word == "to":
		s.To = id
	case word == "onto":
		s.Onto = id
	case word == "stash":
		s.Stash = id
	case !slices.Contains(actions, do) || do.Merges() == id.IsZero():
		return fmt.Errorf("has the step %q", line)
	default:
		s.Rest = append(s.Rest, Step{Do: do, Commit: id})
	}
	return nil
}

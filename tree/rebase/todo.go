package rebase

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree/operation"
	"github.com/kist-vcs/kist/tree/stage"
)

// ErrNothingToDo means that the user removed all steps from the list.
var ErrNothingToDo = errors.New("nothing to do")

// TodoError means that a line of the list of steps is not valid. Nothing was done.
type TodoError struct {
	Line   int // from 1
	Text   string
	Reason string
}

func (e *TodoError) Error() string {
	return fmt.Sprintf("line %d of the list, %q: %s", e.Line, e.Text, e.Reason)
}

// todoHelp follows the list of steps.
const todoHelp = `
# Rebase %s onto %s (%d)
#
# p, pick COMMIT    repeat the commit
# r, reword COMMIT  repeat it, and edit its message
# e, edit COMMIT    repeat it, and stop so that you can change it
# s, squash COMMIT  add it to the commit before, and edit both messages
# f, fixup COMMIT   add it to the commit before, without its message
# d, drop COMMIT    leave it out
#
# The steps run from top to bottom; you can reorder the lines. Removing a line drops its
# commit. Removing all lines ends the rebase before it begins.
`

// todo returns the list of steps as the user edits it, in git's format.
func (p *plan) todo() string {
	var text strings.Builder
	for _, c := range p.commits {
		fmt.Fprintf(&text, "pick %s %s\n", c.ID.Short(), stage.Subject(c.Message))
	}
	if len(p.commits) == 0 {
		text.WriteString("noop\n")
	}
	fmt.Fprintf(&text, todoHelp, p.state.Start.Short(), p.state.Onto.Short(), len(p.commits))
	return text.String()
}

// todoWords are the commands of the list, with their letters.
var todoWords = map[string]operation.Action{
	"p": operation.Pick, "pick": operation.Pick, "r": operation.Reword, "reword": operation.Reword,
	"e": operation.Edit, "edit": operation.Edit, "s": operation.Squash, "squash": operation.Squash,
	"f": operation.Fixup, "fixup": operation.Fixup, "d": "", "drop": "",
}

// parseTodo reads the edited list.
func (p *plan) parseTodo(ctx context.Context, text string) ([]operation.Step, error) {
	var steps []operation.Step
	squashed, found := false, false // in the present run of squash and fixup; any command
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		found = true
		if line == "noop" {
			continue
		}
		do, id, err := p.parseLine(ctx, line)
		if err == nil && do.Amends() && len(steps) == 0 {
			err = errors.New("there is no commit before to add it to")
		}
		if err != nil {
			return nil, &TodoError{i + 1, line, err.Error()}
		}

		if squashed && do != "" && !do.Amends() {
			steps, squashed = append(steps, operation.Step{Do: operation.Reword}), false
		}
		squashed = squashed || do == operation.Squash
		switch do {
		case "":
		case operation.Reword, operation.Edit:
			steps = append(steps, operation.Step{Do: operation.Pick, Commit: id}, operation.Step{Do: do})
		default:
			steps = append(steps, operation.Step{Do: do, Commit: id})
		}
	}
	if squashed {
		steps = append(steps, operation.Step{Do: operation.Reword})
	}
	if !found {
		return nil, ErrNothingToDo
	}
	return steps, nil
}

// parseLine reads a line of the list.
func (p *plan) parseLine(ctx context.Context, line string) (operation.Action, object.ID, error) {
	fields := strings.Fields(line)
	do, ok := todoWords[fields[0]]
	if !ok {
		return "", object.ID{}, errors.New("unknown command")
	}
	if len(fields) == 1 {
		return "", object.ID{}, errors.New("the commit is missing")
	}
	id, err := p.r.Resolve(ctx, fields[1])
	if err != nil || do == "" {
		return do, id, err
	}
	c, err := object.ReadCommit(ctx, p.r.Objects(), id)
	if err == nil && len(c.Parents) > 1 {
		err = errors.New("it is a merge")
	}
	return do, id, err
}

package rebase

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree/work/operation"
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
# x, exec COMMAND   run a command of the shell; stop if it fails
# b, break          stop here; 'kist rebase --continue' goes on
#
# The steps run from top to bottom; you can reorder the lines. Removing a line drops its
# commit. Removing all lines ends the rebase before it begins.
`

// todoText returns the list of steps as the user edits it, in git's format.
func (p *plan) todoText() string {
	var text strings.Builder
	for _, c := range p.commits {
		fmt.Fprintf(&text, "pick %s %s\n", c.ID.Short(), c.Subject())
		for _, command := range p.exec {
			fmt.Fprintf(&text, "exec %s\n", command)
		}
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
	"x": operation.Exec, "exec": operation.Exec, "b": operation.Break, "break": operation.Break,
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
		step, err := p.parseLine(ctx, line)
		do := step.Do
		if err == nil && do.Amends() && !slices.ContainsFunc(steps, func(step operation.Step) bool { return step.Do.Merges() }) {
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
			steps = append(steps, operation.Step{Do: operation.Pick, Commit: step.Commit}, operation.Step{Do: do})
		default:
			steps = append(steps, step)
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
func (p *plan) parseLine(ctx context.Context, line string) (step operation.Step, err error) {
	word, rest, _ := strings.Cut(line, " ")
	rest = strings.TrimSpace(rest)
	do, ok := todoWords[word]
	step.Do = do
	switch {
	case !ok:
		return step, errors.New("unknown command")
	case do == operation.Break && rest != "":
		return step, errors.New("unexpected text after the command")
	case do == operation.Break:
		return step, nil
	case do == operation.Exec && rest == "":
		return step, errors.New("the command is missing")
	case do == operation.Exec:
		step.Command = rest
		return step, nil
	case rest == "":
		return step, errors.New("the commit is missing")
	}
	if step.Commit, err = p.r.Resolve(ctx, strings.Fields(rest)[0]); err != nil || do == "" {
		return step, err
	}
	c, err := object.ReadCommit(ctx, p.r.Objects(), step.Commit)
	if err == nil && len(c.Parents) > 1 {
		err = errors.New("it is a merge")
	}
	return step, err
}

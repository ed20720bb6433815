package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/tree/commits"
	"github.com/kist-vcs/kist/tree/operation"
	"github.com/kist-vcs/kist/tree/stage"
)

var errNoMessage = errors.New("the commit message is empty")

// cleanMessage removes blanks at the ends of lines, and blank lines at the
// ends and beyond the first of several.
func cleanMessage(text string) string {
	var lines []string
	for line := range strings.SplitSeq(strings.ReplaceAll(text, "\r\n", "\n"), "\n") {
		line = strings.TrimRight(line, " \t\r")
		if line == "" && (len(lines) == 0 || lines[len(lines)-1] == "") {
			continue
		}
		lines = append(lines, line)
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}

// withoutComments removes the lines that begin with #.
func withoutComments(text string) string {
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		if !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

// composeMessage has a person write a commit's message. It returns "" if there
// is one already that is to be taken: of the commit being amended, or of the
// merge or revert under way.
func (e *Env) composeMessage(ctx context.Context, r *kist.Repository, o commitOptions) (string, error) {
	draft, err := e.draftMessage(ctx, r, o)
	if err != nil {
		return "", err
	}
	if o.noEdit {
		if draft == "" {
			return "", usagef("--no-edit: no message to reuse")
		}
		return "", nil
	}
	editor := e.editor()
	switch {
	case editor == "" && draft != "":
		return "", nil
	case editor == "":
		return "", hintf(usagef("no commit message"), "-m MESSAGE or -F FILE gives one")
	}
	return e.editMessage(ctx, r, o, editor, draft)
}

// draftMessage returns the message that a commit would have without another.
func (e *Env) draftMessage(ctx context.Context, r *kist.Repository, o commitOptions) (string, error) {
	if o.amend {
		head, err := r.Refs().Head()
		if err == nil && head.ID.IsZero() {
			err = fmt.Errorf("amend: %w", kist.ErrUnborn)
		}
		if err != nil {
			return "", err
		}
		_, c, err := r.ReadCommit(ctx, "HEAD")
		if err != nil {
			return "", err
		}
		return c.Message, nil
	}
	state, err := operation.Current(r)
	return state.Message, err
}

// editor returns the command that a person writes messages with, or "" if
// nobody is there to write. KIST_EDITOR is used even then: it may be a script.
func (e *Env) editor() string {
	if editor := e.Getenv("KIST_EDITOR"); editor != "" {
		return editor
	}
	if !e.Terminal.Stdin || !e.Terminal.Stdout {
		return ""
	}
	for _, name := range []string{"VISUAL", "EDITOR"} {
		if editor := e.Getenv(name); editor != "" {
			return editor
		}
	}
	return "vi"
}

// editMessage runs the editor on a draft, with the status below it.
func (e *Env) editMessage(ctx context.Context, r *kist.Repository, o commitOptions, editor, draft string) (string, error) {
	s, err := stage.ReadStatus(ctx, r, stage.StatusOptions{})
	if err != nil {
		return "", err
	}
	staged := len(s.Staged) > 0 || o.all && len(changedPaths(s)) > 0
	switch {
	case len(s.Conflicts) > 0:
		return "", commits.Unresolved(s.Conflicts)
	case !staged && !o.amend && !o.allowEmpty && s.State.Operation == "":
		return "", e.nothingToCommit(ctx, r, commits.ErrNothingToCommit)
	}
	plain := func(_ style, text string) string { return text }
	long := longStatus{env: e, repo: r, status: s, paint: plain, draft: true, all: o.all}
	text := draft + "\n\n# What does this commit do, and why? Lines that begin with # are left out. Without\n" +
		"# a message there will be no commit.\n#\n"
	for line := range strings.Lines(long.text(statusOptions{})) {
		text += strings.TrimRight("# "+line, " \n") + "\n"
	}
	file := filepath.Join(r.Root(), kist.Dir, "COMMIT_EDITMSG")
	if err := disk.WriteFile(file, []byte(text)); err != nil {
		return "", err
	}
	if err := runEditor(ctx, editor, file); err != nil {
		return "", fmt.Errorf("editor %q: %w", editor, err)
	}
	data, err := disk.ReadFile(file)
	if err != nil {
		return "", err
	}
	message := cleanMessage(withoutComments(string(data)))
	if message == "" {
		return "", errNoMessage
	}
	return message, nil
}

// runEditor runs an editor, a command of the shell, on a file.
func runEditor(ctx context.Context, editor, file string) error {
	cmd := exec.CommandContext(ctx, "sh", "-c", editor+` "$@"`, editor, file)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd.Run()
}

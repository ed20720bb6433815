package work

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/tree/work/bisect"
	"github.com/kist-vcs/kist/tree/work/operation"
	"github.com/kist-vcs/kist/tree/work/stage"
)

func NewPrompt(env *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "prompt",
		Short: "print the state of the repository for a shell's prompt",
		Long: `Prints one short line, as in "main *+>|MERGING": the branch, or the commit in
parentheses if HEAD is detached; then a mark for each of these:

  *   files have changes that are not staged
  +   changes are staged
  #   nothing is staged or committed yet
  > < <> =   the branch is ahead of its upstream, behind, both, or equal
  |   an operation is under way: MERGING, REBASE, BISECTING and so on

A ? stands for * and + if the comparison takes more than half a second. The
marks are those of git's git-prompt.sh. Control characters in names are
replaced. Outside of a repository, and in one that cannot be read, the command
prints nothing and succeeds. To show the line:

  bash, in ~/.bashrc
    PS1='\w $(kist prompt)\$ '
  zsh, in ~/.zshrc
    setopt prompt_subst; PROMPT='%~ ${$(kist prompt)//\%/%%}%# '
  fish, in ~/.config/fish/config.fish
    function fish_prompt; echo -n (prompt_pwd) (kist prompt)'> '; end`,
		Example: `  kist prompt
  PS1='\w $(kist prompt)\$ '`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return runPrompt(cmd.Context(), env) },
	}
	env.Prints(cmd, "", promptJSON{})
	return cmd
}

// promptTime bounds the comparison of files, so that the prompt appears.
const promptTime = 500 * time.Millisecond

// runPrompt prints the line. It prints nothing after an error: a prompt is no place for it,
// and every other command reports it.
func runPrompt(ctx context.Context, env *cli.Env) error {
	r, err := env.Open()
	if err != nil {
		return nil
	}
	defer r.Close()
	short, cancel := context.WithTimeout(ctx, promptTime)
	defer cancel()
	s, err := stage.ReadStatus(short, r, stage.StatusOptions{NoUntracked: true})
	compared := err == nil
	if errors.Is(err, context.DeadlineExceeded) {
		s, err = headStatus(r)
	}
	if err != nil {
		return ctx.Err()
	}
	under := underWay(r, s.State)
	env.JSON(newPromptJSON(s, compared, under))
	env.PrintOutcome("%s\n", promptLine(s, compared, under))
	return nil
}

// headStatus returns HEAD and the operation in progress.
func headStatus(r *kist.Repository) (s *stage.Status, err error) {
	s = &stage.Status{}
	if s.Head, err = r.Refs().Head(); err == nil {
		s.State, err = operation.CurrentAt(r, s.Head)
	}
	return s, err
}

// underWay returns the operation in progress, as in "merge" or "bisect", "" if there is none.
func underWay(r *kist.Repository, s operation.State) string {
	if s.Operation != "" {
		return string(s.Operation)
	}
	if _, err := bisect.Current(r); err == nil {
		return "bisect"
	}
	return ""
}

// promptLine returns the line of a status with an operation under way. The files count only
// if they were compared.
func promptLine(s *stage.Status, compared bool, under string) string {
	name := cmp.Or(s.Head.Branch, strings.TrimPrefix(s.State.Branch, refs.Heads)) // a rebase detaches HEAD
	if name == "" {
		name = "(" + s.Head.ID.Short() + "...)"
	}
	marks := ""
	modified, staged := dirty(s)
	if !compared {
		marks = "?"
	} else if modified {
		marks = "*"
	}
	if compared && staged {
		marks += "+"
	} else if s.Head.ID.IsZero() {
		marks += "#"
	}
	if t := s.Tracking; t != nil && !t.Gone {
		switch {
		case t.Ahead > 0 && t.Behind > 0:
			marks += "<>"
		case t.Ahead > 0:
			marks += ">"
		case t.Behind > 0:
			marks += "<"
		default:
			marks += "="
		}
	}
	if marks != "" {
		name += " " + marks
	}
	switch under {
	case "":
	case string(operation.Rebasing):
		name += "|REBASE"
	default:
		name += "|" + strings.ToUpper(strings.TrimSuffix(under, "e")) + "ING"
	}
	return strings.ReplaceAll(cli.Printable(name), "\n", "?")
}

// dirty reports whether files have changes that are not staged, and whether changes are
// staged.
func dirty(s *stage.Status) (modified, staged bool) {
	return len(changedPaths(s))+len(s.Conflicts) > 0, len(s.Staged)+len(s.Conflicts) > 0
}

// promptJSON is what prompt prints with --json.
type promptJSON struct {
	Branch    *string `json:"branch" doc:"the branch; null: HEAD is detached"`
	ID        *string `json:"id" doc:"the commit; null: there is none yet"`
	Modified  *bool   `json:"modified" doc:"true if files of the worktree differ from the index; null: unknown"`
	Staged    *bool   `json:"staged" doc:"true if the index differs from HEAD; null: unknown"`
	Operation string  `json:"operation,omitempty" doc:"the operation in progress, such as merge"`
	trackingJSON
}

func newPromptJSON(s *stage.Status, compared bool, under string) promptJSON {
	p := promptJSON{Branch: cli.OrNull(s.Head.Branch), Operation: under, trackingJSON: newTrackingJSON(s.Tracking)}
	if !s.Head.ID.IsZero() {
		p.ID = cli.OrNull(s.Head.ID.String())
	}
	if compared {
		modified, staged := dirty(s)
		p.Modified, p.Staged = &modified, &staged
	}
	return p
}

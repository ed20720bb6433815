package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/tree/commits"
	"github.com/kist-vcs/kist/tree/stage"
)

type commitOptions struct {
	messages   []string
	file       string
	all        bool
	amend      bool
	noEdit     bool
	allowEmpty bool
	author     string
	date       string
}

func newCommit(env *Env) *cobra.Command {
	var o commitOptions
	cmd := &cobra.Command{
		Use:   "commit [OPTIONS]",
		Short: "record the staged changes",
		Long: `Records what is staged as a new commit, and moves the current branch to it. It
also concludes a merge or revert whose conflicts have been resolved.

Without -m and -F, the message is written in the editor that KIST_EDITOR, VISUAL
or EDITOR names. Lines that begin with # are left out there; an empty message
ends without a commit.

Who commits is what KIST_AUTHOR_NAME and KIST_AUTHOR_EMAIL say, or the
configuration (user.name, user.email), or else the user of this machine.
KIST_DATE, as in 2026-01-31T12:00:00Z, is recorded as the time if it is set.

If files could not be read when they were staged, the commit says so, and the
exit status is 3.

With --json: the commit (id, tree, parents, author, committer, time, message,
host, files, bytes, skipped), its branch, and added, modified, deleted, renamed
(how many), bytes_read, bytes_new and bytes_stored.`,
		Example: `  kist commit -m 'holiday photos'
  kist commit -am 'corrections'      stage what has changed of tracked files first
  kist commit --amend --no-edit      replace the last commit`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return hintf(usagef("a commit takes all staged changes, not single paths: %s", quoteArg(args[0])), "'kist add' stages single paths")
			}
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	env.inRepository(cmd, o.run, exitPartial, exitMoved, exitBusy)
	flags := cmd.Flags()
	flags.StringArrayVarP(&o.messages, "message", "m", nil, "the `MESSAGE`; if given more than once, each is a paragraph")
	flags.StringVarP(&o.file, "file", "F", "", "read the message from `FILE`; - is standard input")
	flags.BoolVarP(&o.all, "all", "a", false, "stage changes of tracked files first")
	flags.BoolVar(&o.amend, "amend", false, "replace the last commit, keeping its message unless another is given")
	flags.BoolVar(&o.noEdit, "no-edit", false, "take the message of the last commit, merge or revert as it is")
	flags.BoolVar(&o.allowEmpty, "allow-empty", false, "commit even if nothing changed")
	flags.StringVar(&o.author, "author", "", "record `\"NAME <EMAIL>\"` as the author")
	flags.StringVar(&o.date, "date", "", "record `TIME` as the author's time")
	cmd.MarkFlagsMutuallyExclusive("message", "file", "no-edit")
	return cmd
}

// commitDoneJSON is what commit prints with --json.
type commitDoneJSON struct {
	commitJSON
	Branch *string `json:"branch"` // null: HEAD is detached
	changeCounts
	work
}

func (o *commitOptions) run(ctx context.Context, env *Env, r *kist.Repository, args []string) error {
	author, err := o.signature(env)
	if err != nil {
		return err
	}
	message, err := o.message(env)
	if err != nil {
		return err
	}
	if message == "" {
		if message, err = env.composeMessage(ctx, r, *o); err != nil {
			return err
		}
	}
	p := env.progress("committing")
	defer p.Stop()
	result, err := commits.Commit(ctx, r, commits.CommitOptions{
		Message: message, All: o.all, Amend: o.amend, AllowEmpty: o.allowEmpty, Author: author, Progress: p.amounts(),
		Brief: env.global.quiet && !env.global.json,
	})
	p.Stop()
	if errors.Is(err, commits.ErrNothingToCommit) {
		return env.nothingToCommit(ctx, r, err)
	}
	if err != nil {
		return err
	}
	if err := env.printCommitted(result); err != nil {
		return err
	}
	env.maintain(r)
	return env.partialOf(r, result.Commit.Skipped, result.Commit.SkippedCount)
}

// signature returns what --author and --date say; nil if they say nothing.
func (o *commitOptions) signature(env *Env) (*object.Signature, error) {
	if o.author == "" && o.date == "" {
		return nil, nil
	}
	s := &object.Signature{}
	if o.author != "" {
		name, rest, ok := strings.Cut(o.author, "<")
		email, end, closed := strings.Cut(rest, ">")
		s.Name, s.Email = strings.TrimSpace(name), strings.TrimSpace(email)
		if !ok || !closed || strings.TrimSpace(end) != "" || s.Name == "" {
			return nil, usagef("--author %s is not of the form \"NAME <EMAIL>\"", quoteArg(o.author))
		}
	}
	if o.date != "" {
		at, err := refs.ParseTime(o.date, env.Now())
		if err != nil {
			return nil, fmt.Errorf("--date: %w", err)
		}
		_, offset := at.Zone()
		s.Time, s.Zone = object.TimeOf(at), int16(offset/60)
	}
	return s, nil
}

// message returns what -m or -F say, or "".
func (o *commitOptions) message(env *Env) (string, error) {
	text := strings.Join(o.messages, "\n\n")
	switch {
	case o.messages != nil:
	case o.file == "-":
		data, err := io.ReadAll(env.Stdin)
		if err != nil {
			return "", fmt.Errorf("read the message: %w", err)
		}
		text = string(data)
	case o.file != "":
		data, err := os.ReadFile(env.path(o.file))
		if err != nil {
			return "", fmt.Errorf("read the message: %w", err)
		}
		text = string(data)
	default:
		return "", nil
	}
	if text = cleanMessage(text); text == "" {
		return "", errNoMessage
	}
	return text, nil
}

func (e *Env) printCommitted(result *commits.CommitResult) error {
	n, did := committedChanges(result), newWork(result.Read, result.Stats)
	if e.global.json {
		out := commitDoneJSON{commitJSON: newCommitJSON(result.ID, result.Commit), changeCounts: n, work: did}
		if result.Branch != "" {
			out.Branch = &result.Branch
		}
		e.json(out)
		return nil
	}
	where := result.Branch
	if where == "" {
		where = "detached HEAD"
	}
	if len(result.Commit.Parents) == 0 {
		where += " (root-commit)"
	}
	e.tell("[%s %s] %s\n", where, result.ID.Short(), printable(subject(result.Commit.Message)))
	e.tell(" %s; %s\n", n, did)
	return nil
}

// nothingToCommit explains why there is nothing to commit, unless --quiet is
// given: that takes a look at the whole worktree.
func (e *Env) nothingToCommit(ctx context.Context, r *kist.Repository, err error) error {
	if e.global.quiet {
		return err
	}
	s, serr := stage.ReadStatus(ctx, r, stage.StatusOptions{})
	switch {
	case serr != nil:
		return err
	case len(changedPaths(s)) > 0:
		return hintf(fmt.Errorf("%w: no change is staged", err), "'kist add PATH...' stages changes, 'kist commit -a' does and commits")
	case len(s.Untracked) > 0:
		return hintf(fmt.Errorf("%w, but there are untracked files", err), "'kist add PATH...' tracks them")
	}
	return fmt.Errorf("%w, worktree clean", err)
}

package work

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/jsonform"
	"github.com/kist-vcs/kist/cmd/kist/show"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/work/commits"
	"github.com/kist-vcs/kist/tree/work/operation"
	"github.com/kist-vcs/kist/tree/work/stage"
)

type commitOptions struct {
	MessageOptions
	commits.CommitOptions
	noEdit       bool
	patch        bool
	author, date string
}

func NewCommit(env *cli.Env) *cobra.Command {
	var o commitOptions
	cmd := &cobra.Command{
		Use:   "commit [OPTIONS]",
		Short: "record the staged changes",
		Long: `Records the staged changes as a new commit, and moves the current branch to it.
It also concludes a merge, revert or cherry-pick whose conflicts are resolved.

Without -m and -F, the message is written in the editor that KIST_EDITOR, VISUAL
or EDITOR names. Lines that begin with # are left out. An empty message makes no
commit.

With --patch, kist first asks which changed lines to stage, as 'kist add -p'
does. They stay staged even if there is no commit.

The author is KIST_AUTHOR_NAME and KIST_AUTHOR_EMAIL, or else user.name and
user.email of the configuration, or else the user of this machine. If KIST_DATE
is set, as in 2026-01-31T12:00:00Z, it is the time of the commit.

If files could not be read when they were staged, the commit says so, and the
exit status is 3.`,
		Example: `  kist commit -m 'holiday photos'
  kist commit -am 'corrections'      stage what has changed of tracked files first
  kist commit --amend --no-edit      replace the last commit`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return cli.Hintf(cli.Usagef("a commit takes all staged changes, not single paths: %s", cli.QuoteArg(args[0])), "'kist add' stages single paths")
			}
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	env.Prints(cmd, "", commitDoneJSON{})
	env.InRepository(cmd, o.run, cli.ExitPartial, cli.ExitMoved, cli.ExitBusy)
	flags := cmd.Flags()
	o.MessageOptions.Register(cmd)
	flags.BoolVarP(&o.All, "all", "a", false, "stage changes of tracked files first")
	patchFlag(cmd, &o.patch, "choose which changed lines of tracked files to stage first")
	flags.BoolVar(&o.Amend, "amend", false, "replace the last commit, keeping its message unless another is given")
	flags.BoolVar(&o.noEdit, "no-edit", false, "without -m and -F, take the message of the last commit, merge or revert as it is")
	flags.BoolVar(&o.AllowEmpty, "allow-empty", false, "commit even if nothing changed")
	flags.StringVar(&o.author, "author", "", "record `\"NAME <EMAIL>\"` as the author")
	flags.StringVar(&o.date, "date", "", "record `TIME` as the author's time")
	env.Repo.Commits.Register(cmd, "S", "the commit")
	cmd.MarkFlagsMutuallyExclusive("message", "file")
	cmd.MarkFlagsMutuallyExclusive("all", "patch")
	return cmd
}

// commitDoneJSON is what commit prints with --json.
type commitDoneJSON struct {
	jsonform.Commit
	Branch *string `json:"branch" doc:"its branch; null: HEAD is detached"`
	show.ChangeCounts
	show.Work
}

func (o *commitOptions) run(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
	var err error
	if o.Author, err = o.readStamp(env); err != nil {
		return err
	}
	if o.patch {
		if err := stageHunks(ctx, env, r, nil); err != nil {
			return err
		}
	}
	if o.Message, err = o.ReadMessage(env, ErrNoMessage); err != nil {
		return err
	}
	if o.Message == "" {
		if o.Message, err = composeMessage(ctx, env, r, o); err != nil {
			return err
		}
	}

	o.Brief = env.Global.Quiet && !env.Global.JSON

	p := env.Progress("committing")
	o.Progress = p.Amounts()
	result, err := commits.Commit(ctx, r, o.CommitOptions)
	p.Stop()
	if errors.Is(err, commits.ErrNothingToCommit) {
		return nothingToCommit(ctx, env, r, err)
	}
	if err != nil {
		return err
	}
	printCommitted(env, result)
	env.Maintain(r)
	return cli.PartialOf(env, r, result.Commit.Skipped, result.Commit.SkippedCount)
}

// readStamp returns the author and time that --author and --date give, or nil without these
// options.
func (o *commitOptions) readStamp(env *cli.Env) (*object.Stamp, error) {
	if o.author == "" && o.date == "" {
		return nil, nil
	}
	s := &object.Stamp{}
	if o.author != "" {
		name, rest, ok := strings.Cut(o.author, "<")
		email, end, closed := strings.Cut(rest, ">")
		s.Name, s.Email = strings.TrimSpace(name), strings.TrimSpace(email)
		if !ok || !closed || strings.TrimSpace(end) != "" || s.Name == "" {
			return nil, cli.Usagef("--author %s is not of the form \"NAME <EMAIL>\"", cli.QuoteArg(o.author))
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

// MessageOptions are the options that give a message.
type MessageOptions struct {
	Messages []string
	file     string
}

func (o *MessageOptions) Register(cmd *cobra.Command) {
	cmd.Flags().StringArrayVarP(&o.Messages, "message", "m", nil, "the `MESSAGE`; if given more than once, each is a paragraph")
	cmd.Flags().StringVarP(&o.file, "file", "F", "", "read the message from `FILE`; - is standard input")
}

// isGiven reports whether an option gives a message.
func (o *MessageOptions) isGiven() bool { return o.Messages != nil || o.file != "" }

// ReadMessage returns the message that the options give, or "" without options. If the
// message is empty, it returns the error empty, or no error if that is nil.
func (o *MessageOptions) ReadMessage(env *cli.Env, empty error) (string, error) {
	var data []byte
	var err error
	switch {
	case o.Messages != nil:
		data = []byte(strings.Join(o.Messages, "\n\n"))
	case o.file == "":
		return "", nil
	case o.file == "-":
		data, err = io.ReadAll(env.Stdin)
	default:
		data, err = os.ReadFile(env.Path(o.file))
	}
	switch {
	case errors.Is(err, syscall.EISDIR):
		return "", cli.Failf(cli.ExitFailed, "is-directory", "%s, which has to have the message, is a folder", cli.QuoteArg(o.file))
	case errors.Is(err, fs.ErrNotExist):
		return "", cli.Failf(cli.ExitFailed, "not-found", "%s, which has to have the message, does not exist", cli.QuoteArg(o.file))
	case err != nil:
		return "", fmt.Errorf("read the message: %w", err)
	}
	text := CleanMessage(string(data))
	switch {
	case text != "" || empty == nil:
		return text, nil
	case o.Messages == nil:
		return "", fmt.Errorf("%w: %s has no text", empty, cli.QuoteArg(o.file))
	}
	return "", empty
}

func printCommitted(env *cli.Env, result *commits.CommitResult) {
	n, did := show.CommittedChanges(result), show.NewWork(result.Read, result.Stats)
	env.JSON(commitDoneJSON{jsonform.NewCommit(result.ID, result.Commit), cli.OrNull(result.Branch), n, did})
	where := result.Branch
	if where == "" {
		where = "detached HEAD"
	}
	if len(result.Commit.Parents) == 0 {
		where += " (root-commit)"
	}
	env.PrintOutcome("[%s %s] %s\n", where, result.ID.Short(), cli.Printable(cli.Subject(result.Commit.Message)))
	env.PrintOutcome(" %s; %s\n", n, did)
	if result.Unsigned {
		env.Info("the replaced commit had a signature, and this one has none; 'kist commit --amend -S' signs it")
	}
}

// nothingToCommit adds a reason to err, which matches [commits.ErrNothingToCommit]. It has to
// read the status of the whole worktree, so with --quiet it adds nothing.
func nothingToCommit(ctx context.Context, env *cli.Env, r *kist.Repository, err error) error {
	if env.Global.Quiet {
		return err
	}
	s, serr := stage.ReadStatus(ctx, r, stage.StatusOptions{})
	switch {
	case serr != nil:
		return err
	case len(changedPaths(s)) > 0:
		return cli.Hintf(fmt.Errorf("%w: no change is staged", err), "'kist add PATH...' stages changes, 'kist commit -a' stages and commits them")
	case len(s.Untracked) > 0:
		return cli.Hintf(fmt.Errorf("%w, but there are untracked files", err), "'kist add PATH...' tracks them")
	}
	return fmt.Errorf("%w, worktree clean", err)
}

var ErrNoMessage = errors.New("the commit message is empty")

// CleanMessage removes blanks at the ends of lines, and blank lines at both ends of a text.
// It joins blank lines in a row to one.
func CleanMessage(text string) string {
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

// composeMessage starts an editor for the message of a commit, and returns the message. It
// returns "" if the commit takes an existing message: that of the amended commit, or of the
// merge or revert in progress.
func composeMessage(ctx context.Context, env *cli.Env, r *kist.Repository, o *commitOptions) (string, error) {
	draft, err := draftMessage(ctx, r, o.Amend)
	if err != nil {
		return "", err
	}
	if o.noEdit {
		if draft == "" {
			return "", cli.Usagef("--no-edit: no message to reuse")
		}
		return "", nil
	}
	switch editor := editor(env); {
	case editor == "" && draft != "":
		return "", nil
	case editor == "":
		return "", cli.Hintf(cli.Usagef("no commit message"), "-m MESSAGE or -F FILE gives one")
	}
	return o.editDraft(ctx, env, r, draft)
}

// draftMessage returns the message of the amended commit, or of the operation in progress.
func draftMessage(ctx context.Context, r *kist.Repository, amend bool) (string, error) {
	if amend {
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

// editor returns the command of the user's editor, or "" without a terminal. KIST_EDITOR may
// be a script, so it needs no terminal. A repository cannot name an editor: the command
// would run as the user.
func editor(env *cli.Env) string {
	if editor := env.Getenv("KIST_EDITOR"); editor != "" {
		return editor
	}
	if !env.Terminal.Stdin || !env.Terminal.Stdout {
		return ""
	}

	if editor := env.User.Get(kist.KeyEditor); editor != "" {
		return editor
	}
	for _, name := range []string{"VISUAL", "EDITOR"} {
		if editor := env.Getenv(name); editor != "" {
			return editor
		}
	}
	return "vi"
}

// editDraft runs the editor on a draft, which the status follows as comments. It returns the
// edited message.
func (o *commitOptions) editDraft(ctx context.Context, env *cli.Env, r *kist.Repository, draft string) (string, error) {
	s, err := stage.ReadStatus(ctx, r, stage.StatusOptions{})
	if err != nil {
		return "", err
	}
	staged := len(s.Staged) > 0 || o.All && len(changedPaths(s))+len(s.Conflicts) > 0
	switch {
	case len(s.Conflicts) > 0 && !o.All:
		return "", index.Unresolved(s.Conflicts)
	case !staged && !o.Amend && !o.AllowEmpty && s.State.Operation == "":
		return "", nothingToCommit(ctx, env, r, commits.ErrNothingToCommit)
	}

	plain := func(_ cli.Style, text string) string { return text }
	long := longStatus{env: env, repo: r, status: s, paint: plain, draft: true, all: o.All}
	text := draft + "\n\n# What does this commit do, and why? Lines that begin with # are left out. Without\n" +
		"# a message there will be no commit.\n#\n"
	for line := range strings.Lines(long.writeAll(statusOptions{})) {
		text += strings.TrimRight("# "+line, " \n") + "\n"
	}

	edited, err := editText(ctx, env, r, "COMMIT_EDITMSG", text)
	if err != nil {
		return "", err
	}
	message := CleanMessage(withoutComments(edited))
	if message == "" {
		return "", ErrNoMessage
	}
	return message, nil
}

// editText lets the user edit a text in a file of the .kist folder. The file stays.
func editText(ctx context.Context, env *cli.Env, r *kist.Repository, name, text string) (string, error) {
	file := filepath.Join(r.Dir(), name)
	if err := disk.WriteFile(file, []byte(text)); err != nil {
		return "", err
	}
	if err := runEditor(ctx, env, file); err != nil {
		return "", err
	}
	data, err := disk.ReadFile(file)
	return string(data), err
}

// runEditor runs the user's editor, a command of the shell, on a file.
func runEditor(ctx context.Context, env *cli.Env, file string) error {
	editor := editor(env)
	if err := cli.NewShell(ctx, env, editor+` "$@"`, editor, file).Run(); err != nil {
		return fmt.Errorf("editor %q: %w", editor, err)
	}
	return nil
}

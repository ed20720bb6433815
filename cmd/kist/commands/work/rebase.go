package work

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/input"
	"github.com/kist-vcs/kist/cmd/kist/readable"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree/work/commits"
	"github.com/kist-vcs/kist/tree/work/operation"
	"github.com/kist-vcs/kist/tree/work/rebase"
	"github.com/kist-vcs/kist/tree/work/stage"
	"github.com/kist-vcs/kist/tree/work/stash"
)

type rebaseOptions struct {
	rebase.Options
	stepsOptions
	interactive, noForkPoint, yes bool
}

func NewRebase(env *cli.Env) *cobra.Command {
	var o rebaseOptions
	cmd := &cobra.Command{
		Use:   "rebase [OPTIONS] [UPSTREAM [BRANCH]] | --continue | --skip | --abort",
		Short: "repeat the commits of a branch on another one",
		Long: `Takes the commits of the current branch, or of BRANCH, that UPSTREAM lacks, and
repeats them on UPSTREAM, or on the commit of --onto. Then the branch moves to
the last new commit. Without UPSTREAM it is the branch that the current one
follows. The old commits stay in the reflog; ORIG_HEAD is the last of them.

Merge commits are left out, and the commits that they merge follow each other.
Commits are also left out if UPSTREAM has their changes, in the same lines or
from the same content, or if they have no effect any more. Authors and their
times stay.

Only trees are merged, as 'kist cherry-pick' does it; large files cost nothing.
Files that are the same before and after are not written.

At conflicts the exit status is 3. When you have resolved them and staged the
files, --continue goes on. --skip leaves the commit out. --abort brings back the
branch, the index and the worktree as they were. Meanwhile HEAD is detached, and
'kist status' shows how far the rebase is.

With -i, an editor (see 'kist help commit') shows the list of commits. Lines can
be reordered; the first word says what to do: pick, reword, edit, squash, fixup
or drop, or its first letter. 'exec COMMAND' (x) runs a command of the shell at
the top of the worktree, and stops if it fails or leaves changes; 'break' (b)
stops. If a line is not valid, nothing is done. With -x, COMMAND runs after each
commit.

The list is a part of the repository, so somebody else may have written it.
Before --continue and --skip run commands of the list, they show them and ask.
-y does not ask.

--fork-point, the default without UPSTREAM, also leaves out the commits that
UPSTREAM had when the branch left it. The reflog of UPSTREAM has them.

Tracked files must have no local changes, except with --autostash: this puts the
changes aside as a stash, and brings them back at the end.`,
		Example: `  kist rebase main
  kist rebase --onto main feature topic    move what topic has over feature
  kist rebase -i HEAD~3                    change the last three commits
  kist rebase --autostash origin/main
  kist rebase -x 'make test' main          test each new commit
  kist rebase --continue`,
		Args:              cli.Arguments(0, 2),
		ValidArgsFunction: cli.CompleteNth(env.Complete(cli.Revisions), env.Complete(cli.Branches)),
	}
	env.Prints(cmd, "", RebasedJSON{})
	env.Prints(cmd, "with --abort", CheckoutJSON{})
	env.InRepository(cmd, cli.NotBare(o.run), cli.ExitPartial, cli.ExitMoved, cli.ExitBusy)
	flags := cmd.Flags()
	flags.StringVar(&o.Onto, "onto", "", "repeat the commits on `REV` instead of UPSTREAM")
	flags.BoolVarP(&o.interactive, "interactive", "i", false, "edit the list of commits first")
	flags.BoolVar(&o.Autostash, "autostash", false, "put local changes aside, and bring them back at the end")
	flags.StringArrayVarP(&o.Exec, "exec", "x", nil, "run `COMMAND` after each commit, and stop if it fails; may be repeated")
	flags.BoolVar(&o.ForkPoint, "fork-point", false, "leave out commits that UPSTREAM once had")
	flags.BoolVar(&o.noForkPoint, "no-fork-point", false, "do not look at the reflog of UPSTREAM")
	flags.BoolVarP(&o.yes, "yes", "y", false, "do not ask before commands of the list")
	env.Repo.Commits.Register(cmd, "S", "the new commits")
	cmd.MarkFlagsMutuallyExclusive("fork-point", "no-fork-point")
	o.stepsOptions.register(cmd, "onto", "interactive", "autostash", "exec", "fork-point", "no-fork-point")
	return cmd
}

// checkOptions checks the options and arguments, and sets the implied ones.
func (o *rebaseOptions) checkOptions(env *cli.Env, r *kist.Repository, args []string) error {
	if o.isGiven() && len(args) > 0 {
		return cli.Usagef("%s is not expected", cli.QuoteArg(args[0]))
	}
	// A command is a line of the list.
	for _, command := range o.Exec {
		if strings.TrimSpace(command) == "" || strings.Contains(command, "\n") {
			return cli.Usagef("--exec needs a command of one line")
		}
	}
	o.ForkPoint = o.ForkPoint || len(args) == 0 && !o.noForkPoint
	if len(args) > 0 {
		o.Upstream = input.Previous(args[0])
	}
	if len(args) > 1 {
		o.Branch = input.Previous(args[1])
	}
	if o.goOn || o.skip {
		return o.mayRun(env, r)
	}
	return nil
}

func (o *rebaseOptions) run(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
	if err := o.checkOptions(env, r, args); err != nil {
		return err
	}
	if o.interactive {
		if editor(env) == "" {
			return cli.Hintf(cli.Usagef("-i needs an editor, and there is no terminal"), "KIST_EDITOR names a program that edits the list")
		}
		o.EditTodo = func(ctx context.Context, list string) (string, error) {
			return editText(ctx, env, r, "REBASE_TODO", list)
		}
	}
	o.Edit = func(ctx context.Context, message string) (string, error) { return editMessage(ctx, env, r, message) }
	o.Run = func(ctx context.Context, command string) (int, error) {
		env.Info("Executing: %s", cli.Printable(command))
		return runInside(ctx, env, r, []string{"sh", "-c", command})
	}
	o.Brief = true

	p := env.Progress("rebasing")
	o.Progress = p.Amounts()
	var result *rebase.Result
	var err error
	switch {
	case o.abort:
		result, err = rebase.Abort(ctx, r, o.Progress)
	case o.skip:
		result, err = rebase.Skip(ctx, r, o.StepOptions)
	case o.goOn:
		result, err = rebase.Continue(ctx, r, o.StepOptions)
	default:
		result, err = rebase.Rebase(ctx, r, o.Options)
	}
	p.Stop()
	switch {
	case o.abort:
		err = blocked(err)
	case o.skip || o.goOn:
		err = LocalBlock(err, "undo these changes with 'kist restore -SW', and move away untracked files; or 'kist rebase --abort'")
	default:
		err = LocalBlock(err, HintAutostash)
	}
	if result == nil {
		return env.Unwritten(r, err)
	}
	env.Maintain(r)
	if o.abort {
		return o.endAborted(env, r, result, err)
	}
	if err == nil || stage.IsPartial(err) {
		env.JSON(NewRebasedJSON(result))
	}
	return PrintRebase(ctx, env, r, result, err)
}

// mayRun returns an error if commands are left in the list and the user does not agree to
// them, because another user may have made the repository.
func (o *rebaseOptions) mayRun(env *cli.Env, r *kist.Repository) error {
	state, err := operation.Current(r)
	if err != nil || o.yes {
		return err
	}
	var commands []string
	for _, step := range state.Rest {
		if step.Do == operation.Exec && !slices.Contains(commands, step.Command) {
			commands = append(commands, step.Command)
		}
	}
	if len(commands) == 0 {
		return nil
	}
	for _, command := range commands {
		env.Info("exec %s", cli.Printable(command))
	}
	if !env.Terminal.Stdin {
		return cli.Hintf(cli.Usagef("the list has commands, and there is no terminal to confirm them on; use --yes"), "'kist rebase --abort' ends the rebase")
	}
	if !cli.Confirm(env, "Run these commands?") {
		return cli.Failf(cli.ExitFailed, "refused", "nothing was done")
	}
	return nil
}

// HintAutostash is the advice for local changes that a rebase would overwrite.
const HintAutostash = "commit these changes, or use --autostash, and move away untracked files"

// hasAutostash reports whether the last stash has local changes that a rebase put aside.
func hasAutostash(r *kist.Repository) bool {
	list, _ := stash.List(r)
	return len(list) > 0 && strings.HasSuffix(list[0].Reason, ": "+rebase.StashMessage)
}

// editMessage lets the user edit the message of a commit that a rebase repeats.
func editMessage(ctx context.Context, env *cli.Env, r *kist.Repository, message string) (string, error) {
	if editor(env) == "" {
		return "", cli.Hintf(cli.Usagef("no editor for the message, and no terminal"), "KIST_EDITOR names one; 'kist rebase --skip' keeps the message")
	}
	text, err := editText(ctx, env, r, "COMMIT_EDITMSG", message+"\n\n# The message of the commit. Lines that begin with # are left out.\n")
	if err != nil {
		return "", err
	}
	if text = CleanMessage(withoutComments(text)); text == "" {
		return "", cli.Hintf(ErrNoMessage, "'kist rebase --continue' starts the editor again; 'kist rebase --skip' keeps the message")
	}
	return text, nil
}

// RebasedJSON is what rebase prints with --json.
type RebasedJSON struct {
	Result   string         `json:"result" doc:"the outcome" values:"up-to-date|rebased|edit|failed|conflicts"`
	Branch   *string        `json:"branch" doc:"the branch; null: HEAD is detached"`
	Old      object.ID      `json:"old" doc:"its commit before"`
	ID       object.ID      `json:"id" doc:"its commit now"`
	Commits  int            `json:"commits" doc:"the number of new commits"`
	Dropped  []object.ID    `json:"dropped" doc:"commits that were left out, since they have no effect"`
	Upstream []object.ID    `json:"upstream" doc:"commits that were left out, since UPSTREAM has them already"`
	Stopped  object.ID      `json:"stopped,omitzero" doc:"the commit where it stopped"`
	Conflict []conflictJSON `json:"conflicts,omitempty" doc:"the conflicts there"`
	Rest     []object.ID    `json:"rest,omitempty" doc:"the commits that are left"`
	Command  string         `json:"command,omitempty" doc:"the command that failed"`
	Status   int            `json:"status,omitempty" doc:"its exit status"`
	Kept     object.ID      `json:"kept,omitzero" doc:"the stash of local changes that conflict with the new commits"`
}

func NewRebasedJSON(result *rebase.Result) RebasedJSON {
	j := RebasedJSON{
		Result: rebaseOutcome(result), Branch: cli.OrNull(result.Branch), Old: result.Old, ID: result.ID, Commits: len(result.Commits),
		Dropped: append([]object.ID{}, result.Nothing...), Upstream: append([]object.ID{}, result.Upstream...),
		Stopped: result.Stopped, Rest: result.Rest, Command: result.Failed, Status: result.Status,
	}
	if len(result.Conflicts) > 0 {
		j.Conflict = newConflictsJSON(result.Conflicts)
	}
	if result.Kept != nil {
		j.Kept = result.Kept.New
	}
	return j
}

// rebaseOutcome returns the word for the result of a rebase.
func rebaseOutcome(result *rebase.Result) string {
	switch {
	case result.UpToDate:
		return "up-to-date"
	case len(result.Conflicts) > 0:
		return "conflicts"
	case result.Failed != "":
		return "failed"
	case !result.Stopped.IsZero():
		return "edit"
	}
	return "rebased"
}

// countUnsigned returns the number of commits that lost a signature.
func countUnsigned(list []*commits.CommitResult) (n uint64) {
	for _, c := range list {
		if c.Unsigned {
			n++
		}
	}
	return n
}

// PrintRebase prints the result of a rebase, and returns the error that the command ends
// with.
func PrintRebase(ctx context.Context, env *cli.Env, r *kist.Repository, result *rebase.Result, err error) error {
	for _, id := range result.Upstream {
		env.Info("left out: %s, the upstream has its changes", input.Describe(ctx, r, id))
	}
	for _, id := range result.Nothing {
		env.Info("dropped: %s has no effect any more", input.Describe(ctx, r, id))
	}
	if err != nil && !stage.IsPartial(err) {
		return env.Unwritten(r, err)
	}

	if n := countUnsigned(result.Commits); n > 0 {
		env.Info("%s a signature, and the new ones have none; -S signs them", readable.Plural(n, "repeated commit had", "repeated commits had"))
	}
	tellConflicts(env, r, result.Conflicts)
	name := "HEAD"
	if result.Branch != "" {
		name = "branch " + result.Branch
	}
	switch rebaseOutcome(result) {
	case "up-to-date":
		env.PrintOutcome("Current %s is up to date.\n", name)
	case "edit":
		env.Info("Stopped at %s\n'kist commit --amend' changes the commit; 'kist rebase --continue' goes on", input.Describe(ctx, r, result.Stopped))
	case "failed":
		err := cli.Failf(cli.ExitFailed, "exec", "execution failed with status %d: %s", result.Status, cli.Printable(result.Failed))
		if result.Status == 0 {
			err = cli.Failf(cli.ExitFailed, "exec", "execution succeeded, but left changes: %s", cli.Printable(result.Failed))
		}
		return cli.Hintf(err, "HEAD is at %s: 'kist commit --amend' changes it; then 'kist rebase --continue', or --abort", input.Describe(ctx, r, result.Stopped))
	case "conflicts":
		err := cli.Failf(cli.ExitPartial, "conflicts", "could not apply %s: %s", input.Describe(ctx, r, result.Stopped), conflictCount(result.Conflicts))
		return cli.Hintf(err, cli.HintDecide+", then 'kist rebase --continue'; or --skip to leave the commit out; or --abort")
	default:
		ref := "HEAD"
		if result.Branch != "" {
			ref = "refs/heads/" + result.Branch
		}
		env.Info("Successfully rebased and updated %s.", ref)
	}
	return errors.Join(keptStash(result), env.Unwritten(r, err))
}

// keptStash returns an error if the local changes could not be brought back.
func keptStash(result *rebase.Result) error {
	if result.Kept == nil {
		return nil
	}
	err := cli.Failf(cli.ExitPartial, "conflicts", "your local changes conflict with the new commits")
	return cli.Hintf(err, "they are safe in %s: 'kist stash show' lists them, 'kist stash drop' removes them when you have them back", result.Kept.Name())
}

// endAborted prints HEAD with --json, and returns the error that the command ends with.
func (o *rebaseOptions) endAborted(env *cli.Env, r *kist.Repository, result *rebase.Result, err error) error {
	head, herr := r.Refs().Head()
	if herr == nil {
		env.JSON(NewCheckoutJSON(head))
	}
	return errors.Join(keptStash(result), env.Unwritten(r, err), herr)
}

package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree/rebase"
	"github.com/kist-vcs/kist/tree/stage"
)

type rebaseOptions struct {
	rebase.Options
	stepsOptions
	interactive bool
}

func newRebase(env *Env) *cobra.Command {
	var o rebaseOptions
	cmd := &cobra.Command{
		Use:   "rebase [OPTIONS] [UPSTREAM [BRANCH]] | --continue | --skip | --abort",
		Short: "repeat the commits of a branch on another one",
		Long: `Takes the commits of the current branch, or of BRANCH, that UPSTREAM lacks, and
repeats them on UPSTREAM, or on the commit of --onto. Then the branch moves to
the last new commit. Without UPSTREAM it is the branch that the current one
follows. The old commits stay in the reflog; ORIG_HEAD is the last of them.

Merge commits are left out: their commits follow each other in one line. So are
commits whose changes UPSTREAM has already, to the same files from the same
content, and commits that have no effect any more. Authors and their times stay.

Only trees are merged, as 'kist cherry-pick' does it; large files cost nothing.
Files that the old and the new commits have alike are not written.

At conflicts the exit status is 3. When you have resolved them and staged the
files, --continue goes on. --skip leaves the commit out. --abort brings back the
branch, the index and the worktree as they were. Meanwhile HEAD is detached, and
'kist status' shows how far the rebase is.

With -i, an editor (see 'kist help commit') shows the list of commits. Lines can
be reordered; the first word says what to do: pick, reword, edit, squash, fixup
or drop, or its first letter. If a line is not valid, nothing is done.

Tracked files must have no local changes, except with --autostash: this puts the
changes aside as a stash, and brings them back at the end.

With --json: result (up-to-date, rebased, edit or conflicts), branch, old and id
(its commit before and now), commits (how many are new). Left out: dropped
(commits without an effect) and upstream (commits that UPSTREAM has already). At
a stop: stopped (the commit), conflicts (path, kind, ours_path, theirs_path) and
rest (the commits that are left). The field kept has the stash of local
changes that conflict with the new commits).`,
		Example: `  kist rebase main
  kist rebase --onto main feature topic    move what topic has over feature
  kist rebase -i HEAD~3                    change the last three commits
  kist rebase --autostash origin/main
  kist rebase --continue`,
		Args:              arguments(0, 2),
		ValidArgsFunction: completeNth(env.complete(revisions), env.complete(branches)),
	}
	env.inRepository(cmd, notBare(o.run), exitPartial, exitMoved, exitBusy)
	flags := cmd.Flags()
	flags.StringVar(&o.Onto, "onto", "", "repeat the commits on `REV` instead of UPSTREAM")
	flags.BoolVarP(&o.interactive, "interactive", "i", false, "edit the list of commits first")
	flags.BoolVar(&o.Autostash, "autostash", false, "put local changes aside, and bring them back at the end")
	o.stepsOptions.register(cmd, "onto", "interactive", "autostash")
	return cmd
}

func (o *rebaseOptions) run(ctx context.Context, env *Env, r *kist.Repository, args []string) error {
	if o.given() && len(args) > 0 {
		return usagef("%s is not expected", quoteArg(args[0]))
	}
	if len(args) > 0 {
		o.Upstream = previous(args[0])
	}
	if len(args) > 1 {
		o.Branch = previous(args[1])
	}
	if o.interactive {
		if editor(env) == "" {
			return hintf(usagef("-i needs an editor, and there is no terminal"), "KIST_EDITOR names a program that edits the list")
		}
		o.EditTodo = func(ctx context.Context, list string) (string, error) {
			return editText(ctx, r, editor(env), "REBASE_TODO", list)
		}
	}
	o.Edit = func(ctx context.Context, message string) (string, error) { return editMessage(ctx, env, r, message) }
	o.Brief = true

	p := env.progress("rebasing")
	o.Progress = p.amounts()
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
	if result == nil {
		return env.unwritten(r, rebaseBlocked(err))
	}
	env.maintain(r)
	if o.abort {
		return o.aborted(env, r, result, err)
	}
	if err == nil || isPartial(err) {
		env.json(newRebasedJSON(result))
	}
	return printRebase(ctx, env, r, result, err)
}

// rebaseBlocked adds advice to the error of a rebase that local changes block.
func rebaseBlocked(err error) error {
	if !errors.Is(err, stage.ErrLocalChanges) {
		return err
	}
	return hintf(&failure{err: err, exit: exitFailed, kind: "local-changes"}, "commit these changes, or use --autostash, and move away untracked files")
}

// editMessage lets the user edit the message of a commit that a rebase repeats.
func editMessage(ctx context.Context, env *Env, r *kist.Repository, message string) (string, error) {
	editor := editor(env)
	if editor == "" {
		return "", hintf(usagef("no editor for the message, and no terminal"), "KIST_EDITOR names one; 'kist rebase --skip' keeps the message")
	}
	text, err := editText(ctx, r, editor, "COMMIT_EDITMSG", message+"\n\n# The message of the commit. Lines that begin with # are left out.\n")
	if err != nil {
		return "", err
	}
	if text = cleanMessage(withoutComments(text)); text == "" {
		return "", hintf(errNoMessage, "'kist rebase --continue' starts the editor again; 'kist rebase --skip' keeps the message")
	}
	return text, nil
}

// rebasedJSON is what rebase prints with --json.
type rebasedJSON struct {
	Result   string         `json:"result"`
	Branch   *string        `json:"branch"` // null: HEAD is detached
	Old      object.ID      `json:"old"`
	ID       object.ID      `json:"id"`
	Commits  int            `json:"commits"`
	Dropped  []object.ID    `json:"dropped"`
	Upstream []object.ID    `json:"upstream"`
	Stopped  object.ID      `json:"stopped,omitzero"`
	Conflict []conflictJSON `json:"conflicts,omitempty"`
	Rest     []object.ID    `json:"rest,omitempty"`
	Kept     object.ID      `json:"kept,omitzero"`
}

func newRebasedJSON(result *rebase.Result) rebasedJSON {
	j := rebasedJSON{
		Result: rebaseOutcome(result), Branch: orNull(result.Branch), Old: result.Old, ID: result.ID, Commits: len(result.Commits),
		Dropped: append([]object.ID{}, result.Nothing...), Upstream: append([]object.ID{}, result.Upstream...),
		Stopped: result.Stopped, Rest: result.Rest,
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
	case !result.Stopped.IsZero():
		return "edit"
	}
	return "rebased"
}

// printRebase prints the result of a rebase, and returns the error that the command ends
// with.
func printRebase(ctx context.Context, env *Env, r *kist.Repository, result *rebase.Result, err error) error {
	for _, id := range result.Upstream {
		env.info("left out: %s, the upstream has its changes", describe(ctx, r, id))
	}
	for _, id := range result.Nothing {
		env.info("dropped: %s has no effect any more", describe(ctx, r, id))
	}
	if err != nil && !isPartial(err) {
		return env.unwritten(r, rebaseBlocked(err))
	}

	tellConflicts(env, r, result.Conflicts)
	name := "HEAD"
	if result.Branch != "" {
		name = "branch " + result.Branch
	}
	switch rebaseOutcome(result) {
	case "up-to-date":
		env.tell("Current %s is up to date.\n", name)
	case "edit":
		env.info("Stopped at %s\n'kist commit --amend' changes the commit; 'kist rebase --continue' goes on", describe(ctx, r, result.Stopped))
	case "conflicts":
		err := failf(exitPartial, "conflicts", "could not apply %s: %s", describe(ctx, r, result.Stopped), conflictCount(result.Conflicts))
		return hintf(err, hintDecide+", then 'kist rebase --continue'; or --skip to leave the commit out; or --abort")
	default:
		ref := "HEAD"
		if result.Branch != "" {
			ref = "refs/heads/" + result.Branch
		}
		env.info("Successfully rebased and updated %s.", ref)
	}
	return errors.Join(keptStash(result), env.unwritten(r, err))
}

// keptStash returns an error if the local changes could not be brought back.
func keptStash(result *rebase.Result) error {
	if result.Kept == nil {
		return nil
	}
	err := failf(exitPartial, "conflicts", "your local changes conflict with the new commits")
	return hintf(err, "they are safe in %s: 'kist stash show' lists them, 'kist stash drop' removes them when you have them back", result.Kept.Name())
}

// aborted prints that the branch is as before.
func (o *rebaseOptions) aborted(env *Env, r *kist.Repository, result *rebase.Result, err error) error {
	head, herr := r.Refs().Head()
	if herr == nil {
		env.json(newCheckoutJSON(head))
	}
	return errors.Join(keptStash(result), env.unwritten(r, err), herr)
}

package cli

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs/intact"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/commits"
	"github.com/kist-vcs/kist/tree/operation"
	"github.com/kist-vcs/kist/tree/stage"
	"github.com/kist-vcs/kist/tree/view"
)

type mergeOptions struct {
	messages  []string
	ffOnly    bool
	noFF      bool
	noCommit  bool
	unrelated bool
	abort     bool
	goOn      bool
}

func newMerge(env *Env) *cobra.Command {
	var o mergeOptions
	cmd := &cobra.Command{
		Use:   "merge [OPTIONS] REV | --continue | --abort",
		Short: "merge another branch into the current one",
		Long: `Merges what REV has, usually a branch, into the current branch. If that has
nothing of its own it is only moved on (a fast-forward). Otherwise what each
side changed since they parted is put together, texts line by line, and
committed.

Where both sides changed the same, there are conflicts: they are listed, and
the exit status is 3. Texts then hold both versions between markers; of other
files ours stays, and theirs is put beside it, with ~ and its name. Decide,
'kist add' or 'kist rm' the paths that 'kist status' shows, and 'kist commit'
or --continue ends the merge; --abort goes back to how it was before.

Nothing may be staged before a merge. Changes in the worktree stay, if they are
in files that the merge does not touch; otherwise nothing is done, and these
are named.

With --json: result (up-to-date, fast-forward, merged, stopped or conflicts),
old and id (HEAD's commit before and now), added, modified, deleted, renamed
(how many), and conflicts (path, kind, and where a version was put aside
ours_path and theirs_path).`,
		Example: `  kist merge topic
  kist merge --no-ff -m 'the new kitchen' topic
  kist checkout --theirs plan.pdf && kist add plan.pdf && kist merge --continue
  kist merge --abort`,
		ValidArgsFunction: completeNth(env.complete(revisions), cobra.NoFileCompletions),
	}
	env.inRepository(cmd, o.run, exitPartial, exitMoved, exitBusy)
	flags := cmd.Flags()
	flags.StringArrayVarP(&o.messages, "message", "m", nil, "the `MESSAGE` of the commit; if given more than once, each is a paragraph")
	flags.BoolVar(&o.ffOnly, "ff-only", false, "fail with status 13 if a commit is needed")
	flags.BoolVar(&o.noFF, "no-ff", false, "make a commit even if moving the branch is enough")
	flags.BoolVar(&o.noCommit, "no-commit", false, "stop before the commit")
	flags.BoolVar(&o.unrelated, "allow-unrelated-histories", false, "merge histories without a common commit, or one whose content is gone")
	flags.Bool("no-edit", false, "take the message as it is (it always is)")
	flags.BoolVar(&o.goOn, "continue", false, "commit a merge whose conflicts are resolved")
	flags.BoolVar(&o.abort, "abort", false, "go back to the state before the merge")
	cmd.MarkFlagsMutuallyExclusive("ff-only", "no-ff")
	cmd.MarkFlagsMutuallyExclusive("ff-only", "no-commit")
	for _, name := range []string{"ff-only", "no-ff", "no-commit", "message"} {
		cmd.MarkFlagsMutuallyExclusive("continue", "abort", name)
	}
	return cmd
}

func (o *mergeOptions) run(ctx context.Context, env *Env, r *kist.Repository, args []string) error {
	switch {
	case (o.goOn || o.abort) && len(args) > 0:
		return usagef("%s is not expected", quoteArg(args[0]))
	case !o.goOn && !o.abort && len(args) == 0:
		return hintf(usagef("REV is missing"), "'kist branch' lists the branches")
	case len(args) > 1:
		return usagef("only one branch can be merged at a time")
	}
	message := cleanMessage(strings.Join(o.messages, "\n\n"))
	if message == "" && o.messages != nil {
		return errNoMessage
	}
	switch {
	case o.abort:
		return env.abort(ctx, r, operation.Merging)
	case o.goOn:
		return env.continueMerge(ctx, r)
	}
	p := env.progress("merging")
	defer p.Stop()
	result, applyErr := commits.Merge(ctx, r, commits.MergeOptions{
		Rev: env.previous(args[0]), Message: message, FastForwardOnly: o.ffOnly, NoFastForward: o.noFF,
		NoCommit: o.noCommit, Unrelated: o.unrelated, Progress: p.amounts(),
	})
	p.Stop()
	if errors.Is(applyErr, commits.ErrNotFastForward) {
		return hintf(applyErr, "without --ff-only, kist makes a merge commit")
	}
	if result == nil {
		return env.unwritten(r, blocked(applyErr))
	}
	env.maintain(r)
	return env.concludeMerge(ctx, r, result, applyErr, func(merged mergedJSON) any { return merged })
}

// concludeMerge prints the result of a merge, with --json as form has it. It returns
// the error that the command ends with.
func (e *Env) concludeMerge(ctx context.Context, r *kist.Repository, result *commits.MergeResult, applyErr error, form func(mergedJSON) any) error {
	if err := e.printMerged(ctx, r, result, form); err != nil {
		return err
	}
	if err := e.unwritten(r, applyErr); err != nil {
		return err
	}
	if len(result.Conflicts) > 0 {
		return hintf(failf(exitPartial, "conflicts", "the merge stopped at %s", conflictCount(result.Conflicts)),
			hintDecide+", then 'kist commit'; or 'kist merge --abort'")
	}
	return nil
}

// blocked returns the error that local changes are in the way of a merge or
// revert, with advice; other errors as they are.
func blocked(err error) error {
	if !errors.Is(err, stage.ErrLocalChanges) {
		return err
	}
	return hintf(&failure{err: err, exit: exitFailed, kind: "local-changes"}, "commit these changes, or undo them with 'kist restore', and move away untracked files")
}

// abort ends a merge or revert.
func (e *Env) abort(ctx context.Context, r *kist.Repository, op operation.Operation) error {
	p := e.progress("going back")
	defer p.Stop()
	err := commits.Abort(ctx, r, op, p.amounts())
	p.Stop()
	if err == nil && e.global.json {
		head, err := r.Refs().Head()
		if err != nil {
			return err
		}
		e.json(newCheckoutJSON(head))
		return nil
	}
	return e.unwritten(r, err)
}

// continueMerge commits a merge whose conflicts are resolved.
func (e *Env) continueMerge(ctx context.Context, r *kist.Repository) error {
	state, err := operation.Current(r)
	if err != nil {
		return err
	}
	if state.Operation != operation.Merging {
		return failf(exitFailed, "not-in-progress", "a merge is %w", operation.ErrNotInProgress)
	}
	result, err := commits.Commit(ctx, r, commits.CommitOptions{})
	if err != nil {
		return err
	}
	e.maintain(r)
	return e.printCommitted(result)
}

// mergedJSON is what merge prints with --json.
type mergedJSON struct {
	Result string     `json:"result"`
	Old    *object.ID `json:"old"` // null: the branch had no commit
	ID     object.ID  `json:"id"`
	changeCounts
	Conflicts []conflictJSON `json:"conflicts"`
}

// printMerged prints the result of a merge.
func (e *Env) printMerged(ctx context.Context, r *kist.Repository, result *commits.MergeResult, form func(mergedJSON) any) error {
	var n changeCounts
	what := "merged"
	switch {
	case result.UpToDate:
		what = "up-to-date"
	case result.FastForward:
		what = "fast-forward"
		changes, err := e.changesBetween(ctx, r, result.Old, result.ID)
		if err != nil && !errors.Is(err, intact.ErrExpired) {
			return err
		}
		n = countChanges(changes)
		if err != nil { // the work is done nevertheless
			e.warn("cannot show the changes: %v", err)
			n.unknown = true
		}
	case len(result.Conflicts) > 0:
		what = "conflicts"
	case result.Commit == nil:
		what = "stopped"
	default:
		n = committedChanges(result.Commit)
	}
	e.tellConflicts(r, result.Conflicts)
	if e.global.json {
		out := mergedJSON{Result: what, ID: result.ID, changeCounts: n, Conflicts: newConflictsJSON(result.Conflicts)}
		if !result.Old.IsZero() {
			out.Old = &result.Old
		}
		e.json(form(out))
		return nil
	}
	switch what {
	case "up-to-date":
		e.tell("Already up to date.\n")
	case "fast-forward":
		if !result.Old.IsZero() {
			e.tell("Updating %s..%s\n", result.Old.Short(), result.ID.Short())
		}
		e.tell("Fast-forward\n %s\n", n)
	case "stopped":
		e.tell("Automatic merge went well; stopped before committing as requested.\n")
	case "merged":
		return e.printCommitted(result.Commit)
	}
	return nil
}

// changesBetween returns what changed from one commit, which may be none, to
// another.
func (e *Env) changesBetween(ctx context.Context, r *kist.Repository, old, new object.ID) ([]tree.Change, error) {
	from := view.View{Objects: r.Contents()}
	if !old.IsZero() {
		var err error
		if from, err = view.OfCommit(ctx, r, old.String()); err != nil {
			return nil, err
		}
	}
	to, err := view.OfCommit(ctx, r, new.String())
	if err != nil {
		return nil, err
	}
	return view.Diff(ctx, from, to, nil, true)
}

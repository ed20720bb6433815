package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/jsonform"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/look/compare"
	"github.com/kist-vcs/kist/tree/work/commits"
	"github.com/kist-vcs/kist/tree/work/operation"
	"github.com/kist-vcs/kist/tree/work/stage"
)

type mergeOptions struct {
	messageOptions
	commits.MergeOptions
	abort, goOn bool
	strategy    string
	options     []string // of the strategy

	form func(mergedJSON) any // returns the output of --json; nil: the argument
}

// register adds the options that merge and pull share.
func (o *mergeOptions) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVarP(&o.messages, "message", "m", nil, "the `MESSAGE` of a merge commit; if given more than once, each is a paragraph")
	flags.BoolVar(&o.FastForwardOnly, "ff-only", false, "fail with status 13 if a commit is needed")
	withoutValue(flags, "ff", "move the branch if that is enough (the default)", func() error {
		o.FastForwardOnly, o.NoFastForward = false, false
		return nil
	})
	flags.BoolVar(&o.NoFastForward, "no-ff", false, "make a commit even if moving the branch is enough")
	flags.BoolVar(&o.Unrelated, "allow-unrelated-histories", false, "merge histories without a common commit, or one whose content is gone")
	flags.BoolVar(&o.Squash, "squash", false, "only stage the merged changes; the next commit is an ordinary one")
	flags.VarP(newChoice(&o.strategy, "ort", "ours"), "strategy", "s", "how to merge: `ort|ours`: both sides (the default), or only record the merge and keep our files")
	flags.StringArrayVarP(&o.options, "strategy-option", "X", nil, "where both sides changed the same, take our or their lines: `ours|theirs`")
	cmd.MarkFlagsMutuallyExclusive("ff-only", "no-ff")
	cmd.MarkFlagsMutuallyExclusive("no-ff", "squash")
}

// settle checks the options of the strategy.
func (o *mergeOptions) settle() error {
	o.Discard = o.strategy == "ours"
	for _, option := range o.options {
		switch option {
		case "ours":
			o.Favor = tree.Ours
		case "theirs":
			o.Favor = tree.Theirs
		default:
			return usagef("-X %s is unknown: ours and theirs are possible", quoteArg(option))
		}
	}
	return nil
}

func newMerge(env *Env) *cobra.Command {
	var o mergeOptions
	cmd := &cobra.Command{
		Use:   "merge [OPTIONS] REV | --continue | --abort",
		Short: "merge another branch into the current one",
		Long: `Merges REV, usually a branch, into the current branch. If the current branch has
no commits of its own, it moves to REV (a fast-forward). Otherwise kist combines
the changes of both sides since their common ancestor, texts line by line, and
commits the result.

If both sides made different changes in the same place, there are conflicts.
kist lists them, and the exit status is 3. A text then has both versions between
markers. Of another file, our version stays, and theirs is put beside it, with ~
and the name of its side. Resolve the conflicts, and 'kist add' or 'kist rm'
the paths that 'kist status' lists. 'kist commit' or --continue ends the merge,
and --abort undoes it.

--squash stages the merged changes and ends: no merge is in progress, HEAD
stays, and the next 'kist commit' offers their messages as a draft. -s ours
keeps all files as they are, and only records that REV is merged. -X ours and -X
theirs merge texts as usual, and settle conflicts of lines in favour of a side.
A file that is no text is taken from that side. Other conflicts stay.

Nothing may be staged before a merge. Local changes stay if the merge does not
touch their files. Otherwise kist names these files and does nothing.

With --json: result (up-to-date, fast-forward, merged, stopped or conflicts),
old and id (HEAD's commit before and now); added, modified, deleted, renamed
(how many); and conflicts (path, kind, and ours_path and theirs_path if a
version was put aside).`,
		Example: `  kist merge topic
  kist merge --no-ff -m 'the new kitchen' topic
  kist checkout --theirs plan.pdf && kist add plan.pdf && kist merge --continue
  kist merge --abort`,
		ValidArgsFunction: completeNth(env.complete(revisions), cobra.NoFileCompletions),
	}
	env.inRepository(cmd, notBare(o.run), exitPartial, exitMoved, exitBusy)
	o.register(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&o.NoCommit, "no-commit", false, "stop before the commit")
	flags.Bool("no-edit", false, "take the message as it is (it always is)")
	flags.BoolVar(&o.goOn, "continue", false, "commit a merge whose conflicts are resolved")
	flags.BoolVar(&o.abort, "abort", false, "go back to the state before the merge")
	cmd.MarkFlagsMutuallyExclusive("ff-only", "no-commit")
	for _, name := range []string{"ff-only", "no-ff", "no-commit", "message", "squash", "strategy", "strategy-option"} {
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
	err := o.settle()
	if err == nil {
		o.Message, err = o.message(env, errNoMessage)
	}
	if err != nil {
		return err
	}

	switch {
	case o.abort:
		return env.abort(ctx, r, operation.Merging)
	case o.goOn:
		return continueMerge(ctx, env, r)
	}

	p := env.progress("merging")
	o.Rev, o.Progress = previous(args[0]), p.amounts()
	result, err := commits.Merge(ctx, r, o.MergeOptions)
	p.Stop()
	return o.end(ctx, env, r, result, err)
}

// end prints the result of a merge, and returns the error that the command ends with. The
// result is nil if nothing was done because of mergeErr.
func (o *mergeOptions) end(ctx context.Context, env *Env, r *kist.Repository, result *commits.MergeResult, mergeErr error) error {
	if errors.Is(mergeErr, commits.ErrNotFastForward) {
		return hintf(mergeErr, "without --ff-only, kist makes a merge commit")
	}
	if result == nil {
		return env.unwritten(r, blocked(mergeErr))
	}
	env.maintain(r)

	if err := o.print(ctx, env, r, result); err != nil {
		return err
	}
	if err := env.unwritten(r, mergeErr); err != nil {
		return err
	}
	if len(result.Conflicts) > 0 {
		undo := "'kist merge --abort'"
		if result.Squashed {
			undo = "'kist reset --hard'"
		}
		return hintf(failf(exitPartial, "conflicts", "the merge stopped at %s", conflictCount(result.Conflicts)),
			hintDecide+", then 'kist commit'; or %s", undo)
	}
	return nil
}

// blocked adds advice to the error of a merge, revert or cherry-pick that local changes
// block. It returns other errors unchanged.
func blocked(err error) error {
	return localBlock(err, "commit these changes, or undo them with 'kist restore -SW', and move away untracked files")
}

// localBlock adds advice to an error about local changes.
func localBlock(err error, advice string) error {
	if !errors.Is(err, stage.ErrLocalChanges) {
		return err
	}
	return hintf(&failure{err: err, exit: exitFailed, kind: "local-changes"}, "%s", advice)
}

// abort ends an operation in progress.
func (e *Env) abort(ctx context.Context, r *kist.Repository, op operation.Operation) error {
	p := e.progress("going back")
	err := commits.Abort(ctx, r, op, commits.StepOptions{Progress: p.amounts()})
	p.Stop()
	if err != nil {
		return e.unwritten(r, blocked(err))
	}
	head, err := r.Refs().Head()
	if err == nil {
		e.json(newCheckoutJSON(head))
	}
	return err
}

// continueMerge commits a merge whose conflicts are resolved.
func continueMerge(ctx context.Context, env *Env, r *kist.Repository) error {
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
	env.maintain(r)
	printCommitted(env, result)
	return nil
}

// mergedJSON is what merge prints with --json.
type mergedJSON struct {
	Result string     `json:"result"`
	Old    *object.ID `json:"old"` // null: the branch had no commit
	ID     object.ID  `json:"id"`
	changeCounts
	Conflicts []conflictJSON `json:"conflicts"`
}

// print prints the result of a merge.
func (o *mergeOptions) print(ctx context.Context, env *Env, r *kist.Repository, result *commits.MergeResult) error {
	var n changeCounts
	what := "merged"
	switch {
	case result.UpToDate:
		what = "up-to-date"
	case result.FastForward:
		what = "fast-forward"
		changes, err := changesBetween(ctx, r, result.Old, result.ID)
		if err != nil && !errors.Is(err, kist.ErrExpired) {
			return err
		}
		n = countChanges(changes)
		if err != nil { // the work is done nevertheless
			env.warn("cannot show the changes: %v", err)
			n.unknown = true
		}
	case len(result.Conflicts) > 0:
		what = "conflicts"
	case result.Commit == nil:
		what = "stopped"
	default:
		n = committedChanges(result.Commit)
	}
	tellConflicts(env, r, result.Conflicts)
	if env.global.json {
		merged := mergedJSON{what, orNull(result.Old), result.ID, n, newConflictsJSON(result.Conflicts)}
		if o.form != nil {
			env.json(o.form(merged))
		} else {
			env.json(merged)
		}
		return nil
	}

	switch what {
	case "up-to-date":
		env.tell("Already up to date.\n")
	case "fast-forward":
		if !result.Old.IsZero() {
			env.tell("Updating %s..%s\n", result.Old.Short(), result.ID.Short())
		}
		env.tell("Fast-forward\n %s\n", n)
	case "stopped":
		if result.Squashed {
			env.tell("Squash commit -- not updating HEAD\n")
		}
		env.tell("Automatic merge went well; stopped before committing as requested\n")
	case "merged":
		printCommitted(env, result.Commit)
	}
	return nil
}

// changesBetween returns the changes from one commit to another. A zero old commit is empty.
func changesBetween(ctx context.Context, r *kist.Repository, old, new object.ID) ([]tree.Change, error) {
	from := compare.View{Objects: r.Contents()}
	if !old.IsZero() {
		var err error
		if from, err = compare.OfCommit(ctx, r, old.String()); err != nil {
			return nil, err
		}
	}
	to, err := compare.OfCommit(ctx, r, new.String())
	if err != nil {
		return nil, err
	}
	return compare.Diff(ctx, from, to, nil, true)
}

// conflictJSON is a conflict as merge and revert print it with --json.
type conflictJSON struct {
	jsonform.AtPath
	Kind          string `json:"kind"`
	OursPath      string `json:"ours_path,omitempty"` // of our version, if not at path
	OursPathRaw   []byte `json:"ours_path_raw,omitempty"`
	TheirsPath    string `json:"theirs_path,omitempty"`
	TheirsPathRaw []byte `json:"theirs_path_raw,omitempty"`
}

func newConflictsJSON(list []tree.Conflict) []conflictJSON {
	out := make([]conflictJSON, len(list))
	for i, c := range list {
		out[i] = conflictJSON{
			jsonform.NewPath(c.Path), string(c.Kind), c.OursPath, jsonform.Raw(c.OursPath), c.TheirsPath, jsonform.Raw(c.TheirsPath),
		}
	}
	return out
}

// conflictCount returns the number of paths that the user has to decide on, in words. There
// are more paths than conflicts if a version was put aside or moved.
func conflictCount(list []tree.Conflict) string {
	return plural(uint64(len(commits.ConflictPaths(list))), "path to decide on", "paths to decide on")
}

// tellConflicts lists conflicts for a person.
func tellConflicts(env *Env, r *kist.Repository, list []tree.Conflict) {
	for _, c := range list {
		fmt.Fprintf(env.Stderr, "%s %s\n", env.paintErr(red, fmt.Sprintf("CONFLICT (%s):", c.Kind)), conflictText(env, r, c))
	}
}

// conflictText describes a conflict, and the decision that it needs.
func conflictText(env *Env, r *kist.Repository, c tree.Conflict) string {
	path := env.shown(r, c.Path)
	aside := ""
	switch {
	case c.TheirsPath != "":
		aside = "; theirs is put aside as " + env.shown(r, c.TheirsPath)
	case c.OursPath != "":
		aside = "; ours is put aside as " + env.shown(r, c.OursPath)
	}
	by := func(ours bool) string {
		if ours {
			return "us"
		}
		return "them"
	}

	switch c.Kind {
	case tree.ConflictContent, tree.ConflictAddAdd, tree.ConflictType:
		if c.Markers {
			return "merge conflict in " + path
		}
		return path + " cannot be merged; ours stays" + aside
	case tree.ConflictMode:
		if !maps.Equal(c.Ours.Attrs, c.Theirs.Attrs) {
			return path + ": both changed its permissions or attributes; ours stay"
		}
		return path + ": both changed its permissions; ours stay"
	case tree.ConflictModifyDelete:
		return fmt.Sprintf("%s was deleted by %s and changed by %s; the changed one stays", path, by(c.Ours == nil), by(c.Ours != nil))
	case tree.ConflictFileDirectory:
		return path + " is a folder on one side; it stays" + aside
	case tree.ConflictRenameDelete:
		return fmt.Sprintf("%s was renamed to %s by %s and deleted by %s; the renamed one stays", env.shown(r, c.From), path, by(c.Ours != nil), by(c.Ours == nil))
	case tree.ConflictRenameRename:
		return fmt.Sprintf("%s was renamed to %s by us and to %s by them; both stay", path, env.shown(r, c.OursPath), env.shown(r, c.TheirsPath))
	case tree.ConflictLocation:
		return locationText(env, r, c)
	}
	return path + aside
}

// locationText describes a conflict about a file whose folder the other side renamed.
func locationText(env *Env, r *kist.Repository, c tree.Conflict) string {
	path := env.shown(r, c.Path)
	if c.From == "" {
		return path + " is in a folder that the other side renamed; it stays, because its new place is taken or not clear"
	}
	return fmt.Sprintf("%s is in a folder that the other side renamed; it moves along to %s", env.shown(r, c.From), path)
}

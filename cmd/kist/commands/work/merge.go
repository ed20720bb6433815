package work

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/input"
	"github.com/kist-vcs/kist/cmd/kist/jsonform"
	"github.com/kist-vcs/kist/cmd/kist/readable"
	"github.com/kist-vcs/kist/cmd/kist/show"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/look/compare"
	"github.com/kist-vcs/kist/tree/work/commits"
	"github.com/kist-vcs/kist/tree/work/operation"
	"github.com/kist-vcs/kist/tree/work/stage"
)

type MergeFlags struct {
	MessageOptions
	commits.MergeOptions
	abort, goOn bool
	verify      bool
	strategy    string
	options     []string // of the strategy

	Form func(MergedJSON) any // returns the output of --json; nil: the argument
}

// Register adds the options that merge and pull share.
func (o *MergeFlags) Register(env *cli.Env, cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVarP(&o.Messages, "message", "m", nil, "the `MESSAGE` of a merge commit; if given more than once, each is a paragraph")
	flags.BoolVar(&o.FastForwardOnly, "ff-only", false, "fail with status 13 if a commit is needed")
	cli.WithoutValue(flags, "ff", "move the branch if that is enough (the default)", func() error {
		o.FastForwardOnly, o.NoFastForward = false, false
		return nil
	})
	flags.BoolVar(&o.NoFastForward, "no-ff", false, "make a commit even if moving the branch is enough")
	flags.BoolVar(&o.Unrelated, "allow-unrelated-histories", false, "merge histories without a common commit, or one whose content is gone")
	flags.BoolVar(&o.Squash, "squash", false, "only stage the merged changes; the next commit is an ordinary one")
	flags.VarP(cli.NewChoice(&o.strategy, "ort", "ours"), "strategy", "s", "how to merge: `ort|ours`: both sides (the default), or only record the merge and keep our files")
	flags.StringArrayVarP(&o.options, "strategy-option", "X", nil, "where both sides changed the same, take our or their lines: `ours|theirs`")
	env.Repo.Commits.Register(cmd, "S", "the commit")
	flags.BoolVar(&o.verify, "verify-signatures", false, "merge only a commit with a good signature; see 'kist help sign'")
	cmd.MarkFlagsMutuallyExclusive("ff-only", "no-ff")
	cmd.MarkFlagsMutuallyExclusive("no-ff", "squash")
}

// Settle checks the options of the strategy, and arranges the check of the signature.
func (o *MergeFlags) Settle(env *cli.Env, r *kist.Repository) error {
	if o.verify {
		signers, err := env.NeedAllowedSigners()
		if err != nil {
			return err
		}
		o.Verify = func(ctx context.Context, id object.ID) error {
			result, err := signers.CheckNode(ctx, r.Objects(), object.Key{Kind: object.KindCommit, ID: id})
			if err != nil {
				return err
			}
			return cli.WantGood("commit "+id.Short(), result)
		}
	}
	o.Discard = o.strategy == "ours"
	for _, option := range o.options {
		switch option {
		case "ours":
			o.Favor = tree.Ours
		case "theirs":
			o.Favor = tree.Theirs
		default:
			return cli.Usagef("-X %s is unknown: ours and theirs are possible", cli.QuoteArg(option))
		}
	}
	return nil
}

func NewMerge(env *cli.Env) *cobra.Command {
	var o MergeFlags
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
touch their files. Otherwise kist names these files and does nothing.`,
		Example: `  kist merge topic
  kist merge --no-ff -m 'the new kitchen' topic
  kist checkout --theirs plan.pdf && kist add plan.pdf && kist merge --continue
  kist merge --abort`,
		ValidArgsFunction: cli.CompleteNth(env.Complete(cli.Revisions), cobra.NoFileCompletions),
	}
	env.Prints(cmd, "", MergedJSON{})
	env.Prints(cmd, "with --continue", commitDoneJSON{})
	env.Prints(cmd, "with --abort", CheckoutJSON{})
	env.InRepository(cmd, cli.NotBare(o.run), cli.ExitPartial, cli.ExitMoved, cli.ExitBusy)
	o.Register(env, cmd)
	flags := cmd.Flags()
	flags.BoolVar(&o.NoCommit, "no-commit", false, "stop before the commit")
	flags.Bool("no-edit", false, "take the message as it is (it always is)")
	flags.BoolVar(&o.goOn, "continue", false, "commit a merge whose conflicts are resolved")
	flags.BoolVar(&o.abort, "abort", false, "go back to the state before the merge")
	cmd.MarkFlagsMutuallyExclusive("ff-only", "no-commit")
	for _, name := range []string{"ff-only", "no-ff", "no-commit", "message", "squash", "strategy", "strategy-option", "verify-signatures"} {
		cmd.MarkFlagsMutuallyExclusive("continue", "abort", name)
	}
	return cmd
}

func (o *MergeFlags) run(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
	switch {
	case (o.goOn || o.abort) && len(args) > 0:
		return cli.Usagef("%s is not expected", cli.QuoteArg(args[0]))
	case !o.goOn && !o.abort && len(args) == 0:
		return cli.Hintf(cli.Usagef("REV is missing"), "'kist branch' lists the branches")
	case len(args) > 1:
		return cli.Usagef("only one branch can be merged at a time")
	}
	err := o.Settle(env, r)
	if err == nil {
		o.Message, err = o.ReadMessage(env, ErrNoMessage)
	}
	if err != nil {
		return err
	}

	switch {
	case o.abort:
		return abort(ctx, env, r, operation.Merging)
	case o.goOn:
		return continueMerge(ctx, env, r)
	}

	p := env.Progress("merging")
	o.Rev, o.Progress = input.Previous(args[0]), p.Amounts()
	result, err := commits.Merge(ctx, r, o.MergeOptions)
	p.Stop()
	return o.PrintResult(ctx, env, r, result, err)
}

// PrintResult prints the result of a merge, and returns the error that the command ends with. The
// result is nil if nothing was done because of mergeErr.
func (o *MergeFlags) PrintResult(ctx context.Context, env *cli.Env, r *kist.Repository, result *commits.MergeResult, mergeErr error) error {
	if errors.Is(mergeErr, commits.ErrNotFastForward) {
		return cli.Hintf(mergeErr, "without --ff-only, kist makes a merge commit")
	}
	if result == nil {
		return env.Unwritten(r, blocked(mergeErr))
	}
	env.Maintain(r)

	if err := o.printResult(ctx, env, r, result); err != nil {
		return err
	}
	if err := env.Unwritten(r, mergeErr); err != nil {
		return err
	}
	if len(result.Conflicts) > 0 {
		undo := "'kist merge --abort'"
		if result.Squashed {
			undo = "'kist reset --hard'"
		}
		return cli.Hintf(cli.Failf(cli.ExitPartial, "conflicts", "the merge stopped at %s", conflictCount(result.Conflicts)),
			cli.HintDecide+", then 'kist commit'; or %s", undo)
	}
	return nil
}

// blocked adds advice to the error of a merge, revert or cherry-pick that local changes
// block. It returns other errors unchanged.
func blocked(err error) error {
	return LocalBlock(err, "commit these changes, or undo them with 'kist restore -SW', and move away untracked files")
}

// LocalBlock adds advice to an error about local changes.
func LocalBlock(err error, advice string) error {
	if !errors.Is(err, stage.ErrLocalChanges) {
		return err
	}
	return cli.Hintf(&cli.Failure{Err: err, Exit: cli.ExitFailed, Kind: "local-changes"}, "%s", advice)
}

// abort ends an operation in progress.
func abort(ctx context.Context, e *cli.Env, r *kist.Repository, op operation.Operation) error {
	p := e.Progress("going back")
	err := commits.Abort(ctx, r, op, commits.StepOptions{Progress: p.Amounts()})
	p.Stop()
	if err != nil {
		return e.Unwritten(r, blocked(err))
	}
	head, err := r.Refs().Head()
	if err == nil {
		e.JSON(NewCheckoutJSON(head))
	}
	return err
}

// continueMerge commits a merge whose conflicts are resolved.
func continueMerge(ctx context.Context, env *cli.Env, r *kist.Repository) error {
	state, err := operation.Current(r)
	if err != nil {
		return err
	}
	if state.Operation != operation.Merging {
		return cli.Failf(cli.ExitFailed, "not-in-progress", "a merge is %w", operation.ErrNotInProgress)
	}
	result, err := commits.Commit(ctx, r, commits.CommitOptions{})
	if err != nil {
		return err
	}
	env.Maintain(r)
	printCommitted(env, result)
	return nil
}

// MergedJSON is what merge prints with --json.
type MergedJSON struct {
	Result string     `json:"result" doc:"the outcome" values:"up-to-date|fast-forward|merged|stopped|conflicts"`
	Old    *object.ID `json:"old" doc:"the commit of HEAD before; null: the branch had none"`
	ID     object.ID  `json:"id" doc:"the commit of HEAD now"`
	show.ChangeCounts
	Conflicts []conflictJSON `json:"conflicts" doc:"the conflicts"`
}

// printResult prints the result of a merge.
func (o *MergeFlags) printResult(ctx context.Context, env *cli.Env, r *kist.Repository, result *commits.MergeResult) error {
	var n show.ChangeCounts
	what := "merged"
	switch {
	case result.UpToDate:
		what = "up-to-date"
	case result.FastForward:
		what = "fast-forward"
		changes, err := changesBetween(ctx, r, result.Old, result.ID)
		if err != nil && !errors.Is(err, object.ErrExpired) {
			return err
		}
		n = show.CountChanges(changes)
		if err != nil { // the work is done nevertheless
			env.Warn("cannot show the changes: %v", err)
			n.Unknown = true
		}
	case len(result.Conflicts) > 0:
		what = "conflicts"
	case result.Commit == nil:
		what = "stopped"
	default:
		n = show.CommittedChanges(result.Commit)
	}
	tellConflicts(env, r, result.Conflicts)
	if env.Global.JSON {
		merged := MergedJSON{what, cli.OrNull(result.Old), result.ID, n, newConflictsJSON(result.Conflicts)}
		if o.Form != nil {
			env.JSON(o.Form(merged))
		} else {
			env.JSON(merged)
		}
		return nil
	}

	switch what {
	case "up-to-date":
		env.PrintOutcome("Already up to date.\n")
	case "fast-forward":
		if !result.Old.IsZero() {
			env.PrintOutcome("Updating %s..%s\n", result.Old.Short(), result.ID.Short())
		}
		env.PrintOutcome("Fast-forward\n %s\n", n)
	case "stopped":
		if result.Squashed {
			env.PrintOutcome("Squash commit -- not updating HEAD\n")
		}
		env.PrintOutcome("Automatic merge went well; stopped before committing as requested\n")
	case "merged":
		printCommitted(env, result.Commit)
	}
	return nil
}

// changesBetween returns the changes from one commit to another. A zero old commit is empty.
func changesBetween(ctx context.Context, r *kist.Repository, old, new object.ID) ([]tree.Change, error) {
	from := compare.Side{Objects: r.Contents()}
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
	Kind          string `json:"kind" doc:"the kind of the conflict" values:"content|add/add|type|mode|modify/delete|file/directory|rename/rename|rename/delete|file location"`
	OursPath      string `json:"ours_path,omitempty" doc:"the path of our version, if it was put aside"`
	OursPathRaw   []byte `json:"ours_path_raw,omitempty"`
	TheirsPath    string `json:"theirs_path,omitempty" doc:"the path of their version, if it was put aside"`
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
	return readable.Plural(uint64(len(commits.ConflictPaths(list))), "path to decide on", "paths to decide on")
}

// tellConflicts lists conflicts for a person.
func tellConflicts(env *cli.Env, r *kist.Repository, list []tree.Conflict) {
	for _, c := range list {
		fmt.Fprintf(env.Stderr, "%s %s\n", env.PaintErr(cli.Red, fmt.Sprintf("CONFLICT (%s):", c.Kind)), conflictText(env, r, c))
	}
}

// conflictText describes a conflict, and the decision that it needs.
func conflictText(env *cli.Env, r *kist.Repository, c tree.Conflict) string {
	path := env.Shown(r, c.Path)
	aside := ""
	switch {
	case c.TheirsPath != "":
		aside = "; theirs is put aside as " + env.Shown(r, c.TheirsPath)
	case c.OursPath != "":
		aside = "; ours is put aside as " + env.Shown(r, c.OursPath)
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
		return fmt.Sprintf("%s was renamed to %s by %s and deleted by %s; the renamed one stays", env.Shown(r, c.From), path, by(c.Ours != nil), by(c.Ours == nil))
	case tree.ConflictRenameRename:
		return fmt.Sprintf("%s was renamed to %s by us and to %s by them; both stay", path, env.Shown(r, c.OursPath), env.Shown(r, c.TheirsPath))
	case tree.ConflictLocation:
		return locationText(env, r, c)
	}
	return path + aside
}

// locationText describes a conflict about a file whose folder the other side renamed.
func locationText(env *cli.Env, r *kist.Repository, c tree.Conflict) string {
	path := env.Shown(r, c.Path)
	if c.From == "" {
		return path + " is in a folder that the other side renamed; it stays, because its new place is taken or not clear"
	}
	return fmt.Sprintf("%s is in a folder that the other side renamed; it moves along to %s", env.Shown(r, c.From), path)
}

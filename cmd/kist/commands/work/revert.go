package work

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/input"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree/look/log"
	"github.com/kist-vcs/kist/tree/work/commits"
	"github.com/kist-vcs/kist/tree/work/operation"
	"github.com/kist-vcs/kist/tree/work/stage"
)

// stepsOptions are the options that continue or end an operation of several steps.
type stepsOptions struct {
	goOn, abort, skip bool
}

func (o *stepsOptions) register(cmd *cobra.Command, others ...string) {
	flags := cmd.Flags()
	flags.BoolVar(&o.goOn, "continue", false, "commit the resolved files and continue")
	flags.BoolVar(&o.skip, "skip", false, "give up the commit with conflicts and continue with the next one")
	flags.BoolVar(&o.abort, "abort", false, "go back to the state before the first commit")
	for _, name := range append(others, "continue") {
		cmd.MarkFlagsMutuallyExclusive("skip", "abort", name)
	}
	for _, name := range others {
		cmd.MarkFlagsMutuallyExclusive("continue", name)
	}
}

// isGiven reports whether one of the options is given.
func (o *stepsOptions) isGiven() bool { return o.goOn || o.abort || o.skip }

// resumeSteps continues an operation, with or without the step at hand.
func (o *stepsOptions) resumeSteps(ctx context.Context, r *kist.Repository, op operation.Operation, steps commits.StepOptions) (*commits.StepsResult, error) {
	if o.skip {
		return commits.Skip(ctx, r, op, steps)
	}
	return commits.Continue(ctx, r, op, steps)
}

// revertOptions are those of revert and cherry-pick.
type revertOptions struct {
	commits.RevertOptions
	stepsOptions
	op   operation.Operation
	doer func(context.Context, *kist.Repository, commits.RevertOptions) (*commits.StepsResult, error)
	done string // printed after a REV whose changes have no effect here
}

func NewRevert(env *cli.Env) *cobra.Command {
	o := revertOptions{op: operation.Reverting, doer: commits.Revert, done: "is undone already"}
	cmd := &cobra.Command{
		Use:   "revert [OPTIONS] REV... | --continue | --skip | --abort",
		Short: "undo older commits with new ones",
		Long: `Undoes the changes of each REV in a new commit; the history stays. The commits
are undone in the order of the REVs. A..B means the commits that B has and A
lacks, newest first.

If later commits changed the same lines, there are conflicts, as in 'kist
merge', and the exit status is 3. When you have resolved them, --continue
commits and goes on with the next REV. --skip leaves this REV out. --abort
returns to the state before the first REV.`,
		Example: `  kist revert HEAD
  kist revert --no-commit v1..v2     undo several, and commit them as one
  kist revert -m 1 HEAD              undo a merge`,
		ValidArgsFunction: env.Complete(cli.Revisions),
	}
	env.Prints(cmd, "for each new commit", commitDoneJSON{})
	env.Prints(cmd, "at conflicts", stoppedJSON{})
	env.Prints(cmd, "with --abort", CheckoutJSON{})
	o.register(env, cmd)
	flags := cmd.Flags()
	flags.BoolVarP(&o.NoCommit, "no-commit", "n", false, "stage the reverting changes without a commit; other changes may be staged already")
	flags.IntVarP(&o.Parent, "mainline", "m", 0, "for a merge, go back to the parent with this `NUMBER`, from 1")
	flags.Bool("no-edit", false, "take the messages as they are (they always are)")
	o.stepsOptions.register(cmd, "no-commit", "mainline")
	return cmd
}

func NewCherryPick(env *cli.Env) *cobra.Command {
	o := revertOptions{op: operation.Picking, doer: commits.CherryPick, done: "is here already"}
	cmd := &cobra.Command{
		Use:   "cherry-pick [OPTIONS] REV... | --continue | --skip | --abort",
		Short: "repeat the changes of other commits on the current branch",
		Long: `Repeats the changes of each REV in a new commit with its message and author.
A..B means the commits that B has and A lacks, oldest first. A REV whose changes
are here already makes no commit.

The trees are merged, with the parent of REV as their base. If the branch
changed the same lines, there are conflicts, as in 'kist merge', and the exit
status is 3. When you have resolved them, --continue commits and goes on with
the next REV. --skip leaves this REV out. --abort returns to the state before
the first REV.

Commits without conflicts are made first. Then the worktree changes once, so a
file that several REVs change is written once.`,
		Example: `  kist cherry-pick topic             the last commit of topic
  kist cherry-pick -x main..topic    all that main lacks, with their names
  kist cherry-pick -n HEAD@{1}       stage the changes without a commit
  kist cherry-pick --skip            leave out the commit with conflicts`,
		ValidArgsFunction: env.Complete(cli.Revisions),
	}
	env.Prints(cmd, "for each new commit", commitDoneJSON{})
	env.Prints(cmd, "at conflicts", stoppedJSON{})
	env.Prints(cmd, "with --abort", CheckoutJSON{})
	o.register(env, cmd)
	flags := cmd.Flags()
	flags.BoolVarP(&o.Origin, "record-origin", "x", false, "add \"(cherry picked from commit ID)\" to the messages")
	flags.BoolVarP(&o.NoCommit, "no-commit", "n", false, "stage the changes without a commit; other changes may be staged already")
	flags.IntVarP(&o.Parent, "mainline", "m", 0, "for a merge, repeat its changes from the parent with this `NUMBER`, from 1")
	o.stepsOptions.register(cmd, "no-commit", "mainline", "record-origin")
	return cmd
}

// register adds what revert and cherry-pick share.
func (o *revertOptions) register(env *cli.Env, cmd *cobra.Command) {
	env.Repo.Commits.Register(cmd, "S", "the new commits")
	env.InRepository(cmd, cli.NotBare(o.run), cli.ExitPartial, cli.ExitMoved, cli.ExitBusy)
}

func (o *revertOptions) run(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
	switch {
	case o.isGiven() && len(args) > 0:
		return cli.Usagef("%s is not expected", cli.QuoteArg(args[0]))
	case !o.isGiven() && len(args) == 0:
		return cli.Usagef("REV is missing")
	case o.Parent < 0:
		return cli.Usagef("parents are counted from 1")
	case o.abort:
		return abort(ctx, env, r, o.op)
	}
	var err error
	if !o.isGiven() {
		if o.Commits, err = revertArgs(ctx, r, args, o.op); err != nil {
			return err
		}
	}

	var result *commits.StepsResult
	p := env.Progress(map[operation.Operation]string{operation.Reverting: "reverting", operation.Picking: "picking"}[o.op])
	o.Progress = p.Amounts()
	if o.isGiven() {
		result, err = o.resumeSteps(ctx, r, o.op, o.StepOptions)
	} else {
		result, err = o.doer(ctx, r, o.RevertOptions)
	}
	p.Stop()
	if result == nil {
		return env.Unwritten(r, blocked(err))
	}
	return o.printResult(ctx, env, r, result, err)
}

// revertArgs returns the commits that revisions and ranges stand for. A range is in the
// order in which op needs the commits.
func revertArgs(ctx context.Context, r *kist.Repository, args []string, op operation.Operation) ([]object.ID, error) {
	var ids []object.ID
	if !slices.ContainsFunc(args, input.IsRange) {
		for _, arg := range args {
			id, err := r.Resolve(ctx, input.Previous(arg))
			if err != nil {
				return nil, err
			}
			if !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
		return ids, nil
	}

	for c, err := range log.Commits(ctx, r, log.Options{Revs: args}) {
		if err != nil {
			return nil, err
		}
		ids = append(ids, c.ID)
	}
	if len(ids) == 0 {
		return nil, cli.Failf(cli.ExitFailed, "", "no commits to %s", op)
	}
	if op == operation.Picking {
		slices.Reverse(ids)
	}
	return ids, nil
}

// stoppedJSON is what revert and cherry-pick print with --json at conflicts.
type stoppedJSON struct {
	Stopped   object.ID      `json:"stopped" doc:"the commit where it stopped"`
	Conflicts []conflictJSON `json:"conflicts" doc:"the conflicts"`
	Rest      []object.ID    `json:"rest" doc:"the commits that are left"`
}

// printResult prints the result, and returns the error that the command ends with. The command
// may have failed with revertErr after some commits.
func (o *revertOptions) printResult(ctx context.Context, env *cli.Env, r *kist.Repository, result *commits.StepsResult, revertErr error) error {
	for _, c := range result.Commits {
		printCommitted(env, c)
	}

	for _, id := range result.Nothing {
		env.Info("%s %s", input.Describe(ctx, r, id), o.done)
	}
	env.Maintain(r)
	if revertErr != nil && !stage.IsPartial(revertErr) {
		return env.Unwritten(r, blocked(revertErr))
	}
	if len(result.Conflicts) == 0 {
		return env.Unwritten(r, revertErr)
	}
	tellConflicts(env, r, result.Conflicts)
	env.JSON(stoppedJSON{result.Stopped, newConflictsJSON(result.Conflicts), append([]object.ID{}, result.Rest...)})
	with := map[operation.Operation]string{operation.Reverting: "later changes", operation.Picking: "changes here"}[o.op]
	err := cli.Failf(cli.ExitPartial, "conflicts", "%s conflicts with %s: %s",
		input.Describe(ctx, r, result.Stopped), with, conflictCount(result.Conflicts))
	next := fmt.Sprintf("'kist %s --continue'", o.op)
	if o.NoCommit {
		next = "'kist commit'"
	}
	err = cli.Hintf(err, cli.HintDecide+", then %s; or 'kist %s --abort'", next, o.op)
	if o.NoCommit && len(result.Rest) > 0 {
		var left []string
		for _, id := range result.Rest {
			left = append(left, id.Short())
		}
		err = cli.Hintf(err, "not done yet: %s", strings.Join(left, " "))
	}
	return errors.Join(err, env.Unwritten(r, revertErr))
}

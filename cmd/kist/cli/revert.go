package cli

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/log"
	"github.com/kist-vcs/kist/tree/commits"
	"github.com/kist-vcs/kist/tree/operation"
)

type revertOptions struct {
	noCommit bool
	mainline int
	goOn     bool
	abort    bool
}

func newRevert(env *Env) *cobra.Command {
	var o revertOptions
	cmd := &cobra.Command{
		Use:   "revert [OPTIONS] REV... | --continue | --abort",
		Short: "undo older commits with new ones",
		Long: `Undoes the changes of each REV in a new commit; the history stays. The commits
are undone in the order of the REVs. A..B means the commits that B has and A
lacks, newest first.

If later commits changed the same lines, there are conflicts, as in 'kist
merge', and the exit status is 3. When you have resolved them, --continue
commits and goes on with the next REV. --abort returns to the state before the
first REV.

With --json, for each new commit the same as 'kist commit'; at conflicts:
stopped (the commit), conflicts (path, kind, ours_path, theirs_path) and rest
(the commits that are left).`,
		Example: `  kist revert HEAD
  kist revert --no-commit v1..v2     undo several, and commit them as one
  kist revert -m 1 HEAD              undo a merge`,
		ValidArgsFunction: env.complete(revisions),
	}
	env.inRepository(cmd, o.run, exitPartial, exitMoved, exitBusy)
	flags := cmd.Flags()
	flags.BoolVarP(&o.noCommit, "no-commit", "n", false, "stage the reverting changes without a commit; other changes may be staged already")
	flags.IntVarP(&o.mainline, "mainline", "m", 0, "for a merge, go back to the parent with this `NUMBER`, from 1")
	flags.Bool("no-edit", false, "take the messages as they are (they always are)")
	flags.BoolVar(&o.goOn, "continue", false, "commit the resolved files and continue")
	flags.BoolVar(&o.abort, "abort", false, "go back to the state before the first commit")
	cmd.MarkFlagsMutuallyExclusive("continue", "abort", "no-commit")
	cmd.MarkFlagsMutuallyExclusive("continue", "abort", "mainline")
	return cmd
}

func (o *revertOptions) run(ctx context.Context, env *Env, r *kist.Repository, args []string) error {
	switch {
	case (o.goOn || o.abort) && len(args) > 0:
		return usagef("%s is not expected", quoteArg(args[0]))
	case !o.goOn && !o.abort && len(args) == 0:
		return usagef("REV is missing")
	case o.mainline < 0:
		return usagef("parents are counted from 1")
	}
	if o.abort {
		return env.abort(ctx, r, operation.Reverting)
	}
	var result *commits.RevertResult
	var err error
	p := env.progress("reverting")
	defer p.Stop()
	if o.goOn {
		result, err = commits.Continue(ctx, r, p.amounts())
	} else {
		var list []object.ID
		if list, err = revertArgs(ctx, r, args); err != nil {
			return err
		}
		result, err = commits.Revert(ctx, r, commits.RevertOptions{Commits: list, Parent: o.mainline, NoCommit: o.noCommit, Progress: p.amounts()})
	}
	p.Stop()
	if result == nil {
		return env.unwritten(r, blocked(err))
	}
	return env.printReverted(ctx, r, *o, result, err)
}

// revertArgs returns the commits that revisions and ranges stand for.
func revertArgs(ctx context.Context, r *kist.Repository, args []string) ([]object.ID, error) {
	isRange := false
	for _, arg := range args {
		_, _, _, ok := refs.SplitRange(arg)
		isRange = isRange || ok || strings.HasPrefix(arg, "^")
	}
	var ids []object.ID
	if isRange {
		for c, err := range log.Commits(ctx, r, log.Options{Revs: args}) {
			if err != nil {
				return nil, err
			}
			ids = append(ids, c.ID)
		}
		if len(ids) == 0 {
			return nil, failf(exitFailed, "", "no commits to revert")
		}
		return ids, nil
	}
	for _, arg := range args {
		if arg == "-" {
			arg = "@{-1}"
		}
		id, err := r.Resolve(ctx, arg)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// stoppedJSON is what revert prints with --json at conflicts.
type stoppedJSON struct {
	Stopped   object.ID      `json:"stopped"`
	Conflicts []conflictJSON `json:"conflicts"`
	Rest      []object.ID    `json:"rest"`
}

// printReverted prints the result of a revert, which may have ended with an error
// after some commits.
func (e *Env) printReverted(ctx context.Context, r *kist.Repository, o revertOptions, result *commits.RevertResult, revertErr error) error {
	for _, c := range result.Commits {
		if err := e.printCommitted(c); err != nil {
			return err
		}
	}
	for _, id := range result.Nothing {
		e.info("%s is undone already", e.describe(ctx, r, id))
	}
	e.maintain(r)
	if revertErr != nil && !isPartial(revertErr) {
		return e.unwritten(r, blocked(revertErr))
	}
	if len(result.Conflicts) == 0 {
		return e.unwritten(r, revertErr)
	}
	e.tellConflicts(r, result.Conflicts)
	if e.global.json {
		out := stoppedJSON{result.Stopped, newConflictsJSON(result.Conflicts), result.Rest}
		if out.Rest == nil {
			out.Rest = []object.ID{}
		}
		e.json(out)
	}
	err := failf(exitPartial, "conflicts", "%s conflicts with later changes: %s",
		e.describe(ctx, r, result.Stopped), conflictCount(result.Conflicts))
	next := "'kist revert --continue'"
	if o.noCommit {
		next = "'kist commit'"
	}
	err = hintf(err, hintDecide+", then %s; or 'kist revert --abort'", next)
	if o.noCommit && len(result.Rest) > 0 {
		var left []string
		for _, id := range result.Rest {
			left = append(left, id.Short())
		}
		err = hintf(err, "not undone yet: %s", strings.Join(left, " "))
	}
	return errors.Join(err, e.unwritten(r, revertErr))
}

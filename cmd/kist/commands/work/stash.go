package work

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/input"
	"github.com/kist-vcs/kist/cmd/kist/jsonform"
	"github.com/kist-vcs/kist/cmd/kist/show"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/look/compare"
	"github.com/kist-vcs/kist/tree/pathspec"
	"github.com/kist-vcs/kist/tree/work/stage"
	"github.com/kist-vcs/kist/tree/work/stash"
)

func NewStash(env *cli.Env) *cobra.Command {
	var o stashPushOptions
	cmd := &cobra.Command{
		Use:   "stash [COMMAND]",
		Short: "put changes aside, and bring them back",
		Long: `Saves the staged and other changes of tracked files as a stash, and goes back to
HEAD. Without a command, the same as 'kist stash push'. 'kist stash pop' brings
the changes back, on this or another branch.

A stash is a commit. stash@{0} is the newest, stash@{1} the one before, and so
on; a number alone means the same. Stashes belong to this repository: they are
never pushed, and gc never removes them.`,
		Example: `  kist stash                       put everything aside
  kist stash list
  kist stash pop                   bring it back`,
		Args: func(cmd *cobra.Command, args []string) error {
			if dash := cmd.ArgsLenAtDash(); len(args) > 0 && dash != 0 {
				return cli.UnknownCommand(cmd, args[0])
			}
			return nil
		},
		ValidArgsFunction: env.CompleteUntilDash(func(context.Context, *cli.Env, *kist.Repository, string) []string { return nil }, cli.TrackedPaths),
	}
	o.register(env, cmd)
	cmd.AddCommand(newStashApply(env), newStashBranch(env), newStashClear(env), newStashDrop(env),
		newStashList(env), newStashPop(env), newStashPush(env), newStashShow(env))
	return cmd
}

type stashPushOptions struct {
	stash.PushOptions
	messages []string
	patch    bool
}

// register makes cmd push a stash.
func (o *stashPushOptions) register(env *cli.Env, cmd *cobra.Command) {
	env.Prints(cmd, "", stashJSON{})
	env.InRepository(cmd, cli.NotBare(o.run), cli.ExitPartial, cli.ExitBusy)
	flags := cmd.Flags()
	flags.StringArrayVarP(&o.messages, "message", "m", nil, "describe the stash by `MESSAGE`")
	flags.BoolVarP(&o.Untracked, "include-untracked", "u", false, "also stash untracked files, but no ignored ones")
	flags.BoolVarP(&o.KeepIndex, "keep-index", "k", false, "keep staged changes, in the index and in the worktree")
	patchFlag(cmd, &o.patch, "choose which changed lines to stash")
}

func newStashPush(env *cli.Env) *cobra.Command {
	var o stashPushOptions
	cmd := &cobra.Command{
		Use:     "push [OPTIONS] [[--] PATH...]",
		Aliases: []string{"save"},
		Short:   "put changes aside",
		Long: `Saves the changes of tracked files, staged or not, as a new stash, and goes back
to HEAD. If kist cannot read a file or undo a change, it names the path and
does nothing.

With PATHs, only the changes at these paths are undone. As in git, the stash
then has these changes and all staged ones.

With -p, choose hunk by hunk what to stash, as in 'kist add -p'. New files stay.
The index stays as it is, unless --keep-index=false is given.

Until the stash is recorded, nothing changes. So a kill at any moment leaves the
changes in the worktree or in the stash.`,
		Example: `  kist stash push -m 'half of the new kitchen'
  kist stash push -u               new files, too
  kist stash push -- plan.txt
  kist stash push -p               choose what to put aside`,
		ValidArgsFunction: env.Complete(cli.TrackedPaths),
	}
	o.register(env, cmd)
	return cmd
}

// stashJSON is a stash as push prints it with --json.
type stashJSON struct {
	ID      *object.ID `json:"id" doc:"the stash; null: there were no changes"`
	Message *string    `json:"message" doc:"its message; null: there were no changes"`
}

func (o *stashPushOptions) run(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
	specs, err := input.Pathspecs(env, r, args, false)
	if err != nil {
		return err
	}
	if err := o.checkTracked(ctx, r, specs); err != nil {
		return err
	}
	if len(specs) > 0 {
		if o.Paths, err = pathspec.Find(ctx, r, specs, pathspec.Places{Index: true, Worktree: o.Untracked}); err != nil {
			return err
		}
	}
	o.Message = CleanMessage(strings.Join(o.messages, "\n\n"))
	if o.patch {
		switch {
		case o.Untracked:
			return cli.Usagef("--patch and --include-untracked cannot be combined")
		case env.Global.JSON:
			return errPatchJSON()
		}
		o.Select = stashHunks(env, r, specs)
		o.KeepIndex = o.KeepIndex || !env.Cmd.Flags().Changed("keep-index")
	}

	stop := func() {}
	if !o.patch { // with --patch, questions would cross the progress
		p := env.Progress("stashing")
		o.Progress, stop = p.Amounts(), p.Stop
	}
	e, err := stash.Push(ctx, r, o.PushOptions)
	stop()
	if errors.Is(err, stash.ErrNothing) {
		env.PrintOrJSON(stashJSON{}, "No local changes to save\n")
		return nil
	}
	var local *stage.LocalChangesError
	if errors.As(err, &local) {
		err = cli.Hintf(&cli.Failure{Err: err, Exit: cli.ExitFailed, Kind: "local-changes"}, "stage these files, move them away, or stash untracked files, too, with -u")
	}
	if err != nil && e.New.IsZero() {
		return env.Unwritten(r, cli.HalfDone(err))
	}
	env.Maintain(r)
	env.PrintOrJSON(stashJSON{&e.New, &e.Reason}, "Saved working directory and index state %s\n", cli.Printable(e.Reason))
	return env.Unwritten(r, err)
}

// checkTracked returns an error if a path is neither tracked nor in HEAD, and so not stashed.
func (o *stashPushOptions) checkTracked(ctx context.Context, r *kist.Repository, specs pathspec.List) error {
	if o.Untracked || !specs.IsPlain() {
		return nil
	}
	head, err := compare.OfHead(ctx, r)
	if err != nil {
		return err
	}

	for _, s := range specs {
		if s.Path == "" || input.Tracked(r, s.Path) {
			continue
		}
		_, err := tree.Find(ctx, head.Objects, head.Tree, s.Path)
		switch {
		case err == nil:
		case !errors.Is(err, tree.ErrNotExist) && !errors.Is(err, tree.ErrNotDir):
			return err
		case r.Worktree().Exists(s.Path):
			return cli.Hintf(cli.Failf(cli.ExitFailed, "untracked", "path %s is untracked: nothing was stashed", cli.QuoteArg(s.Arg)), "-u stashes untracked files, too")
		default:
			return pathspec.NoMatch(s.Arg)
		}
	}
	return nil
}

func newStashList(env *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:               "list",
		Short:             "list the stashes",
		Long:              `Lists the stashes, the newest first.`,
		Example:           `  kist stash list`,
		Args:              cli.NoArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	env.Prints(cmd, "for each stash", stashedJSON{})
	env.InRepository(cmd, runStashList)
	return cmd
}

// stashedJSON is a stash as list prints it with --json.
type stashedJSON struct {
	Name    string    `json:"name" doc:"the stash, as in stash@{0}"`
	ID      object.ID `json:"id" doc:"its commit"`
	Message string    `json:"message" doc:"its message"`
	Time    time.Time `json:"time" doc:"when it was made"`
}

func runStashList(ctx context.Context, env *cli.Env, r *kist.Repository, _ []string) error {
	list, damage := stash.List(r) // damaged entries do not hide the others
	for _, e := range list {
		if env.Global.JSON {
			env.JSON(stashedJSON{e.Name(), e.New, e.Reason, e.Time})
		} else {
			env.Printf("%s: %s\n", e.Name(), cli.Printable(e.Reason))
		}
	}
	return damage
}

type stashShowOptions struct{ form show.ChangeForm }

func newStashShow(env *cli.Env) *cobra.Command {
	var o stashShowOptions
	cmd := &cobra.Command{
		Use:   "show [OPTIONS] [STASH]",
		Short: "show the changes in a stash",
		Long: `Shows the changes in a stash, by default the newest, compared to the commit that
was HEAD. Untracked files are not shown: 'kist show stash@{0}^3' shows them.`,
		Example: `  kist stash show
  kist stash show -p 1`,
		Args:              cli.Arguments(0, 1),
		ValidArgsFunction: cli.CompleteNth(env.Complete(stashes)),
	}
	env.Prints(cmd, "for each path", jsonform.Change{})
	env.InRepository(cmd, o.run)
	o.form.Register(cmd)
	return cmd
}

func (o *stashShowOptions) run(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
	if err := o.form.Settle(env, func(f *show.ChangeForm) { f.Stat = true }); err != nil {
		return err
	}
	e, err := findStash(ctx, r, args)
	if err != nil {
		return err
	}
	parts, err := stash.Read(ctx, r, e.New)
	if err != nil {
		return err
	}
	c := show.NewComparison(env, r, &o.form)
	if c.Old, err = compare.OfCommit(ctx, r, parts.Base.String()); err != nil {
		return err
	}
	if c.New, err = compare.OfCommit(ctx, r, e.New.String()); err != nil {
		return err
	}
	changes, err := c.Changes(ctx, nil)
	if err != nil {
		return err
	}
	return c.Show(ctx, changes)
}

// findStash returns the stash that the only argument names, or the newest.
func findStash(ctx context.Context, r *kist.Repository, args []string) (stash.Listed, error) {
	if len(args) == 0 {
		return stash.Find(ctx, r, "")
	}
	return stash.Find(ctx, r, args[0])
}

// listedStash is findStash for a stash that is in the list.
func listedStash(ctx context.Context, r *kist.Repository, args []string) (stash.Listed, error) {
	e, err := findStash(ctx, r, args)
	if err == nil && e.N < 0 {
		err = cli.Usagef("%s is not in the list of stashes", cli.QuoteArg(args[0]))
	}
	return e, err
}

// stashes proposes stashes.
func stashes(_ context.Context, _ *cli.Env, r *kist.Repository, _ string) []string {
	list, _ := stash.List(r)
	names := make([]string, len(list))
	for i, e := range list {
		names[i] = e.Name()
	}
	return names
}

const stashConflictsHelp = `Changes of the same lines are conflicts, as in 'kist merge', and the exit status
is 3. Decide, and 'kist add' or 'kist rm' the paths that 'kist status' lists. No
operation is in progress then, and the stash stays in the list. If a changed or
untracked file is in the way, kist names it and does nothing.`

func newStashApply(env *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "apply [OPTIONS] [STASH]",
		Short: "make the changes of a stash again",
		Long: `Makes the changes of a stash, by default the newest, in the worktree. Only new
files are staged. With --index, all changes that were staged are staged again.

` + stashConflictsHelp + ``,
		Example: `  kist stash apply
  kist stash apply --index stash@{1}`,
		Args:              cli.Arguments(0, 1),
		ValidArgsFunction: cli.CompleteNth(env.Complete(stashes)),
	}
	env.Prints(cmd, "", appliedJSON{})
	apply := func(ctx context.Context, r *kist.Repository, e stash.Listed, o stash.ApplyOptions) (*stash.Applied, error) {
		return stash.Apply(ctx, r, e.New, o)
	}
	return unstashes(env, cmd, findStash, apply)
}

func newStashPop(env *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pop [OPTIONS] [STASH]",
		Short: "make the changes of a stash again, and drop it",
		Long: `Makes the changes of a stash, by default the newest, in the worktree, and
removes it from the list. Only new files are staged. With --index, all changes
that were staged are staged again.

` + stashConflictsHelp + ``,
		Example: `  kist stash pop
  kist stash pop --index 1`,
		Args:              cli.Arguments(0, 1),
		ValidArgsFunction: cli.CompleteNth(env.Complete(stashes)),
	}
	env.Prints(cmd, "", appliedJSON{})
	return unstashes(env, cmd, listedStash, stash.Pop)
}

// unstashes makes cmd apply the stash that find returns.
func unstashes(env *cli.Env, cmd *cobra.Command, find func(context.Context, *kist.Repository, []string) (stash.Listed, error),
	apply func(context.Context, *kist.Repository, stash.Listed, stash.ApplyOptions) (*stash.Applied, error)) *cobra.Command {
	var o stash.ApplyOptions
	env.InRepository(cmd, cli.NotBare(func(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
		e, err := find(ctx, r, args)
		if err != nil {
			return err
		}
		p := env.Progress("applying the stash")
		o.Progress = p.Amounts()
		result, err := apply(ctx, r, e, o)
		p.Stop()
		return unstashed{e, result, cmd.Name() == "pop"}.printAndEnd(ctx, env, r, err)
	}), cli.ExitPartial, cli.ExitBusy)
	cmd.Flags().BoolVar(&o.Index, "index", false, "also stage the changes that were staged")
	return cmd
}

func newStashBranch(env *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "branch NAME [STASH]",
		Short: "make a branch from a stash, and drop it",
		Long: `Creates the branch NAME at the commit that was HEAD when the stash was made, and
switches to it. There the changes always fit. kist applies the stash, with its
staged changes, and removes it from the list.`,
		Example: `  kist stash branch kitchen
  kist stash branch kitchen 1`,
		Args:              cli.Arguments(1, 2, "NAME"),
		ValidArgsFunction: cli.CompleteNth(cobra.NoFileCompletions, env.Complete(stashes)),
	}
	env.Prints(cmd, "", appliedJSON{})
	env.InRepository(cmd, cli.NotBare(func(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
		e, err := findStash(ctx, r, args[1:])
		if err != nil {
			return err
		}
		p := env.Progress("checking out")
		result, err := stash.Branch(ctx, r, args[0], e, p.Amounts())
		p.Stop()
		if result != nil {
			env.Info("Switched to a new branch '%s'", cli.Printable(args[0]))
		}
		return unstashed{e, result, true}.printAndEnd(ctx, env, r, err)
	}), cli.ExitPartial, cli.ExitBusy)
	return cmd
}

// appliedJSON is what apply, pop and branch print with --json.
type appliedJSON struct {
	Stash     string         `json:"stash" doc:"the stash; empty if it is not in the list"`
	ID        object.ID      `json:"id" doc:"its commit"`
	Conflicts []conflictJSON `json:"conflicts" doc:"the conflicts"`
	Dropped   bool           `json:"dropped" doc:"true if the stash was dropped"`
}

// unstashed is a stash that was applied.
type unstashed struct {
	stash.Listed
	result *stash.Applied // not nil if the error is nil or partial
	drop   bool           // it leaves the list if there was no problem
}

// printAndEnd prints the result, and returns the error that the command ends with. Applying the stash
// ended with applyErr.
func (u unstashed) printAndEnd(ctx context.Context, env *cli.Env, r *kist.Repository, applyErr error) error {
	if applyErr != nil && !stage.IsPartial(applyErr) {
		return env.Unwritten(r, cli.HalfDone(blocked(applyErr)))
	}
	env.Maintain(r)
	conflicts := u.result.Conflicts
	tellConflicts(env, r, conflicts)
	if !env.Global.Quiet && !env.Global.JSON {
		s, err := stage.ReadStatus(ctx, r, stage.StatusOptions{})
		if err != nil {
			return err
		}
		statusLong(ctx, env, r, statusOptions{}, s)
	}

	out := appliedJSON{ID: u.New, Conflicts: newConflictsJSON(conflicts), Dropped: u.result.Dropped}
	if u.N >= 0 {
		out.Stash = u.Name()
	}
	if out.Dropped {
		env.PrintOutcome("%s", dropped(u.Listed))
	}
	env.JSON(out)
	if len(conflicts) == 0 && applyErr == nil {
		return nil
	}
	if u.drop {
		env.PrintOutcome("The stash entry is kept in case you need it again.\n")
	}
	if len(conflicts) > 0 {
		applyErr = errors.Join(cli.Hintf(cli.Failf(cli.ExitPartial, "conflicts", "the stash conflicts with later changes: %s", conflictCount(conflicts)), cli.HintDecide), applyErr)
	}
	return env.Unwritten(r, applyErr)
}

// dropped is the line for a stash that was removed from the list.
func dropped(e stash.Listed) string {
	return "Dropped refs/" + e.Name() + " (" + e.New.String() + ")\n"
}

func newStashDrop(env *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "drop [STASH]",
		Short: "remove a stash from the list",
		Long: `Removes a stash, by default the newest, from the list. Its changes stay in the
repository until a gc, and 'kist stash apply ID' still finds them.`,
		Example: `  kist stash drop
  kist stash drop stash@{1}`,
		Args:              cli.Arguments(0, 1),
		ValidArgsFunction: cli.CompleteNth(env.Complete(stashes)),
	}
	env.Prints(cmd, "", stashedJSON{})
	env.InRepository(cmd, cli.FreesSpace(runStashDrop), cli.ExitBusy)
	return cmd
}

func runStashDrop(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
	e, err := listedStash(ctx, r, args)
	if err != nil {
		return err
	}
	if err := stash.Drop(ctx, r, e); err != nil {
		return err
	}
	env.PrintOrJSON(stashedJSON{e.Name(), e.New, e.Reason, e.Time}, "%s", dropped(e))
	return nil
}

func newStashClear(env *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "clear",
		Short: "remove all stashes",
		Long: `Removes all stashes from the list. Their changes stay in the repository until a
gc, but nothing lists them.`,
		Example:           `  kist stash clear`,
		Args:              cli.NoArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	env.Prints(cmd, "", clearedJSON{})
	env.InRepository(cmd, cli.FreesSpace(func(ctx context.Context, env *cli.Env, r *kist.Repository, _ []string) error {
		n, err := stash.Clear(ctx, r)
		if err == nil {
			env.JSON(clearedJSON{n})
		}
		return err
	}), cli.ExitBusy)
	return cmd
}

// clearedJSON is what stash clear prints with --json.
type clearedJSON struct {
	Dropped int `json:"dropped" doc:"the number of stashes that were dropped"`
}

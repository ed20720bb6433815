package look

import (
	"context"
	"errors"
	"slices"

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
)

type diffOptions struct {
	form     show.ChangeForm
	staged   bool
	exitCode bool
	tool     toolOptions
}

func NewDiff(env *cli.Env) *cobra.Command {
	var o diffOptions
	cmd := &cobra.Command{
		Use:   "diff [OPTIONS] [REV [REV] | A..B | FILE@N [FILE@N]] [-- PATH...]",
		Short: "show how files differ",
		Long: `Compares the worktree, the index (the staged files), and commits:

  kist diff               the worktree with the index
  kist diff --staged      the index with HEAD, or with REV
  kist diff REV           the worktree with REV
  kist diff A B           commit B with commit A; also written A..B
  kist diff A...B         B with the merge base of A and B
  kist diff FILE@N        a file in the worktree with its version N
  kist diff FILE@N FILE@M two versions, see 'kist help history'

With PATHs, only these files and folders are compared. Untracked files are never
shown.

Text is compared by lines, in the format of git and patch. For other files, and
for text of more than 8 MiB, kist shows the ranges of bytes that differ, rounded
to the chunks of the file: 'bytes 0..0 -> 0..1048576' means that 1 MiB was
inserted at the start. A path with a merge conflict has a line '* Unmerged
path'; in the worktree, its differences from our side follow.

With full metadata, another owner, extended attribute, hard link or time of a
file is a change, too.

Purged content is not shown, only marked. If kist cannot read a file, it reports
the file and treats it as unchanged.

With --quiet nothing is shown, and --exit-code is implied.`,
		Example: `  kist diff                        what 'kist add' would stage
  kist diff --staged --stat        what 'kist commit' would record, in brief
  kist diff v1 v2 -- src           what changed below src
  kist diff --quiet || echo 'something changed'`,
		ValidArgsFunction: env.CompleteUntilDash(cli.Revisions, cli.TrackedPaths),
	}
	env.Prints(cmd, "for each path", jsonform.Change{})
	env.InRepository(cmd, o.run)
	cli.PassesOverLost(cmd, env)
	o.form.Register(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&o.staged, "staged", false, "compare the index with REV, by default HEAD")
	flags.BoolVar(&o.staged, "cached", false, "the same as --staged")
	o.tool.register(flags)
	flags.BoolVar(&o.exitCode, "exit-code", false, "exit with 1 if there are differences")
	return cmd
}

func (o *diffOptions) run(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
	if err := o.form.Settle(env, func(f *show.ChangeForm) { f.Patch = true }); err != nil {
		return err
	}
	if o.comparesVersions(ctx, env, r, args) {
		return o.diffVersions(ctx, env, r, args)
	}
	revs, paths, err := input.RevsAndPaths(ctx, env, r, args)
	if err != nil {
		return err
	}

	c := show.NewComparison(env, r, &o.form)
	sides, err := stage.SidesOf(ctx, r, stage.SidesOptions{Revs: revs, Staged: o.staged, Paths: paths.Paths()})
	if errors.Is(err, stage.ErrTooManyRevs) {
		err = cli.Usagef("%w", err)
	}
	if err != nil {
		return err
	}
	c.Old, c.New = sides.Old, sides.New
	if err := pathspec.CheckMatches(ctx, r, paths, pathspec.Places{Views: []compare.Side{c.Old, c.New}, Index: true, Worktree: true}); err != nil {
		return err
	}

	skipped := c.New.Skipped
	if o.form.Reverse {
		c.Old, c.New = c.New, c.Old
	}
	changes, err := c.Selected(ctx, paths)
	if err != nil {
		return err
	}
	for _, conflict := range sides.Conflicts {
		if !paths.Selects(conflict.Path) {
			continue
		}
		if changes, err = c.AddConflict(ctx, changes, conflict, len(revs) == 0); err != nil {
			return err
		}
	}
	return o.showChanges(ctx, c, changes, skipped)
}

// showChanges shows the changes that the options select, and returns the result of diff.
func (o *diffOptions) showChanges(ctx context.Context, c *show.Comparison, changes []compare.Change, skipped []object.Skipped) error {
	changes, err := c.Sift(ctx, changes)
	if err != nil {
		return err
	}
	if !c.Env.Global.Quiet || o.tool.wanted {
		print := c.Show
		if o.tool.wanted {
			print = func(ctx context.Context, changes []compare.Change) error { return o.tool.showChanges(ctx, c, changes) }
		}
		if err := print(ctx, changes); err != nil {
			return err
		}
	}
	if err := cli.PartialError(c.Env, c.Repo, skipped); err != nil {
		return err
	}
	if changes, err = c.Differing(ctx, changes); err != nil {
		return err
	}

	if len(changes) > 0 && (o.exitCode || c.Env.Global.Quiet) {
		return cli.Quiet(cli.ExitFailed)
	}
	return nil
}

// comparesVersions reports whether the arguments are one or two files in commits, and one of
// them has the form FILE@N.
func (o *diffOptions) comparesVersions(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) bool {
	version := func(arg string) bool { return input.NamesVersion(ctx, env, r, arg) }
	other := func(arg string) bool { return !input.NamesEntry(ctx, env, r, arg) }
	return !o.staged && env.Cmd.ArgsLenAtDash() < 0 && len(args) <= 2 &&
		slices.ContainsFunc(args, version) && !slices.ContainsFunc(args, other)
}

// diffVersions compares a version of a file with another one, or with the file in the
// worktree.
func (o *diffOptions) diffVersions(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
	old, err := input.LocateFile(ctx, env, r, args[0])
	if err != nil {
		return err
	}
	c := show.NewComparison(env, r, &o.form)
	c.Old = old.View()
	change := tree.Change{Path: old.Path, Old: &old.Entry}
	if len(args) == 2 {
		with, err := input.LocateFile(ctx, env, r, args[1])
		if err != nil {
			return err
		}
		c.New, change.Path, change.New = with.View(), with.Path, &with.Entry
	} else if c.New, change.Path, change.New, err = newest(ctx, env, r, args[0]); err != nil {
		return err
	}

	skipped := c.New.Skipped
	if change.New != nil && tree.ContentEqual(change.Old, change.New) {
		return cli.PartialError(env, r, skipped)
	}
	if o.form.Reverse {
		c.Old, c.New = c.New, c.Old
		change.Old, change.New = change.New, change.Old
	}
	return o.showChanges(ctx, c, []compare.Change{{Change: change}}, skipped)
}

// newest returns the worktree, and in it the newest path of a file that FILE@N names. The
// entry is nil if the worktree lacks it.
func newest(ctx context.Context, env *cli.Env, r *kist.Repository, arg string) (compare.Side, string, *object.Entry, error) {
	f, _, _, err := input.VersionOf(ctx, env, r, arg)
	if err != nil {
		return compare.Side{}, "", nil, err
	}
	files, err := stage.WorktreeView(ctx, r, []string{f.Path})
	if err != nil {
		return files, f.Path, nil, err
	}
	entry, err := tree.Find(ctx, files.Objects, files.Tree, f.Path)
	if errors.Is(err, tree.ErrNotExist) || errors.Is(err, tree.ErrNotDir) {
		return files, f.Path, nil, nil
	}
	return files, f.Path, &entry, err
}

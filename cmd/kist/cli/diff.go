package cli

import (
	"context"
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/view"
)

type diffOptions struct {
	form     changeForm
	staged   bool
	exitCode bool
}

func newDiff(env *Env) *cobra.Command {
	var o diffOptions
	cmd := &cobra.Command{
		Use:   "diff [OPTIONS] [REV [REV] | A..B] [-- PATH...]",
		Short: "show how files differ",
		Long: `Compares the worktree, the index (the staged files), and commits:

  kist diff               the worktree with the index
  kist diff --staged      the index with HEAD, or with REV
  kist diff REV           the worktree with REV
  kist diff A B           commit B with commit A; also written A..B
  kist diff A...B         B with the merge base of A and B

With PATHs, only these files and folders are compared. Untracked files are never
shown.

Text is compared by lines, in the format of git and patch. For other files, and
for text of more than 8 MiB, kist shows the ranges of bytes that differ, rounded
to the chunks of the file: 'bytes 0..0 -> 0..1048576' means that 1 MiB was
inserted at the start. A path with a merge conflict has a line '* Unmerged
path'; in the worktree, its differences from our side follow.

Purged content is not shown, only marked. If kist cannot read a file, it reports
the file and treats it as unchanged.

With --quiet nothing is shown, and --exit-code is implied.

With --json, one object for each path: path, status (git's letter),
renamed_from, similarity, old and new {type, mode, size, id, target, purged,
lost}, and lines_added and lines_deleted, or binary and ranges {old_offset,
old_size, new_offset, new_size}. --name-only and --name-status leave out lines
and ranges, and read no file.`,
		Example: `  kist diff                        what 'kist add' would stage
  kist diff --staged --stat        what 'kist commit' would record, in brief
  kist diff v1 v2 -- src           what changed below src
  kist diff --quiet || echo 'something changed'`,
		ValidArgsFunction: env.completeUntilDash(revisions, trackedPaths),
	}
	env.inRepository(cmd, func(ctx context.Context, env *Env, r *kist.Repository, args []string) error {
		return runDiff(cmd, env, r, &o, args)
	})
	passesOverLost(cmd, env)
	o.form.register(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&o.staged, "staged", false, "compare the index with REV, by default HEAD")
	flags.BoolVar(&o.staged, "cached", false, "the same as --staged")
	flags.BoolVar(&o.exitCode, "exit-code", false, "exit with 1 if there are differences")
	return cmd
}

func runDiff(cmd *cobra.Command, env *Env, r *kist.Repository, o *diffOptions, args []string) error {
	ctx := cmd.Context()
	if err := o.form.settle(cmd, func(f *changeForm) { f.patch = true }); err != nil {
		return err
	}
	revs, paths, err := env.revsAndPaths(cmd, r, args)
	if err != nil {
		return err
	}
	c := &comparison{env: env, repo: r, form: &o.form}
	var conflicts []index.Conflict
	if c.old, c.new, conflicts, err = diffViews(ctx, r, o.staged, revs, paths.paths()); err != nil {
		return err
	}
	if err := env.known(ctx, r, paths, places{views: []view.View{c.old, c.new}, index: true, worktree: true}); err != nil {
		return err
	}
	changes, err := c.selected(ctx, paths)
	if err != nil {
		return err
	}
	for _, conflict := range conflicts {
		if !paths.selects(conflict.Path) {
			continue
		}
		if changes, err = c.unmerged(ctx, changes, conflict, len(revs) == 0); err != nil {
			return err
		}
	}
	if !env.global.quiet {
		if err := c.show(ctx, changes); err != nil {
			return err
		}
	}
	if err := env.partial(r, c.new.Skipped); err != nil {
		return err
	}
	if len(changes) > 0 && (o.exitCode || env.global.quiet) {
		return quiet(exitFailed)
	}
	return nil
}

// unmerged marks the change of a path with a conflict, or adds it. The worktree is
// compared with our side of the conflict instead of the index. The index is not
// compared with anything.
func (c *comparison) unmerged(ctx context.Context, changes []fileChange, conflict index.Conflict, withOurs bool) ([]fileChange, error) {
	at, found := slices.BinarySearchFunc(changes, conflict.Path, func(c fileChange, path string) int {
		return tree.ComparePaths(c.Path, path)
	})
	if !found {
		changes = slices.Insert(changes, at, fileChange{Change: tree.Change{Path: conflict.Path}})
	}
	change := &changes[at]
	change.unmerged = true
	switch {
	case !c.new.Worktree:
		*change = fileChange{Change: tree.Change{Path: conflict.Path}, unmerged: true}
	case withOurs:
		change.Old, change.New = conflict.Ours, nil
		entry, err := tree.Find(ctx, c.new.Objects, c.new.Tree, conflict.Path)
		if err == nil {
			change.New = &entry
		} else if !errors.Is(err, tree.ErrNotExist) && !errors.Is(err, tree.ErrNotDir) {
			return nil, err
		}
	}
	return changes, nil
}

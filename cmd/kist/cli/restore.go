package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/tree/checkout"
	"github.com/kist-vcs/kist/tree/view"
)

type restoreOptions struct {
	source   string
	staged   bool
	worktree bool
	ours     bool
	theirs   bool
	to       string
	force    bool
}

func newRestore(env *Env) *cobra.Command {
	var o restoreOptions
	cmd := &cobra.Command{
		Use:   "restore [OPTIONS] PATH...",
		Short: "restore files",
		Long: `Restores files in the worktree from the index, or with --source from a commit.
Their local changes are lost, and tracked files that the source lacks are
removed. If untracked files are in the way, kist names them and changes nothing,
unless --force is given.

With --staged, restores the index instead, from HEAD or the source: changes are
unstaged, and the worktree stays. With --staged and --worktree, restores both.

With --to, writes the files below the folder DIR, as they are in HEAD or the
source, with their recorded times. DIR is created if it is absent. Without
PATHs, writes all files. Index and worktree stay. If a different file exists
there, kist names it and changes nothing, unless --force is given. Nothing is
removed.

If kist cannot write a path, it names the path and goes on with the others.

With --json: restored (how many paths), and with --to files and bytes (that were
written).`,
		Example: `  kist restore film.mov                        undo what was changed since it was staged
  kist restore --staged .                      unstage what is in the current folder
  kist restore --source HEAD~2 notes           go back two commits with a folder
  kist restore --source v1 --to /tmp/v1        write all of a version elsewhere`,
		ValidArgsFunction: env.complete(trackedPaths),
	}
	env.inRepository(cmd, o.run, exitPartial, exitBusy)
	flags := cmd.Flags()
	flags.StringVarP(&o.source, "source", "s", "", "take the files from the commit `REV`")
	flags.BoolVarP(&o.staged, "staged", "S", false, "restore the index")
	flags.BoolVarP(&o.worktree, "worktree", "W", false, "restore the worktree (the default without --staged)")
	flags.BoolVar(&o.ours, "ours", false, "for conflicting files, take our side")
	flags.BoolVar(&o.theirs, "theirs", false, "for conflicting files, take the side being merged")
	flags.StringVar(&o.to, "to", "", "write the files below `DIR`")
	flags.BoolVarP(&o.force, "force", "f", false, "overwrite untracked files; with --to, any file")
	cmd.MarkFlagsMutuallyExclusive("source", "ours", "theirs")
	for _, name := range []string{"staged", "worktree", "ours", "theirs"} {
		cmd.MarkFlagsMutuallyExclusive("to", name)
	}
	cmd.MarkFlagsMutuallyExclusive("staged", "ours")
	cmd.MarkFlagsMutuallyExclusive("staged", "theirs")
	must(cmd.RegisterFlagCompletionFunc("source", env.complete(revisions)))
	must(cmd.MarkFlagDirname("to"))
	env.registerSetID(cmd)
	return cmd
}

func (o *restoreOptions) run(ctx context.Context, env *Env, r *kist.Repository, args []string) error {
	if len(args) == 0 && o.to == "" {
		return hintf(usagef("PATH is missing"), "'kist restore .' is for all of the current folder")
	}
	specs, err := env.pathspecs(r, args, false)
	if err != nil {
		return err
	}
	if o.to != "" {
		return env.extract(ctx, r, *o, specs)
	}
	ro := checkout.RestoreOptions{Source: o.source, Staged: o.staged, Worktree: o.worktree || !o.staged, Force: o.force}
	from := "what is staged"
	switch {
	case o.ours:
		ro.Side, from = checkout.Ours, "our side"
	case o.theirs:
		ro.Side, from = checkout.Theirs, "their side"
	case o.source != "":
		id, err := r.Resolve(ctx, o.source)
		if err != nil {
			return err
		}
		from = id.Short()
	case o.staged:
		from = "HEAD"
	}
	return env.restore(ctx, r, ro, specs, from)
}

// extractedJSON is what restore --to prints with --json.
type extractedJSON struct {
	Files uint64 `json:"files"`
	Bytes uint64 `json:"bytes"`
}

// extract writes paths of a commit elsewhere.
func (e *Env) extract(ctx context.Context, r *kist.Repository, o restoreOptions, specs pathspecs) error {
	rev := o.source
	if rev == "" {
		rev = "HEAD"
	}
	source, err := view.OfCommit(ctx, r, rev)
	if err != nil {
		return err
	}
	paths, err := e.find(ctx, r, specs, places{views: []view.View{source}})
	if err != nil {
		return err
	}
	if len(paths) == 0 {
		paths = []string{""}
	}
	p := e.progress("restoring")
	defer p.Stop()
	wrote, err := checkout.Extract(ctx, r, source, checkout.ExtractOptions{Paths: paths, To: e.path(o.to), Force: o.force, Progress: p.amounts()})
	p.Stop()
	if err != nil && !isPartial(err) {
		return e.unwritten(r, err)
	}
	if e.global.json {
		e.json(extractedJSON{uint64(wrote.Files), uint64(wrote.Bytes)})
	} else {
		e.info("%s, %s, written below %s", plural(uint64(wrote.Files), "file", "files"), formatSize(uint64(wrote.Bytes)), quotePath(o.to))
	}
	return e.unwrittenBelow(o.to, err)
}

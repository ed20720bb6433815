package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/tree/checkout"
	"github.com/kist-vcs/kist/tree/stage"
)

type rmOptions struct {
	cached    bool
	recursive bool
	force     bool
	dryRun    bool
}

func newRm(env *Env) *cobra.Command {
	var o rmOptions
	cmd := &cobra.Command{
		Use:   "rm [OPTIONS] PATH...",
		Short: "remove tracked files",
		Long: `Removes files from the worktree and from the index, so that the next commit
lacks them. Earlier commits keep them. Files with uncommitted changes are only
removed with --force.

With --cached, the files stay in the worktree, untracked.

With --json: path, on a line for each.`,
		Example: `  kist rm old.txt
  kist rm -r drafts
  kist rm --cached notes.txt     keep the file, but do not track it any more`,
		Args:              arguments(1, -1, "the path to remove"),
		ValidArgsFunction: env.complete(trackedPaths),
	}
	env.inRepository(cmd, o.run, exitBusy)
	flags := cmd.Flags()
	flags.BoolVar(&o.cached, "cached", false, "leave the files in the worktree")
	flags.BoolVarP(&o.recursive, "recursive", "r", false, "also remove folders, with their tracked files")
	flags.BoolVarP(&o.force, "force", "f", false, "remove files with uncommitted changes, too")
	flags.BoolVarP(&o.dryRun, "dry-run", "n", false, "only show what would be removed")
	return cmd
}

// removedJSON is what rm prints with --json.
type removedJSON struct {
	Path    string `json:"path"`
	PathRaw []byte `json:"path_raw,omitempty"`
}

func (o *rmOptions) run(ctx context.Context, env *Env, r *kist.Repository, args []string) error {
	specs, err := env.pathspecs(r, args, false)
	if err != nil {
		return err
	}
	paths, err := env.find(ctx, r, specs, places{index: true})
	if err != nil {
		return err
	}
	if err := o.allowed(r, specs); err != nil {
		return err
	}
	removed, err := checkout.Remove(ctx, r, checkout.RemoveOptions{
		Paths: paths, Cached: o.cached, Recursive: o.recursive, Force: o.force, DryRun: o.dryRun,
	})
	if err != nil {
		return rmError(err)
	}
	for _, path := range removed {
		env.show(removedJSON{path, rawPath(path)}, "rm %s\n", env.shown(r, path))
	}
	return nil
}

// allowed refuses folders that are named, unless --recursive is given. Those
// that stay whole among the paths to remove are refused later.
func (o rmOptions) allowed(r *kist.Repository, specs pathspecs) error {
	if o.recursive || specs.plain() {
		return nil
	}
	idx, err := r.Index()
	if err != nil {
		return err
	}
	for _, s := range specs {
		if !s.exclude && idx.Dir(s.path) != nil {
			return fmt.Errorf("path %s: %w", quoteArg(s.arg), checkout.ErrIsDirectory)
		}
	}
	return nil
}

// rmError gives advice on local changes.
func rmError(err error) error {
	if isA[*stage.LocalChangesError](err) {
		return hintf(failf(exitFailed, "local-changes", "%w", err), "--cached keeps the file, -f removes it anyway")
	}
	return err
}

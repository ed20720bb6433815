package cli

import (
	"context"
	"errors"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/tree/checkout"
	"github.com/kist-vcs/kist/tree/stage"
)

type mvOptions struct {
	force  bool
	dryRun bool
}

func newMv(env *Env) *cobra.Command {
	var o mvOptions
	cmd := &cobra.Command{
		Use:   "mv [OPTIONS] SOURCE... DESTINATION",
		Short: "move or rename tracked files and folders",
		Long: `Moves SOURCE, a file or folder, to DESTINATION, in the worktree and in what is
staged. If DESTINATION is a folder, or there are several sources, they are moved
into it. What has changed in a file moves with it, and is not staged by that.

With --json: path and renamed_from, a line for each.`,
		Example: `  kist mv draft.txt final.txt
  kist mv a.jpg b.jpg photos`,
		Args:              arguments(2, -1, "the path to move", "the path to move to"),
		ValidArgsFunction: env.complete(trackedPaths),
	}
	env.inRepository(cmd, o.run, exitBusy)
	flags := cmd.Flags()
	flags.BoolVarP(&o.force, "force", "f", false, "replace an existing file")
	flags.BoolVarP(&o.dryRun, "dry-run", "n", false, "only show what would be moved")
	return cmd
}

// movedJSON is what mv prints with --json.
type movedJSON struct {
	Path    string `json:"path"`
	PathRaw []byte `json:"path_raw,omitempty"`
	From    string `json:"renamed_from"`
	FromRaw []byte `json:"renamed_from_raw,omitempty"`
}

func (o *mvOptions) run(ctx context.Context, env *Env, r *kist.Repository, args []string) error {
	paths, err := env.repoPaths(r, args)
	if err != nil {
		return err
	}
	to := args[len(args)-1]
	if info, err := os.Stat(env.path(to)); strings.HasSuffix(to, "/") && (err != nil || !info.IsDir()) {
		return failf(exitFailed, "not-found", "there is no folder %s", quoteArg(to))
	}
	moved, err := checkout.Move(ctx, r, checkout.MoveOptions{
		Sources: paths[:len(paths)-1], Destination: paths[len(paths)-1], Force: o.force, DryRun: o.dryRun,
	})
	for _, m := range moved {
		switch {
		case env.global.json:
			env.json(movedJSON{m.To, rawPath(m.To), m.From, rawPath(m.From)})
		case o.dryRun || env.global.verbose:
			env.printf("%s -> %s\n", env.shown(r, m.From), env.shown(r, m.To))
		}
	}
	return mvError(err)
}

// mvError adds a hint about a file that is in the way.
func mvError(err error) error {
	var local *stage.LocalChangesError
	if !errors.As(err, &local) {
		return err
	}
	return hintf(failf(exitFailed, "exists", "%s is in the way", quoteArg(local.Obstacles[0].Path)), "-f replaces it")
}

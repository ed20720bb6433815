package work

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/input"
	"github.com/kist-vcs/kist/cmd/kist/jsonform"
	"github.com/kist-vcs/kist/tree/pathspec"
	"github.com/kist-vcs/kist/tree/work/checkout"
	"github.com/kist-vcs/kist/tree/work/stage"
)

type mvOptions struct{ checkout.MoveOptions }

func NewMv(env *cli.Env) *cobra.Command {
	var o mvOptions
	cmd := &cobra.Command{
		Use:   "mv [OPTIONS] SOURCE... DESTINATION",
		Short: "move or rename tracked files and folders",
		Long: `Moves SOURCE, a file or folder, to DESTINATION, in the worktree and the index.
If DESTINATION is a folder, or there are several sources, kist moves them into
DESTINATION. Local changes in a file move with it, and stay unstaged.`,
		Example: `  kist mv draft.txt final.txt
  kist mv a.jpg b.jpg photos`,
		Args:              cli.Arguments(2, -1, "the path to move", "the path to move to"),
		ValidArgsFunction: env.Complete(cli.TrackedPaths),
	}
	env.Prints(cmd, "for each path", movedJSON{})
	env.InRepository(cmd, cli.NotBare(o.run), cli.ExitBusy)
	flags := cmd.Flags()
	flags.BoolVarP(&o.Force, "force", "f", false, "replace an existing file")
	flags.BoolVarP(&o.DryRun, "dry-run", "n", false, "only show what would be moved")
	return cmd
}

// movedJSON is what mv prints with --json.
type movedJSON struct {
	jsonform.AtPath
	From    string `json:"renamed_from" doc:"the path before"`
	FromRaw []byte `json:"renamed_from_raw,omitempty"`
}

func (o *mvOptions) run(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
	paths, err := cli.RepoPaths(env, r, args)
	if err != nil {
		return err
	}
	to := args[len(args)-1]
	isDir := func(arg string) bool {
		info, err := os.Stat(env.Path(arg))
		return err == nil && info.IsDir()
	}
	if strings.HasSuffix(to, "/") && !isDir(to) && (len(args) > 2 || !isDir(args[0])) {
		return cli.Failf(cli.ExitFailed, "not-found", "there is no folder %s", cli.QuoteArg(to))
	}

	o.Sources, o.Destination = paths[:len(paths)-1], paths[len(paths)-1]
	moved, err := checkout.Move(ctx, r, o.MoveOptions)
	for _, m := range moved {
		switch {
		case env.Global.JSON:
			env.JSON(movedJSON{jsonform.NewPath(m.To), m.From, jsonform.Raw(m.From)})
		case o.DryRun || env.Global.Verbose:
			env.Printf("%s -> %s\n", env.Shown(r, m.From), env.Shown(r, m.To))
		}
	}
	var local *stage.LocalChangesError
	if errors.As(err, &local) {
		return cli.Hintf(cli.Failf(cli.ExitFailed, "exists", "%s is in the way", cli.QuoteArg(local.Obstacles[0].Path)), "-f replaces it")
	}
	return err
}

type rmOptions struct{ checkout.RemoveOptions }

func NewRm(env *cli.Env) *cobra.Command {
	var o rmOptions
	cmd := &cobra.Command{
		Use:   "rm [OPTIONS] PATH...",
		Short: "remove tracked files",
		Long: `Removes files from the worktree and from the index, so that the next commit
lacks them. Earlier commits keep them. Files with uncommitted changes are only
removed with --force.

With --cached, the files stay in the worktree, untracked.`,
		Example: `  kist rm old.txt
  kist rm -r drafts
  kist rm --cached notes.txt     keep the file, but do not track it any more`,
		Args:              cli.Arguments(1, -1, "the path to remove"),
		ValidArgsFunction: env.Complete(cli.TrackedPaths),
	}
	env.Prints(cmd, "for each path", jsonform.AtPath{})
	env.InRepository(cmd, cli.NotBare(o.run), cli.ExitBusy)
	flags := cmd.Flags()
	flags.BoolVar(&o.Cached, "cached", false, "leave the files in the worktree")
	flags.BoolVarP(&o.Recursive, "recursive", "r", false, "also remove folders, with their tracked files")
	flags.BoolVarP(&o.Force, "force", "f", false, "remove files with uncommitted changes, too")
	flags.BoolVarP(&o.DryRun, "dry-run", "n", false, "only show what would be removed")
	return cmd
}

func (o *rmOptions) run(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
	specs, err := input.Pathspecs(env, r, args, false)
	if err != nil {
		return err
	}
	if o.Paths, err = pathspec.Find(ctx, r, specs, pathspec.Places{Index: true}); err != nil {
		return err
	}
	if err := o.checkFolders(r, specs); err != nil {
		return err
	}

	removed, err := checkout.Remove(ctx, r, o.RemoveOptions)
	if cli.IsA[*stage.LocalChangesError](err) {
		return cli.Hintf(cli.Failf(cli.ExitFailed, "local-changes", "%w", err), "--cached keeps the file, -f removes it anyway")
	}
	if err != nil {
		return err
	}

	for _, path := range removed {
		env.PrintOrJSON(jsonform.NewPath(path), "rm %s\n", env.Shown(r, path))
	}
	return nil
}

// checkFolders returns an error if args name a folder, and --recursive is not given.
// checkout.Remove refuses the folders that a pattern matches.
func (o rmOptions) checkFolders(r *kist.Repository, specs pathspec.List) error {
	if o.Recursive || specs.IsPlain() {
		return nil
	}
	idx, err := r.Index()
	if err != nil {
		return err
	}

	for _, s := range specs {
		if !s.Exclude && idx.Dir(s.Path) != nil {
			return fmt.Errorf("path %s: %w", cli.QuoteArg(s.Arg), checkout.ErrIsDirectory)
		}
	}
	return nil
}

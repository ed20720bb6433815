package work

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/jsonform"
	"github.com/kist-vcs/kist/cmd/kist/readable"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/work/checkout"
	"github.com/kist-vcs/kist/tree/work/stage"
)

func NewSparse(env *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sparse [COMMAND]",
		Short: "keep only some folders in the worktree",
		Long: `Shows the folders of a sparse worktree. A sparse worktree has the folders that
you chose, with everything in them, and the files directly in the folders above
them. All other folders are left out: status and add do not read them, and
a commit keeps them as they were.

A merge or rebase changes left-out folders without writing them. Only folders
with conflicts get into the worktree. 'kist sparse set' puts them away again.`,
		Example: `  kist sparse set docs src/parser  only these two folders
  kist sparse add src/lexer        and another one
  kist sparse off                  all folders`,
		Args: cobra.NoArgs,
	}
	env.Prints(cmd, "", sparseJSON{})
	env.InRepository(cmd, cli.NotBare(showSparse))
	cmd.AddCommand(newSparseAdd(env), newSparseOff(env), newSparseSet(env))
	return cmd
}

// sparseJSON is what the commands print with --json.
type sparseJSON struct {
	Sparse  bool              `json:"sparse" doc:"folders may be left out"`
	Folders []jsonform.AtPath `json:"folders" doc:"the chosen folders"`
	More    []jsonform.AtPath `json:"more" doc:"other folders that are in the worktree: they had conflicts or changes"`
	Pending []jsonform.AtPath `json:"pending" doc:"chosen folders that a stopped command did not write"`
	Written int               `json:"written" doc:"number of files written by this command"`
	Removed int               `json:"removed" doc:"number of files removed by this command"`
	Kept    []jsonform.AtPath `json:"kept" doc:"files that stay in folders that are left out"`
	Own     []jsonform.AtPath `json:"own" doc:"files that were in new folders already, and count as modified"`
}

// newSparseJSON returns the folders of the worktree.
func newSparseJSON(r *kist.Repository) (s sparseJSON, err error) {
	cone := r.Config().Cone()
	s = sparseJSON{Sparse: cone != nil, Folders: pathsJSON(cone.Dirs()), More: []jsonform.AtPath{}, Pending: []jsonform.AtPath{}, Kept: []jsonform.AtPath{}, Own: []jsonform.AtPath{}}
	idx, err := r.Index()
	if err != nil {
		return s, err
	}
	if cone == nil && !index.HasLeftOut(idx) {
		return s, nil
	}
	for path, d := range idx.Dirs() {
		switch {
		case d.LeftOut() && cone.Has(path):
			s.Pending = append(s.Pending, jsonform.NewPath(path))
		case !d.LeftOut() && !cone.Has(path):
			s.More = append(s.More, jsonform.NewPath(path))
		}
	}
	return s, nil
}

func pathsJSON(paths []string) []jsonform.AtPath {
	list := make([]jsonform.AtPath, len(paths))
	for i, path := range paths {
		list[i] = jsonform.NewPath(path)
	}
	return list
}

func showSparse(_ context.Context, env *cli.Env, r *kist.Repository, _ []string) error {
	s, err := newSparseJSON(r)
	if err != nil {
		return err
	}
	if env.Global.JSON {
		env.JSON(s)
		return nil
	}
	if !s.Sparse {
		env.PrintOutcome("all folders are in the worktree\n")
	}
	for _, dir := range s.Folders {
		env.Printf("%s\n", env.Shown(r, dir.Path))
	}
	for _, dir := range s.More {
		env.PrintOutcome("%s is there, too; 'kist sparse set' with the folders above leaves it out\n", env.Shown(r, dir.Path))
	}
	for _, dir := range s.Pending {
		env.PrintOutcome("%s is not there yet; run the stopped 'kist sparse' again\n", env.Shown(r, dir.Path))
	}
	return nil
}

func newSparseSet(env *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "set DIR...",
		Short: "choose the folders of the worktree",
		Long: `Writes the folders DIR, and removes all others from the worktree. Neither
commits nor the index lose anything. With the same DIRs as before, it leaves out
folders that a conflict brought into the worktree, and completes a stopped
command.

Files that only you have stay. A folder with changes or conflicts stays in the
worktree, and the exit status is 3. Untracked and ignored files stay where they
are, also in folders that are left out.`,
		Example: `  kist sparse set docs src/parser`,
		Args:    cli.Arguments(1, -1, "a folder"),
	}
	registerSparse(env, cmd, tree.NewCone)
	return cmd
}

func newSparseAdd(env *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "add DIR...",
		Short: "add folders to a sparse worktree",
		Long: `Writes the folders DIR, in addition to the chosen ones. A file that is there
already keeps your content, and counts as modified if it differs.`,
		Example: `  kist sparse add src/lexer`,
		Args:    cli.Arguments(1, -1, "a folder"),
	}
	registerSparse(env, cmd, nil)
	return cmd
}

func newSparseOff(env *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "off",
		Short:   "write all folders",
		Long:    `Writes all folders that were left out. The worktree is not sparse any more.`,
		Example: `  kist sparse off`,
		Args:    cobra.NoArgs,
	}
	registerSparse(env, cmd, func([]string) (*tree.Cone, error) { return nil, nil })
	return cmd
}

// registerSparse makes cmd set the folders to the cone of coneOf for the paths of its
// arguments. If coneOf is nil, cmd adds them to the present folders.
func registerSparse(env *cli.Env, cmd *cobra.Command, coneOf func([]string) (*tree.Cone, error)) {
	env.Prints(cmd, "", sparseJSON{})
	cmd.ValidArgsFunction = env.Complete(cli.TrackedPaths)
	env.InRepository(cmd, cli.NotBare(func(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
		dirs, err := cli.RepoPaths(env, r, args)
		if err != nil {
			return err
		}
		of := coneOf
		if of == nil {
			now := r.Config().Cone()
			if now == nil {
				return cli.Hintf(cli.Failf(cli.ExitFailed, "not-sparse", "all folders are in the worktree"), "'kist sparse set DIR...' chooses some")
			}
			dirs, of = append(dirs, now.Dirs()...), tree.NewCone
		}
		if err := checkFolders(ctx, env, r, dirs); err != nil {
			return err
		}
		cone, err := of(dirs)
		if err != nil {
			return err
		}
		return setFolders(ctx, env, r, cone)
	}), cli.ExitPartial, cli.ExitBusy)
}

// checkFolders refuses files, and warns about folders that the index does not have.
func checkFolders(ctx context.Context, env *cli.Env, r *kist.Repository, dirs []string) error {
	idx, err := r.Index()
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		e, err := stage.IndexedIn(ctx, r.Objects(), idx, dir)
		switch {
		case err != nil:
			return err
		case e == nil && dir != "":
			env.Warn("the current commit has no folder %s", env.Shown(r, dir))
		case e != nil && e.Type != object.TypeDir:
			return cli.Hintf(cli.Failf(cli.ExitFailed, "not-a-folder", "%s is a file", env.Shown(r, dir)), "choose the folder that it lies in")
		}
	}
	return nil
}

// setFolders changes the worktree and reports what happened.
func setFolders(ctx context.Context, env *cli.Env, r *kist.Repository, cone *tree.Cone) error {
	p := env.Progress("writing")
	defer p.Stop()
	result, err := checkout.SetFolders(ctx, r, cone, p.Amounts())
	p.Stop()
	if local := new(stage.LocalChangesError); errors.As(err, &local) {
		return cli.Hintf(err, "move these files away; nothing was changed")
	}
	if err != nil {
		return env.Unwritten(r, err)
	}
	if env.Global.JSON {
		s, err := newSparseJSON(r)
		if err != nil {
			return err
		}
		s.Written, s.Removed, s.Kept, s.Own = result.Written, result.Removed, pathsJSON(result.Kept), pathsJSON(result.Own)
		env.JSON(s)
	}
	env.PrintOutcome("wrote %s, removed %s\n", readable.Plural(uint64(result.Written), "file", "files"), readable.Plural(uint64(result.Removed), "file", "files"))
	for _, path := range result.Own {
		env.PrintOutcome("%s was there already, and keeps its content\n", env.Shown(r, path))
	}
	for _, path := range result.Kept {
		env.PrintOutcome("%s stays, though its folder is left out: only you have its content\n", env.Shown(r, path))
	}
	if len(result.Changed) == 0 {
		return nil
	}
	lines := cli.FirstOf(result.Changed, cli.DetailLines, "", func(path string) string { return env.Shown(r, path) })
	first := readable.Plural(uint64(len(result.Changed)), "path has changes, so its folder stays:", "paths have changes, so their folders stay:")
	return cli.Hintf(cli.LinesError(cli.ExitPartial, "local-changes", first, lines), "commit or stash the changes, then run the command again")
}

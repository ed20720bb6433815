package look

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/input"
	"github.com/kist-vcs/kist/cmd/kist/jsonform"
	"github.com/kist-vcs/kist/cmd/kist/readable"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/look/compare"
	"github.com/kist-vcs/kist/tree/look/versions"
)

type refsOfOptions struct{ file, commits bool }

func NewRefsOf(env *cli.Env) *cobra.Command {
	var o refsOfOptions
	cmd := &cobra.Command{
		Use:   "refs-of [OPTIONS] PATH|REV:PATH|FILE@N|ID|FILE",
		Short: "show where a content is and was",
		Long: `Lists the paths that have a content in HEAD, a branch or a tag, and the paths
that had it in an earlier commit. For each path: its branches and tags, the
number of commits with the content there, and the commit that brought it there
first. --commits lists all of the commits, newest first.

PATH is a file or folder in HEAD, REV:PATH one in another commit, and FILE@N a
version: see 'kist help history'. An ID is one that 'kist ls --json' shows, or
its first digits, at least 4. For the ID of a chunk, the files that contain the
chunk are listed. Any other argument is a FILE on disk, whose content is read.
With --file, all arguments are FILEs.

Only the content counts, not the name, the mode or the time. For files of at
most 32 bytes and symlinks, the ID is the SHA-256 of the bytes or the target.
Commits that only a reflog has are not searched.`,
		Example: `  kist refs-of film/scene1.mov     who else has this film
  kist refs-of v1:src              where the folder was the same
  kist refs-of 3fa9c1d2            which files contain a damaged chunk
  kist refs-of --file ~/found.pdf  whether a file is stored already`,
		Args:              cli.Arguments(1, 1, "the content (PATH, REV:PATH, FILE@N, ID or FILE)"),
		ValidArgsFunction: env.Complete(cli.TrackedPaths, input.TreePaths),
	}
	env.Prints(cmd, "for each path", useJSON{})
	env.InRepository(cmd, o.run)
	cli.PassesOverLost(cmd, env)
	cmd.Flags().BoolVar(&o.file, "file", false, "the argument is a file on disk")
	cmd.Flags().BoolVar(&o.commits, "commits", false, "list the commits that have the content")
	return cmd
}

// useJSON is a path with a content as refs-of prints it with --json.
type useJSON struct {
	jsonform.AtPath
	Now     []string               `json:"now" doc:"the full names of the refs that have it now; empty if it is only history"`
	Commits []object.ID            `json:"commits" doc:"all commits that have it, newest first"`
	Since   []jsonform.FileVersion `json:"since" doc:"the changes that brought it there, oldest first"`
}

func (o *refsOfOptions) run(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
	x, err := input.OpenVersions(ctx, env, r)
	if err != nil {
		return err
	}
	ids, err := o.contents(ctx, env, r, x, args[0])
	if err != nil {
		return err
	}

	found := false
	for use := range x.Uses(ids) {
		found = true
		if env.Global.JSON {
			v := useJSON{jsonform.NewPath(use.Path), append([]string{}, use.Now...), use.Commits, nil}
			for i := range use.Since {
				v.Since = append(v.Since, jsonform.NewFileVersion(object.ID{}, &use.Since[i]))
			}
			env.JSON(v)
			continue
		}
		var names []string
		for _, name := range use.Now {
			names = append(names, cli.Printable(cli.ShortRef(name)))
		}
		now := "no more"
		if len(names) > 0 {
			now = strings.Join(names, ", ")
		}
		env.Printf("%s\n    %s\n    %s, since %s\n", env.Shown(r, use.Path), now,
			readable.Plural(uint64(len(use.Commits)), "commit", "commits"), input.Describe(ctx, r, use.Since[0].Commit))
		for _, id := range use.Commits {
			if o.commits {
				env.Printf("        %s\n", input.Describe(ctx, r, id))
			}
		}
	}
	if !found {
		return cli.Failf(cli.ExitFailed, "not-found", "no commit that HEAD, a branch or a tag reaches has the content %s", cli.QuoteArg(args[0]))
	}
	return nil
}

// contents returns the IDs of the content that an argument names, with those of the files
// that contain it as a part.
func (o *refsOfOptions) contents(ctx context.Context, env *cli.Env, r *kist.Repository, x *versions.Index, arg string) (map[object.ID]bool, error) {
	one := func(e object.Entry, err error) (map[object.ID]bool, error) {
		return map[object.ID]bool{tree.ContentID(&e): true}, err
	}
	if o.file {
		return one(localContent(ctx, env, r, arg))
	}
	if path, err := env.RepoPath(r, arg); err == nil {
		head, err := compare.OfHead(ctx, r)
		if err != nil {
			return nil, err
		}
		e, err := head.Find(ctx, path)
		if err == nil {
			return one(e, nil)
		}
		if !errors.Is(err, tree.ErrNotExist) && !errors.Is(err, tree.ErrNotDir) {
			return nil, err
		}
	}

	if input.NamesEntry(ctx, env, r, arg) {
		at, err := input.Locate(ctx, env, r, arg)
		return one(at.Entry, err)
	}

	ids, err := x.ContentsOf(ctx, r, arg)
	if errors.Is(err, versions.ErrAmbiguous) {
		err = cli.Failf(cli.ExitFailed, "ambiguous", "%s: %w", cli.QuoteArg(arg), err)
	}
	if err != nil || len(ids) > 0 {
		return ids, err
	}
	e, err := localContent(ctx, env, r, arg)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, cli.Failf(cli.ExitFailed, "not-found", "%s is no path in HEAD, no ID here, and no file", cli.QuoteArg(arg))
	}
	return one(e, err)
}

// localContent returns an entry with the content of a file on disk.
func localContent(ctx context.Context, e *cli.Env, r *kist.Repository, name string) (object.Entry, error) {
	name = e.Path(name)
	info, err := os.Lstat(name)
	if err != nil {
		return object.Entry{}, err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		target, err := os.Readlink(name)
		return object.Entry{Type: object.TypeSymlink, Target: target}, err
	}
	if !info.Mode().IsRegular() {
		return object.Entry{}, cli.Failf(cli.ExitFailed, "", "%s is neither a file nor a symlink", cli.QuoteArg(name))
	}
	f, err := os.Open(name)
	if err != nil {
		return object.Entry{}, err
	}
	defer f.Close()
	stored, err := r.Worktree().StoreStream(ctx, object.Discard, f, nil)
	return stored.Entry, err
}

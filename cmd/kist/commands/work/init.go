package work

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/jsonform"
	"github.com/kist-vcs/kist/remote/rootlog"
	"github.com/kist-vcs/kist/tree/worktree"
)

type initOptions struct {
	kist.InitOptions
	metadata, shared string
}

func NewInit(env *cli.Env) *cobra.Command {
	var o initOptions
	cmd := &cobra.Command{
		Use:   "init [OPTIONS] [DIR]",
		Short: "create a repository in a folder",
		Long: `Makes DIR, by default the current folder, a repository: kist keeps all its data
in the folder .kist in it. DIR is created if it is absent. Its files stay as
they are, and are not versioned before 'kist add'. An existing repository stays
as it is.

Only you can look into .kist, since it holds the content of files that only you
can read. With --shared, its group can use the repository, too; each member has
to trust it once, see safe.directory in 'kist help config'.

Content is cut into chunks. Their average size is 256 KiB by default, and fixed
when the repository is created. Smaller chunks find more equal data, and cost
more memory and time.

With --bare, DIR itself is the repository, and has to be empty. It records files
of the whole machine: those at the paths in backup.paths, under their absolute
paths. 'kist config --add backup.paths /etc' adds a path, and 'kist -C DIR
backup' makes a backup. No command writes to these paths; 'kist restore --to'
writes elsewhere.`,
		Example: `  kist init                       the current folder
  kist init photos                a folder of its own, made if it is absent
  kist init --chunk-size 1MiB     for few, large files`,
		Args:              cli.Arguments(0, 1),
		RunE:              func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), env, args) },
		ValidArgsFunction: cli.Folders,
	}
	env.Prints(cmd, "", initJSON{})
	cli.MayExit(cmd, cli.ExitFormat)
	flags := cmd.Flags()
	flags.StringVarP(&o.Branch, "initial-branch", "b", kist.DefaultBranch, "call the first branch `BRANCH`")
	flags.Var(cli.NewParsed(&o.ChunkSize, "256KiB", parseChunkSize), "chunk-size", "cut content into chunks of about `SIZE`, a power of two from 64KiB to 4MiB")
	flags.Var(cli.NewChoice(&o.metadata, kist.MetadataPortable, kist.MetadataFull), "metadata", "the metadata to record: portable, or full; `MODE` cannot be changed later")
	flags.BoolVar(&o.Bare, "bare", false, "make DIR itself the repository, for backups of the paths in backup.paths")
	flags.Var(&cli.Choice{Value: &o.shared, Choices: []string{"group"}}, "shared", "let the group of the folder .kist use the repository, too; `WHO` is group")
	flags.Lookup("shared").NoOptDefVal = "group"
	return cmd
}

// initJSON is what init prints with --json.
type initJSON struct {
	jsonform.AtPath `doc:"the folder of the repository"`
	Branch          string `json:"branch" doc:"the first branch"`
	ChunkSize       int    `json:"chunk_size" doc:"the average size of a chunk"`
}

func (o *initOptions) run(ctx context.Context, env *cli.Env, args []string) error {
	dir := env.RepoDir()
	switch {
	case len(args) > 0 && dir != "":
		return cli.Usagef("--repo and a folder cannot be given both")
	case len(args) > 0:
		if err := cli.WantFolder("init", args[0]); err != nil {
			return cli.Hintf(err, "'kist remote add NAME URL' adds a remote to a repository")
		}
		dir = env.Path(args[0])
	case dir == "":
		dir = env.Path(".")
	}
	if filepath.Base(dir) == kist.Dir && !o.Bare {
		dir = filepath.Dir(dir)
	}
	if err := cli.CheckOwner(env, dir); err != nil {
		return err
	}
	if isRemote(ctx, env, dir) {
		return cli.Hintf(cli.Failf(cli.ExitFailed, "exists", "%s is the folder of a remote", cli.QuotePath(dir)), "'kist clone %s DIR' makes a repository from it", cli.ShellWord(dir))
	}
	opt, err := env.Options()
	if err != nil {
		return err
	}

	o.Full, o.Shared = o.metadata == kist.MetadataFull, o.shared != ""
	r, err := kist.Init(ctx, dir, opt, o.InitOptions)
	if errors.Is(err, kist.ErrExists) {
		return alreadyThere(env, dir, opt)
	}
	if err != nil {
		return err
	}
	defer r.Close()
	env.PrintOrJSON(initJSON{jsonform.NewPath(r.Home()), o.Branch, o.ChunkSize}, "Initialized empty repository in %s\n", cli.QuotePath(r.Dir()))
	if inGit(r.Home()) && !o.Bare {
		env.Info("hint: git sees .kist as untracked; this hides it: echo .kist >>\"$(git rev-parse --git-path info/exclude)\"")
	}
	return nil
}

// inGit reports whether a folder is in a worktree of git.
func inGit(dir string) bool {
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(filepath.Join(dir, worktree.GitName)); err == nil {
			return true
		}
		if dir == filepath.Dir(dir) {
			return false
		}
	}
}

// parseChunkSize parses the average size of a chunk, in bytes.
func parseChunkSize(text string) (int, error) {
	size, err := kist.ParseSize(text)
	if err == nil && (size < kist.MinChunkSize || size > kist.MaxChunkSize || size&(size-1) != 0) {
		err = errors.New("not a power of two from 64KiB to 4MiB")
	}
	return int(size), err
}

// isRemote reports whether a folder has a remote.
func isRemote(ctx context.Context, env *cli.Env, dir string) bool {
	b, err := cli.OpenStore(ctx, env, dir)
	if err != nil {
		return false
	}
	defer b.Close()
	_, err = rootlog.ReadIdentity(ctx, b)
	return err == nil
}

// alreadyThere reports that dir has a repository, which stays unchanged.
func alreadyThere(env *cli.Env, dir string, opt kist.Options) error {
	r, err := kist.Open(dir, opt)
	if err != nil {
		return err
	}
	defer r.Close()
	head, err := r.Refs().Head()
	if err != nil {
		return err
	}
	env.PrintOrJSON(initJSON{jsonform.NewPath(r.Home()), head.Branch, r.Config().Chunker.Average}, "Repository already exists in %s; nothing changed\n", cli.QuotePath(r.Dir()))
	return nil
}

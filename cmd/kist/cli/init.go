package cli

import (
	"context"
	"errors"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/remote/rootlog"
)

type initOptions struct {
	branch    string
	chunkSize string
	metadata  string
	shared    string
}

func newInit(env *Env) *cobra.Command {
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

With --json: path, branch and chunk_size.`,
		Example: `  kist init                       the current folder
  kist init photos                a folder of its own, made if it is absent
  kist init --chunk-size 1MiB     for few, large files`,
		Args: arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error { return runInit(cmd.Context(), env, o, args) },
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
	}
	mayExit(cmd, exitFormat)
	flags := cmd.Flags()
	flags.StringVarP(&o.branch, "initial-branch", "b", kist.DefaultBranch, "call the first branch `BRANCH`")
	flags.StringVar(&o.chunkSize, "chunk-size", "256KiB", "cut content into chunks of about `SIZE`, a power of two from 64KiB to 4MiB")
	flags.StringVar(&o.metadata, "metadata", "portable", "the metadata to record: portable, or full (not supported yet); `MODE` cannot be changed later")
	flags.StringVar(&o.shared, "shared", "", "let the group of the folder .kist use the repository, too; `WHO` is group")
	flags.Lookup("shared").NoOptDefVal = "group"
	must(cmd.RegisterFlagCompletionFunc("shared", cobra.FixedCompletions([]string{"group"}, cobra.ShellCompDirectiveNoFileComp)))
	must(cmd.RegisterFlagCompletionFunc("metadata", cobra.FixedCompletions([]string{"portable"}, cobra.ShellCompDirectiveNoFileComp)))
	must(cmd.RegisterFlagCompletionFunc("initial-branch", cobra.NoFileCompletions))
	must(cmd.RegisterFlagCompletionFunc("chunk-size", cobra.NoFileCompletions))
	return cmd
}

// initJSON is what init prints with --json.
type initJSON struct {
	Path      string `json:"path"`
	PathRaw   []byte `json:"path_raw,omitempty"`
	Branch    string `json:"branch"`
	ChunkSize uint64 `json:"chunk_size"`
}

func runInit(ctx context.Context, env *Env, o initOptions, args []string) error {
	dir := env.repoDir()
	switch {
	case len(args) > 0 && dir != "":
		return usagef("--repo and a folder cannot be given both")
	case len(args) > 0:
		if err := wantFolder("init", args[0]); err != nil {
			return hintf(err, "'kist remote add NAME URL' adds a remote to a repository")
		}
		dir = env.path(args[0])
	case dir == "":
		dir = env.path(".")
	}
	if filepath.Base(dir) == kist.Dir {
		dir = filepath.Dir(dir)
	}
	switch o.metadata {
	case "portable":
	case "full":
		return failf(exitFormat, "", "--metadata full is not supported yet: only portable is")
	default:
		return usagef("--metadata must be portable")
	}
	if o.shared != "" && o.shared != "group" {
		return usagef("--shared must be group")
	}
	size, err := kist.ParseSize(o.chunkSize)
	if err != nil {
		return usagef("--chunk-size: %w", err)
	}
	if size < kist.MinChunkSize || size > kist.MaxChunkSize || size&(size-1) != 0 {
		return usagef("--chunk-size %s is not a power of two from 64KiB to 4MiB", o.chunkSize)
	}
	if err := env.checkOwner(dir); err != nil {
		return err
	}
	if env.isRemote(ctx, dir) {
		return hintf(failf(exitFailed, "exists", "%s is the folder of a remote", quotePath(dir)), "'kist clone %s DIR' makes a repository from it", shellWord(dir))
	}
	opt, err := env.options()
	if err != nil {
		return err
	}
	r, err := kist.Init(ctx, dir, opt, kist.InitOptions{ChunkSize: int(size), Branch: o.branch, Shared: o.shared != ""})
	if errors.Is(err, kist.ErrExists) {
		return env.alreadyThere(dir, opt)
	}
	if err != nil {
		return err
	}
	defer r.Close()
	if env.global.json {
		env.json(initJSON{r.Root(), rawPath(r.Root()), o.branch, size})
		return nil
	}
	env.tell("Initialized empty repository in %s\n", quotePath(filepath.Join(r.Root(), kist.Dir)))
	return nil
}

// isRemote reports whether a folder is that of a remote.
func (e *Env) isRemote(ctx context.Context, dir string) bool {
	b, err := e.openStore(ctx, dir)
	if err != nil {
		return false
	}
	defer b.Close()
	_, err = rootlog.ReadIdentity(ctx, b)
	return err == nil
}

// alreadyThere reports the repository that is in dir, which init leaves as it is.
func (e *Env) alreadyThere(dir string, opt kist.Options) error {
	r, err := kist.Open(dir, opt)
	if err != nil {
		return err
	}
	defer r.Close()
	if !e.global.json {
		e.tell("Repository already exists in %s; nothing changed\n", quotePath(filepath.Join(r.Root(), kist.Dir)))
		return nil
	}
	head, err := r.Refs().Head()
	if err != nil {
		return err
	}
	average, _ := r.Config().Get("chunker.average")
	size, err := strconv.ParseUint(average, 10, 64)
	if err != nil {
		return err
	}
	e.json(initJSON{r.Root(), rawPath(r.Root()), head.Branch, size})
	return nil
}

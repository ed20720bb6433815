package look

import (
	"context"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/commands/share"
	"github.com/kist-vcs/kist/cmd/kist/input"
	"github.com/kist-vcs/kist/cmd/kist/mount"
	"github.com/kist-vcs/kist/remote/exchange"
	"github.com/kist-vcs/kist/tree/look/browse"
)

type mountOptions struct {
	remote string
	other  bool
	git    bool
	cache  uint64
	folder *mount.Folder
}

func NewMount(env *cli.Env) *cobra.Command {
	var o mountOptions
	cmd := &cobra.Command{
		Use:   "mount [OPTIONS] DIR [REV]",
		Short: "show history as folders, in a mounted file system",
		Long: `Shows history in the empty folder DIR, to look for files with any program. It is
read-only, and reads from the repository only the parts of files that programs
read. In DIR are:

  branches/NAME        the files of a branch
  tags/NAME            the files of a tag
  commits/DATE-ID      the files of each commit
  latest               the files of the current commit
  versions/.../FILE@3  version 3 of FILE; also of deleted files

With REV, DIR has the files of that commit instead. New commits and branches
appear by themselves. Other commands work meanwhile, also gc. A file whose
content has expired or was purged cannot be opened; kist prints the reason.
Git's own folders, .git, are shown only with --git: 'git status' in the mount
would run commands from them.

With --remote, kist reads a remote, without a clone. REMOTE is its name or URL.
REV is then HEAD, a branch, a tag or an ID, and there is no folder versions.

kist mount runs until DIR is unmounted: by Ctrl-C, 'umount DIR' or, for users
other than root, 'fusermount3 -u DIR'. It needs FUSE: on Linux the package
fuse3, on macOS macFUSE.`,
		Example: `  kist mount /mnt/history
  kist mount /mnt/release v1.2
  kist mount --remote s3://bucket/prefix /mnt/backup`,
		Args:              cli.Arguments(1, 2, "DIR"),
		RunE:              func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), env, cmd, args) },
		ValidArgsFunction: cli.CompleteNth(cli.Folders, env.Complete(cli.Revisions), cobra.NoFileCompletions),
	}
	env.Prints(cmd, "when it is mounted", mountJSON{})
	cli.OpensRepository(cmd)
	env.Transfer.Register(cmd)
	flags := cmd.Flags()
	flags.StringVar(&o.remote, "remote", "", "show the history of `REMOTE`")
	flags.BoolVar(&o.other, "allow-other", false, "let other users look, as far as recorded permissions allow it")
	flags.BoolVar(&o.git, "git", false, "show .git folders, too; git runs commands from them")
	o.cache = browse.DefaultCache
	flags.Var(cli.NewParsed(&o.cache, "128MiB", kist.ParseSize), "cache", "keep at most `SIZE` of data in memory")
	cli.Propose(env, cmd, "remote", env.Complete(share.Remotes))
	return cmd
}

// mountJSON is what mount prints with --json.
type mountJSON struct {
	Dir    string `json:"dir" doc:"the folder"`
	Rev    string `json:"rev,omitempty" doc:"the commit, with --rev"`
	Remote string `json:"remote,omitempty" doc:"the remote, with --remote"`
}

func (o *mountOptions) run(ctx context.Context, env *cli.Env, cmd *cobra.Command, args []string) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGHUP)
	defer stop()
	h, name, done, err := o.openHistory(ctx, env, args[0])
	if err != nil {
		return err
	}
	defer done()
	defer o.folder.Close()
	root := h.Root()
	if len(args) == 2 {
		if root, err = h.Revision(ctx, input.Previous(args[1])); err != nil {
			return err
		}
	}

	m, err := mount.Mount(o.folder, root, mount.Options{
		Name: "kist:" + name, Other: o.other,
		Warn:  func(text string) { env.Warn("%s", text) },
		Words: func(err error) string { return cli.WordsFor(env, err.Error(), err) },
	})
	if err != nil {
		return err
	}
	result := mountJSON{Dir: env.Path(args[0]), Remote: o.remote}
	if len(args) == 2 {
		result.Rev = args[1]
	}
	env.PrintOrJSON(result, "mounted %s on %s; Ctrl-C or '%s %s' unmounts it\n", cli.Printable(name), cli.QuotePath(args[0]), mount.Command, cli.QuotePath(args[0]))
	if err := env.Stdout.(*cli.Results).Flush(); err != nil {
		env.Warn("%v", err)
	}
	return serveMount(ctx, env, h, m)
}

// settleAge is how often a mount looks for removed files of the repository. It keeps them open,
// so they take space on disk.
const settleAge = time.Minute

// serveMount waits until the mount ends, or ends it when ctx does.
func serveMount(ctx context.Context, env *cli.Env, h *browse.History, m *mount.Mounted) error {
	tick := time.NewTicker(settleAge)
	defer tick.Stop()
	for {
		select {
		case <-m.Ended():
			env.Verbose("unmounted")
			return nil
		case <-tick.C:
			h.Settle()
		case <-ctx.Done():
			inUse, err := m.Unmount()
			if inUse && err == nil {
				env.Warn("programs still use files there; they get errors from now on")
			}
			return err
		}
	}
}

// openHistory opens the history to show in dir, and returns its name. It also opens the folder. The
// caller calls done and closes the folder in the end.
func (o *mountOptions) openHistory(ctx context.Context, env *cli.Env, dir string) (h *browse.History, name string, done func(), err error) {
	options := browse.Options{Cache: int64(o.cache), Now: env.Now, Git: o.git}
	if o.remote == "" {
		r, err := env.Open()
		if err != nil {
			return nil, "", nil, err
		}
		if o.folder, err = openCovered(env, r, dir); err != nil {
			r.Close()
			return nil, "", nil, err
		}
		exchange.Connect(ctx, r)
		return browse.OfRepository(r, options), r.Home(), func() { r.Close() }, nil
	}

	opened, r, name, err := share.OpenFrom(ctx, env, []string{o.remote})
	if err != nil {
		return nil, "", nil, err
	}
	done = func() {
		opened.Close()
		if r != nil {
			r.Close()
		}
	}
	if o.folder, err = openCovered(env, r, dir); err == nil {
		if h, err = exchange.BrowseHistory(ctx, opened, options); err != nil {
			o.folder.Close()
		}
	}
	if err != nil {
		done()
	}
	return h, name, done, err
}

// openCovered opens the folder to mount on. The error is a hint if dir is in the repository or
// its worktree: 'kist add' would record the history there once more. There may be no repository.
func openCovered(env *cli.Env, r *kist.Repository, dir string) (*mount.Folder, error) {
	folder, err := mount.OpenFolder(env.Path(dir))
	if err != nil || r == nil {
		return folder, err
	}
	real, err := folder.Real()
	for _, place := range []string{r.Home(), r.Dir()} {
		if err == nil {
			place, err = filepath.EvalSymlinks(place)
		}
		if err != nil {
			break
		}
		if _, inside := cli.Below(place, real); inside {
			err = cli.Hintf(cli.Failf(cli.ExitFailed, "path", "cannot mount on %s: it is in the repository, which would record its own history", cli.QuotePath(dir)), "use a folder outside, such as /tmp/history")
		}
	}
	if err != nil {
		folder.Close()
		return nil, err
	}
	return folder, nil
}

package share

import (
	"context"
	"errors"
	"net/url"
	"path"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/commands/work"
	"github.com/kist-vcs/kist/cmd/kist/input"
	"github.com/kist-vcs/kist/cmd/kist/jsonform"
	"github.com/kist-vcs/kist/cmd/kist/show"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/exchange"
	"github.com/kist-vcs/kist/remote/exchange/registry"
	"github.com/kist-vcs/kist/tree"
)

type cloneOptions struct {
	exchange.CloneOptions
	paths []string
}

func NewClone(env *cli.Env) *cobra.Command {
	var o cloneOptions
	cmd := &cobra.Command{
		Use:   "clone [OPTIONS] URL [DIR]",
		Short: "copy a remote into a new repository",
		Long: `Creates a repository in DIR, downloads everything that was pushed to a remote,
and checks out the default branch. The remote is called origin. DIR must be
absent or empty. Without DIR, the new folder is named after the last part of
URL.

URL is a folder, USER@HOST:PATH, s3://BUCKET/PREFIX, or
mongodb://HOST/DATABASE; see 'kist help remote'. The folder may also be that of
another repository. kist reads that in place, and 'kist pull' brings its later
commits, but nothing can be pushed to it. Its configuration has no effect, and
it may be another user's.

With --lazy, only the commits are downloaded, and the files to check out. All
other content stays on the remote until a command needs it. The remote gets a
keep ref, so that it keeps that content whatever others delete; 'kist fetch
--full' ends this. With --path, the worktree also has only the folders DIR, as
with 'kist sparse set', and the content of no other folder is downloaded.

All received data is checked against its hash before it is stored. If a clone is
interrupted, run it again with the same folder: it continues.`,
		Example: `  kist clone /media/backup/photos
  kist clone s3://bucket/photos pictures
  kist clone ../photos copy        from the repository in ../photos
  kist clone -b v1.0 /media/backup/photos
  kist clone --path stations s3://bucket/climate   only one folder`,
		Args:              cli.Arguments(1, 2, "URL"),
		RunE:              func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), env, args) },
		ValidArgsFunction: cli.Folders,
	}
	env.Prints(cmd, "", clonedJSON{})
	cli.MayExit(cmd, cli.ExitPartial, cli.ExitDamaged, cli.ExitFormat)
	flags := cmd.Flags()
	flags.StringVarP(&o.Branch, "branch", "b", "", "check out `BRANCH`, or a tag, instead of the default branch")
	flags.StringVarP(&o.Name, "origin", "o", registry.DefaultRemote, "call the remote `NAME`")
	flags.BoolVarP(&o.NoCheckout, "no-checkout", "n", false, "do not write any files")
	flags.BoolVar(&o.Lazy, "lazy", false, "download only commits now, and content when it is needed")
	flags.StringArrayVar(&o.paths, "path", nil, "lazy, and only the folder `DIR` in the worktree; may be repeated")
	flags.BoolVar(&o.SingleBranch, "single-branch", false, "fetch only the branch to check out, and no tags")
	flags.BoolVar(&o.NoTags, "no-tags", false, "do not fetch tags")
	flags.BoolVar(&o.SingleWriter, "single-writer", false, "the store is not safe for concurrent pushes, and nobody else pushes")
	env.Transfer.RegisterJobs(cmd)
	cli.RegisterSetID(env, cmd)
	return cmd
}

// clonedJSON is what clone prints with --json.
type clonedJSON struct {
	Path    string `json:"path" doc:"the folder of the clone"`
	PathRaw []byte `json:"path_raw,omitempty"`
	work.CheckoutJSON
	show.TransferJSON
}

func (o *cloneOptions) run(ctx context.Context, env *cli.Env, args []string) error {
	var err error
	if o.URL, err = env.RemoteURL(args[0]); err != nil {
		return err
	}
	if err := o.readPaths(); err != nil {
		return err
	}
	dir, err := o.chooseFolder(env, args)
	if err != nil {
		return err
	}
	if err := cli.CheckOwner(env, dir); err != nil {
		return err
	}
	opt, err := env.Options()
	if err != nil {
		return err
	}

	p := env.Progress("cloning")
	defer p.Stop()
	o.Fetching, o.Writing, o.Jobs = p.Transferred(), p.Amounts(), env.Transfer.Jobs
	r, result, err := exchange.Clone(ctx, dir, opt, o.CloneOptions)
	p.Stop()
	if r != nil {
		defer r.Close()
	}
	if explained := o.explainMistake(result, r, err); explained != nil {
		return explained
	}
	if result == nil || result.FetchResult == nil {
		return err
	}
	if env.Global.JSON {
		result.Received = nil // a clone has no names yet that anything could concern
		out := clonedJSON{Path: r.Root(), PathRaw: jsonform.Raw(r.Root()), CheckoutJSON: work.NewCheckoutJSON(result.Head), TransferJSON: newFetchJSON(result.FetchResult)}
		env.JSON(out)
		return env.Unwritten(r, err)
	}
	o.tellCloned(env, r, result, err)
	if result.Unkept != nil {
		env.Warn("%s does not promise to keep the content that this clone lacks: %v", cli.QuoteArg(o.Name), result.Unkept)
	}
	show.TellTransferred(env, "received", result.Objects, result.Bytes, result.Records)
	show.WarnImplausible(env, o.Name, result.FetchResult)
	show.PrintLost(ctx, env, r, o.Name, result.Lost)
	switch {
	case err != nil:
	case result.Head.Unborn() && !o.NoCheckout:
		env.Warn("nothing was checked out: the remote has no branch")
	case result.Head.Branch != "":
		env.PrintOutcome("on branch %s\n", cli.QuoteArg(result.Head.Branch))
	default:
		env.PrintOutcome("HEAD is at %s\n", input.Describe(ctx, r, result.Head.ID))
	}
	return env.Unwritten(r, err)
}

// chooseFolder returns the path of the new clone: that of --repo, the second argument, or one by the name of the remote.
func (o *cloneOptions) chooseFolder(env *cli.Env, args []string) (string, error) {
	dir := env.RepoDir()
	switch {
	case len(args) == 2 && dir != "":
		return "", cli.Usagef("--repo and a folder cannot be given both")
	case len(args) == 2:
		if err := cli.WantFolder("DIR of clone", args[1]); err != nil {
			return "", cli.Hintf(err, "the URL comes first: kist clone URL [DIR]")
		}
		return env.Path(args[1]), nil
	case dir != "":
		return dir, nil
	}
	name, err := cloneName(o.URL)
	return env.Path(name), err
}

// readPaths reads the folders of --path.
func (o *cloneOptions) readPaths() error {
	for _, arg := range o.paths {
		if arg == "" {
			return cli.Usagef("an empty path names no folder; use . for all of them")
		}
		path, err := tree.CleanPath(arg)
		if bad := (*tree.PathError)(nil); errors.As(err, &bad) {
			return cli.Hintf(cli.Failf(cli.ExitFailed, "path", "path %s: %w", cli.QuoteArg(arg), bad.Err), "the path of a folder begins at the top of the remote's files")
		}
		o.Folders = append(o.Folders, path)
	}
	o.Lazy = o.Lazy || len(o.paths) > 0
	return nil
}

// tellCloned prints the first line about a clone.
func (o *cloneOptions) tellCloned(env *cli.Env, r *kist.Repository, result *exchange.CloneResult, err error) {
	again := ""
	if result.Resumed {
		again = ", which went on where it was interrupted"
	}
	form := "cloned %s into %s%s\n"
	if err != nil || len(result.Lost) > 0 {
		form = "the clone of %s in %s is not complete%s\n"
	}
	env.PrintOutcome(form, cli.Printable(remote.Redact(o.URL)), cli.QuotePath(r.Root()), again)
}

// explainMistake returns the error that the command ends with for a mistake in the command line. It
// returns nil for other errors.
func (o *cloneOptions) explainMistake(result *exchange.CloneResult, r *kist.Repository, err error) error {
	switch {
	case errors.Is(err, exchange.ErrNotEmpty):
		return cli.Failf(cli.ExitFailed, "exists", "%w", err)
	case errors.Is(err, remote.ErrArchived):
		return cli.Hintf(err, "'kist clone --lazy -n' needs no thaw; in it, 'kist fetch --full --thaw' brings everything")
	case errors.Is(err, refs.ErrNotFound) && o.Branch != "" && result != nil && result.FetchResult != nil:
		err = cli.Failf(cli.ExitFailed, "unknown-ref", "the remote has no branch or tag %s", cli.QuoteArg(o.Branch))
		return cli.Hintf(err, "%s has its commits; 'kist clone' to the same folder goes on, with another branch or none", cli.QuotePath(r.Root()))
	}
	if bad := (*exchange.FolderError)(nil); errors.As(err, &bad) {
		kind, text := "not-found", "the commit to check out has no folder %s"
		if bad.IsFile {
			kind, text = "not-a-folder", "%s is a file"
		}
		return cli.Hintf(cli.Failf(cli.ExitFailed, kind, text, cli.QuotePath(bad.Path)), "%s has the commits; 'kist clone' to the same folder goes on, with another --path", cli.QuotePath(r.Root()))
	}
	return nil
}

// cloneName returns what a clone of a URL is called: the last part of its
// path, or else the bucket or database.
func cloneName(text string) (string, error) {
	if _, rest, ok := strings.Cut(text, "://"); ok && rest == "" {
		return "", cli.Usagef("%s names no bucket, database or folder", cli.QuoteArg(text))
	}
	nameless := cli.Usagef("DIR is missing: %s has no name for it", cli.QuoteArg(remote.Redact(text)))
	u, err := url.Parse(text)
	if err != nil {
		return "", nameless
	}
	name := path.Base(path.Clean("/" + strings.TrimSuffix(strings.TrimRight(u.Path, "/"), "/"+kist.Dir)))
	if name == "/" {
		name = strings.Split(u.Hostname(), ".")[0]
	}
	if name == "" || name == "." || name == ".." {
		return "", nameless
	}
	return name, nil
}

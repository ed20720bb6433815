package care

import (
	"cmp"
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/commands/share"
	"github.com/kist-vcs/kist/cmd/kist/readable"
	"github.com/kist-vcs/kist/cmd/kist/show"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/exchange"
	"github.com/kist-vcs/kist/remote/mirror"
	"github.com/kist-vcs/kist/remote/rootlog"
	"github.com/kist-vcs/kist/remote/transfer"
)

type remoteCopyOptions struct {
	exchange.CopyOptions
	branches      []string
	mirror, check bool
}

func newRemoteCopy(env *cli.Env) *cobra.Command {
	var o remoteCopyOptions
	cmd := &cobra.Command{
		Use:   "copy [OPTIONS] FROM TO",
		Short: "copy a remote to another one",
		Long: `Copies all branches, tags, holds and other records from the remote FROM to the
remote TO, with everything that they need. Both are names or URLs. The content
does not go through this repository: packs travel as they are if TO needs nearly
all of their objects, and every object is hashed on the way. An interrupted copy
can be run again: it continues. A later copy sends only new content.

To TO, this is a push: others can push there meanwhile, and a branch that is not
a fast-forward is refused, with status 13. --mirror moves it nevertheless, and
deletes the branches and tags that FROM does not have.

--check copies nothing. It compares the branches, tags and records, and looks up
in the index of TO every object that FROM needs. The status is 15 if something
is missing or different. 'kist verify --remote TO --read-data' reads the files.

Each remote may be encrypted with keys of its own. A copy of an encrypted remote
to one that is not needs --clear. Add a new place first, with 'kist remote add'.
Outside a repository, two URLs of remotes can be copied, too. An interrupted
copy then begins again.`,
		Example: `  kist remote copy origin cloud
  kist remote copy --branch main origin /media/disk/photos
  kist remote copy --check origin cloud
  kist remote copy ssh://nas/photos /media/disk/photos`,
		Args:              cli.Arguments(2, 2, "FROM", "TO"),
		ValidArgsFunction: env.Complete(share.Remotes),
	}
	env.Prints(cmd, "", remoteCopyJSON{})
	env.InRepository(cmd, o.run, cli.ExitMoved, cli.ExitBusy)
	inRepository := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if isAnywhere(env, args) {
			return o.runAnywhere(cmd.Context(), env, args)
		}
		return inRepository(cmd, args)
	}
	flags := cmd.Flags()
	flags.StringArrayVarP(&o.branches, "branch", "b", nil, "copy only the branch `NAME`; may be repeated")
	flags.BoolVar(&o.mirror, "mirror", false, "also move and delete branches that a push would not")
	flags.BoolVar(&o.check, "check", false, "copy nothing, and compare both")
	flags.BoolVar(&o.Clear, "clear", false, "let an encrypted remote be copied to one in clear")
	flags.BoolVarP(&o.DryRun, "dry-run", "n", false, "only show what would be copied")
	cmd.MarkFlagsMutuallyExclusive("mirror", "branch")
	cmd.MarkFlagsMutuallyExclusive("check", "dry-run")
	env.Transfer.RegisterJobs(cmd)
	return cmd
}

// isAnywhere reports whether the command runs outside a repository, and needs none: both arguments are URLs or paths.
func isAnywhere(env *cli.Env, args []string) bool {
	if env.RepoDir() != "" || !share.IsPlace(env, args[0]) || !share.IsPlace(env, args[1]) {
		return false
	}
	_, err := kist.Discover(env.Dir)
	return errors.Is(err, kist.ErrNoRepository)
}

// runAnywhere runs the command in an empty repository, which it deletes: a copy keeps notes of both remotes there. After a kill, the
// folder stays among the temporary ones.
func (o *remoteCopyOptions) runAnywhere(ctx context.Context, env *cli.Env, args []string) error {
	opt, err := env.Options()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(cmp.Or(env.Getenv("TMPDIR"), os.TempDir()), "kist-copy-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	r, err := kist.Init(ctx, dir, opt, kist.InitOptions{Bare: true})
	if err != nil {
		return err
	}
	defer r.Close()
	return o.run(ctx, env, r, args)
}

// remoteCopyJSON is what remote copy prints with --json.
type remoteCopyJSON struct {
	Refs    []show.RefMove `json:"refs" doc:"the refs; with --check, the different ones: old is the ID on TO, new the ID on FROM"`
	Objects int64          `json:"objects" doc:"the number of copied objects; with --check, of all compared ones"`
	Records int            `json:"records" doc:"the number of copied records; with --check, of the ones missing on TO"`
	Sent    int64          `json:"bytes_sent" doc:"the number of bytes that were sent"`
	Packs   int            `json:"packs_whole" doc:"the number of packs that travelled as they are"`
	Missing []string       `json:"missing,omitempty" doc:"with --check, kind and ID of objects missing on TO: the first hundred"`
}

func (o *remoteCopyOptions) run(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
	var err error
	if o.From, err = share.RemoteOrURL(env, r, args[0]); err != nil {
		return err
	}
	if o.To, err = share.RemoteOrURL(env, r, args[1]); err != nil {
		return err
	}
	for _, name := range o.branches {
		o.Refs = append(o.Refs, refs.Heads+name)
	}
	o.Force, o.Prune, o.Jobs = o.mirror, o.mirror, env.Transfer.Jobs
	if o.check {
		return o.compareRemotes(ctx, env, r)
	}

	p := env.Progress("copying")
	defer p.Stop()
	o.Progress = p.Transferred()
	result, err := exchange.CopyRemote(ctx, r, o.CopyOptions)
	p.Stop()
	if result != nil && result.PushResult != nil {
		o.printResult(env, result)
	}
	return copyFailed(err)
}

// copyFailed adds advice to the error of a copy.
func copyFailed(err error) error {
	switch {
	case errors.Is(err, transfer.ErrNotFastForward):
		return cli.Hintf(err, "somebody else pushed there; --mirror makes it like FROM")
	case errors.Is(err, exchange.ErrWouldDecrypt):
		return cli.Hintf(err, "'kist remote add --encrypted NAME URL' makes an encrypted remote; --clear copies all the same")
	case errors.Is(err, rootlog.ErrEmpty), errors.Is(err, remote.ErrNoStore):
		return cli.Hintf(err, "a new place gets a name first: 'kist remote add NAME URL', with --encrypted if it has to be")
	}
	return err
}

// printResult prints the moved refs and the totals of a copy.
func (o *remoteCopyOptions) printResult(env *cli.Env, result *mirror.Result) {
	if env.Global.JSON {
		out := remoteCopyJSON{Refs: []show.RefMove{}, Objects: result.Objects, Records: result.Records, Sent: result.Bytes, Packs: result.WholePacks}
		for _, ref := range result.Refs {
			out.Refs = append(out.Refs, show.NewRefMove(ref.Name, "", ref.Old, ref.New, ref.Status))
		}
		env.JSON(out)
		return
	}
	moved := false
	for _, ref := range result.Refs {
		if ref.Status != transfer.StatusUpToDate || env.Global.Verbose {
			show.NewRefMove(ref.Name, "", ref.Old, ref.New, ref.Status).Tell(env, ref.Name, ref.Name)
			moved = true
		}
	}
	if !moved && result.Records == 0 {
		env.PrintOutcome("Everything up to date.\n")
	}
	show.TellTransferred(env, cli.Would(o.DryRun, "copied", "copy"), result.Objects, result.Bytes, result.Records)
}

// compareRemotes compares FROM and TO.
func (o *remoteCopyOptions) compareRemotes(ctx context.Context, env *cli.Env, r *kist.Repository) error {
	c, err := exchange.CompareRemotes(ctx, r, o.CopyOptions)
	if err != nil {
		return copyFailed(err)
	}
	out := remoteCopyJSON{Refs: []show.RefMove{}, Objects: c.Objects, Records: c.Records}
	for _, key := range c.Missing {
		out.Missing = append(out.Missing, key.Kind.String()+" "+key.ID.String())
	}
	for _, d := range c.Refs {
		out.Refs = append(out.Refs, show.NewRefMove(d.Name, "", d.To, d.From, ""))
	}
	if env.Global.JSON {
		env.JSON(out)
	} else {
		for _, d := range c.Refs {
			env.Printf("%s differs: %s is at %s, %s at %s\n", cli.Printable(d.Name), cli.QuoteArg(o.From), shortOrNone(d.From), cli.QuoteArg(o.To), shortOrNone(d.To))
		}
		for _, name := range out.Missing {
			env.Printf("missing: %s\n", name)
		}
	}
	if !c.Same() {
		return cli.Hintf(cli.Failf(cli.ExitRemote, "different", "%s does not have all of %s", cli.QuoteArg(o.To), cli.QuoteArg(o.From)), "'kist remote copy' without --check copies the rest")
	}
	env.PrintOutcome("no difference found: %s\n", readable.Plural(uint64(c.Objects), "object", "objects"))
	return nil
}

// shortOrNone returns a short ID, or words for no ID.
func shortOrNone(id object.ID) string {
	if id.IsZero() {
		return "nothing"
	}
	return id.Short()
}

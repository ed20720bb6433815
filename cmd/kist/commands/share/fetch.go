package share

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/input"
	"github.com/kist-vcs/kist/cmd/kist/readable"
	"github.com/kist-vcs/kist/cmd/kist/show"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/exchange"
	"github.com/kist-vcs/kist/remote/exchange/registry"
	"github.com/kist-vcs/kist/remote/transfer"
)

type fetchOptions struct {
	exchange.FetchOptions
	all, tags  bool
	data, full bool
	thaw, yes  bool
}

func NewFetch(env *cli.Env) *cobra.Command {
	var o fetchOptions
	cmd := &cobra.Command{
		Use:   "fetch [OPTIONS] [REMOTE|URL [BRANCH[:NAME]...]|PATH...]",
		Short: "download commits from a remote",
		Long: `Downloads new commits from REMOTE: all branches or only the BRANCHes, and the
tags. The default is the remote that the current branch follows, or else origin.
No branch moves and no file changes: kist records the remote's branches as
REMOTE/BRANCH, such as origin/main. You can merge, compare and show these. 'kist
pull' fetches and merges. FETCH_HEAD is the first BRANCH, or the branch that the
current one follows.

BRANCH:NAME also moves your branch NAME, if that is a fast-forward; + in front
moves it anyway. BRANCH may be a tag.

A branch a/b cannot be recorded while there is a here, and the other way. Then
everything else is fetched, and the exit status is 3.

With a URL or the folder of a repository, no remote-tracking branches are made:
only FETCH_HEAD has the commit, by default that of the default branch, and tags
come only with --tags.

All received data is checked against its hash before it is stored. An
interrupted fetch can be run again: it continues.

In a lazy clone, only commits are downloaded. --data downloads all content at
PATHs, of HEAD or of another commit (REV:PATH), so that it can be used without a
network. --full downloads everything: then the clone is lazy no more.

With --thaw, they first look for packs in an archive of S3. There are none, or
the command shows them, asks, and has the store thaw them all. That takes hours,
so the command ends with status 3. Run it again later: it shows how many packs
are not ready, and fetches when all are. See 'kist help thaw'.

Holds, expirations and purges of other people are fetched too, and listed with
the name that they signed with. A purge waits if HEAD, the index, or a local
branch, tag or hold needs the content. The end of your own hold waits, too. A
waiting record has no effect here until you decide. --records accept accepts all
waiting records. --records refuse revokes them, for everybody after your next
push. The key records.accept decides for all fetches: ask (the default), always
(nothing waits), or never (every record waits that would remove content here,
expirations too).

If the remote lacks an object because somebody accepted its loss, the fetch
names both, and accepts the loss here (unless records.accept is never). Objects
that are lost here, but intact on the remote, are downloaded.`,
		Example: `  kist fetch
  kist fetch --prune origin
  kist fetch origin topic:topic    make or move your branch topic, too
  kist fetch ../other main         then: kist merge FETCH_HEAD
  kist log HEAD..origin/main       what is new there
  kist fetch --data film v1:notes  bring these here, for work without a network
  kist fetch --full --thaw         bring everything here from an archive of S3`,
		ValidArgsFunction: cli.CompleteNth(env.Complete(Remotes), cobra.NoFileCompletions),
	}
	env.Prints(cmd, "", show.TransferJSON{})
	env.Prints(cmd, "with --data or --full", broughtJSON{})
	env.InRepository(cmd, o.run, cli.ExitPartial, cli.ExitMoved, cli.ExitBusy)
	flags := cmd.Flags()
	flags.BoolVar(&o.all, "all", false, "fetch from all remotes")
	flags.BoolVarP(&o.tags, "tags", "t", false, "fetch all tags: the default, except from a URL")
	flags.BoolVar(&o.NoTags, "no-tags", false, "do not fetch tags")
	cmd.MarkFlagsMutuallyExclusive("tags", "no-tags")
	flags.BoolVarP(&o.Force, "force", "f", false, "replace local tags that differ")
	flags.BoolVarP(&o.Prune, "prune", "p", false, "remove remote-tracking branches that the remote no longer has")
	flags.Var(cli.NewParsed(&o.Waiting, "", show.ParseDecision), "records", "decide on waiting records: `DECISION` is accept or refuse")
	cli.Propose(env, cmd, "records", cli.OneOf("accept", "refuse"))
	flags.BoolVarP(&o.DryRun, "dry-run", "n", false, "only show what would be moved")
	flags.BoolVar(&o.data, "data", false, "download the content at PATHs")
	flags.BoolVar(&o.full, "full", false, "download all content that is not here, for good")
	flags.BoolVar(&o.thaw, "thaw", false, "with --data or --full: have S3 thaw archived packs, or wait for it")
	flags.BoolVarP(&o.yes, "yes", "y", false, "with --thaw: do not ask")
	cmd.MarkFlagsMutuallyExclusive("data", "full", "all", "dry-run", "prune")
	env.Transfer.RegisterJobs(cmd)
	return cmd
}

// broughtJSON is what --data and --full print with --json.
type broughtJSON struct {
	Objects int64 `json:"objects" doc:"the number of objects that were fetched"`
	Bytes   int64 `json:"bytes" doc:"their size in bytes"`

	Thaw *thawJSON `json:"thaw,omitempty" doc:"with --thaw, if packs have to be thawed first: nothing was fetched"`
}

// runData fetches content that is away.
func (o *fetchOptions) runData(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
	if o.full && len(args) > 0 || o.data && len(args) == 0 {
		return cli.Usagef("--data needs PATHs, and --full takes none")
	}
	top, err := contentAt(ctx, env, r, args)
	if err != nil {
		return err
	}
	if o.thaw {
		if ready, err := o.thawFirst(ctx, env, r, top); err != nil || !ready {
			return err
		}
	}
	p := env.Progress("fetching")
	defer p.Stop()
	var got exchange.BringResult
	if o.full {
		got, err = exchange.BringAll(ctx, r)
	} else {
		got, err = exchange.BringContent(ctx, r, top)
	}
	p.Stop()
	if err != nil {
		return err
	}
	if env.Global.JSON {
		env.JSON(broughtJSON{Objects: got.Objects, Bytes: got.Bytes})
		return nil
	}
	if got.Objects == 0 {
		env.PrintOutcome("all of it is here already\n")
	}
	show.TellTransferred(env, "received", got.Objects, got.Bytes, 0)
	env.Maintain(r)
	return nil
}

// contentAt returns the content at paths, of HEAD or of other commits. It is nil without paths.
func contentAt(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) ([]object.Key, error) {
	var top []object.Key
	for _, arg := range args {
		if !input.NamesPath(arg) {
			path, err := env.RepoPath(r, arg)
			if err != nil {
				return nil, err
			}
			arg = "HEAD:" + path
		}
		at, err := input.Locate(ctx, env, r, arg)
		if err != nil {
			return nil, err
		}
		top = append(top, at.Entry.Content)
	}
	return slices.DeleteFunc(top, object.Key.IsZero), nil
}

func (o *fetchOptions) run(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
	if o.all && len(args) > 0 {
		return cli.Usagef("--all and %s cannot be given both", cli.QuoteArg(args[0]))
	}
	if (o.thaw || o.yes) && !o.data && !o.full {
		return cli.Usagef("--thaw and --yes need --data or --full")
	}
	if o.data || o.full {
		return o.runData(ctx, env, r, args)
	}
	o.Jobs = env.Transfer.Jobs
	if o.all {
		for _, m := range registry.All(r) {
			o.Remote = m.Name
			if err := FetchFrom(ctx, env, r, o.FetchOptions); err != nil {
				return err
			}
		}
		return nil
	}
	var err error
	if len(args) == 0 {
		o.Remote, err = FetchRemote(env, r, nil)
	} else if o.Remote, err = RemoteOrURL(env, r, args[0]); err == nil && !hasName(r, o.Remote) {
		o.NoTags = o.NoTags || !o.tags
	}
	if err != nil {
		return err
	}

	for _, arg := range args[min(1, len(args)):] {
		ref, err := registry.ParseFetch(arg)
		if err != nil {
			return cli.Usagef("%w", err)
		}
		o.Refs = append(o.Refs, ref)
	}
	return FetchFrom(ctx, env, r, o.FetchOptions)
}

// FetchRemote returns the name of the remote that the first of args names;
// without any, of the one that the current branch follows, or else origin.
func FetchRemote(env *cli.Env, r *kist.Repository, args []string) (string, error) {
	if len(args) > 0 {
		return RemoteArg(env, r, args[0])
	}
	if head, err := r.Refs().Head(); err == nil && head.Branch != "" {
		if upstream, err := kist.UpstreamOf(r, head.Branch); err == nil && !upstream.IsLocal() {
			return upstream.Remote, nil
		}
	}
	return RemoteArg(env, r, "")
}

// FetchFrom fetches from a remote and prints the result.
func FetchFrom(ctx context.Context, env *cli.Env, r *kist.Repository, o exchange.FetchOptions) error {
	p := env.Progress("fetching")
	defer p.Stop()
	o.Progress = p.Transferred()
	result, err := exchange.Fetch(ctx, r, o)
	p.Stop()
	if errors.Is(err, transfer.ErrNotFastForward) {
		err = cli.Hintf(err, "'+BRANCH:NAME' moves it anyway; its reflog keeps its commits")
	}
	if err != nil {
		return err
	}
	if env.Global.JSON {
		env.JSON(newFetchJSON(result))
	} else if err := printFetched(ctx, env, r, o, result); err != nil {
		return err
	}
	if !o.DryRun {
		env.Maintain(r)
	}
	return clashed(o, result)
}

// clashed returns the error for refs that were not fetched, because other refs are in their way.
func clashed(o exchange.FetchOptions, result *exchange.FetchResult) error {
	n := 0
	for _, f := range result.Refs {
		if f.Clash != "" {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	err := cli.Failf(cli.ExitPartial, "exists", "everything was fetched, except %s with another one in the way", readable.Plural(uint64(n), "ref", "refs"))
	if o.Prune {
		return err
	}
	return cli.Hintf(err, "if the remote no longer has the one in the way, 'kist fetch --prune %s' removes it here", cli.QuoteArg(o.Remote))
}

// fetchedStatus returns in a word what became of a ref.
func fetchedStatus(f exchange.FetchedRef) string {
	switch {
	case f.Local == "":
		return "fetched"
	case f.Kept:
		return "kept"
	case f.Clash != "":
		return "conflict"
	case f.Old == f.New:
		return "up to date"
	case f.Old.IsZero():
		return "new"
	case f.New.IsZero():
		return "deleted"
	case f.Unsure:
		return "moved"
	case f.Forced || strings.HasPrefix(f.Local, refs.Tags):
		return "forced"
	}
	return "fast-forward"
}

func fetchedMove(f exchange.FetchedRef) show.RefMove {
	return show.NewRefMove(f.Name, f.Local, f.Old, f.New, fetchedStatus(f))
}

func newFetchJSON(result *exchange.FetchResult) show.TransferJSON {
	out := show.TransferJSON{
		Refs: []show.RefMove{}, Objects: result.Objects, Records: result.Records, Received: &result.Bytes,
		News: show.NewReceivedJSON(result.Received), Lost: show.NewLostJSON(result.Lost),
	}

	for _, f := range result.Refs {
		out.Refs = append(out.Refs, fetchedMove(f))
	}
	return out
}

// printFetched prints the result of a fetch with options o.
func printFetched(ctx context.Context, env *cli.Env, r *kist.Repository, o exchange.FetchOptions, result *exchange.FetchResult) error {
	m, err := registry.Resolve(r, o.Remote)
	if err != nil {
		return err
	}
	first := true
	for _, f := range result.Refs {
		move := fetchedMove(f)
		if f.Clash != "" {
			env.Warn("cannot make %s: %s is in its way", cli.Printable(f.Local), cli.Printable(f.Clash))
			continue
		}
		if move.Status == "up to date" && !env.Global.Verbose {
			continue
		}
		if first {
			env.PrintOutcome("From %s\n", cli.Printable(remote.Redact(m.URL)))
			first = false
		}
		if move.Status == "kept" {
			env.Warn("tag %s is different on %s; --force replaces yours", cli.QuoteArg(cli.ShortRef(f.Local)), cli.QuoteArg(m.Label()))
			continue
		}
		move.Tell(env, f.Name, cmp.Or(f.Local, refs.FetchHead))
	}
	show.TellTransferred(env, "received", result.Objects, result.Bytes, result.Records)
	show.PrintReceived(env, o, result)
	show.PrintLost(ctx, env, r, m.Label(), result.Lost)
	return nil
}

package share

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/commands/work"
	"github.com/kist-vcs/kist/cmd/kist/show"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/remote/exchange"
	"github.com/kist-vcs/kist/tree/work/commits"
	"github.com/kist-vcs/kist/tree/work/rebase"
	"github.com/kist-vcs/kist/tree/work/stage"
)

type pullOptions struct {
	work.MergeFlags
	fetch             exchange.FetchOptions
	rebase, autostash bool
}

func NewPull(env *cli.Env) *cobra.Command {
	var o pullOptions
	cmd := &cobra.Command{
		Use:   "pull [OPTIONS] [REMOTE|URL [BRANCH]]",
		Short: "fetch from a remote and merge",
		Long: `Fetches, like 'kist fetch', and merges the branch that the current one follows,
or BRANCH of REMOTE, like 'kist merge': the current branch is moved on if it has
nothing of its own, and otherwise a merge is committed. With conflicts, the exit
status is 3. With a URL, BRANCH is by default the default branch there. If the
branch follows another one of this repository, nothing is fetched.`,
		Example: `  kist pull
  kist pull --ff-only              fail rather than merge
  kist pull --rebase               repeat your commits on the fetched ones
  kist pull origin topic`,
		Args:              cli.Arguments(0, 2),
		ValidArgsFunction: cli.CompleteNth(env.Complete(Remotes), cobra.NoFileCompletions),
	}
	env.Prints(cmd, "", pulledJSON{})
	env.Prints(cmd, "with --rebase", pulledRebaseJSON{})
	env.InRepository(cmd, cli.NotBare(o.run), cli.ExitPartial, cli.ExitMoved, cli.ExitBusy)
	flags := cmd.Flags()
	o.MergeFlags.Register(env, cmd)
	flags.BoolVarP(&o.rebase, "rebase", "r", false, "repeat the commits of the branch on the fetched ones, instead of a merge")
	cli.WithoutValue(flags, "no-rebase", "merge (the default)", func() error { o.rebase = false; return nil })
	for _, name := range []string{"ff-only", "no-ff", "message", "verify-signatures"} {
		cmd.MarkFlagsMutuallyExclusive("rebase", name)
	}
	flags.BoolVar(&o.autostash, "autostash", false, "with --rebase: put local changes aside, and bring them back at the end")
	flags.BoolVar(&o.fetch.NoTags, "no-tags", false, "do not fetch tags")
	flags.BoolVarP(&o.fetch.Prune, "prune", "p", false, "remove remote-tracking branches that the remote no longer has")
	env.Transfer.RegisterJobs(cmd)
	return cmd
}

// pulledJSON is what pull prints with --json.
type pulledJSON struct {
	Fetch *show.TransferJSON `json:"fetch,omitempty" doc:"the result of 'kist fetch', if there was anything to fetch"`
	Merge work.MergedJSON    `json:"merge" doc:"the result of 'kist merge'"`
}

// pulledRebaseJSON is what pull --rebase prints with --json.
type pulledRebaseJSON struct {
	Fetch  *show.TransferJSON `json:"fetch,omitempty" doc:"the result of 'kist fetch', if there was anything to fetch"`
	Rebase work.RebasedJSON   `json:"rebase" doc:"the result of 'kist rebase'"`
}

// newPulledJSON returns the JSON of the fetch of a pull; nil if there was none.
func newPulledJSON(fetched *exchange.FetchResult) *show.TransferJSON {
	if fetched == nil {
		return nil
	}
	out := newFetchJSON(fetched)
	return &out
}

func (o *pullOptions) run(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
	if err := o.Settle(env, r); err != nil {
		return err
	}
	if o.autostash && !o.rebase {
		return cli.Usagef("--autostash needs --rebase")
	}
	source, err := pullSource(env, r, args)
	if err != nil {
		return err
	}
	o.Message = work.CleanMessage(strings.Join(o.Messages, "\n\n"))

	o.fetch.NoTags = o.fetch.NoTags || source.Remote != "" && !hasName(r, source.Remote)
	p := env.Progress("pulling")
	defer p.Stop()
	o.Progress, o.fetch.Progress, o.fetch.Jobs = p.Amounts(), p.Transferred(), env.Transfer.Jobs
	pull := exchange.PullOptions{Source: source, Fetch: o.fetch, Merge: o.MergeOptions}
	if o.rebase {
		pull.Rebase = &rebase.Options{Autostash: o.autostash, StepOptions: commits.StepOptions{Brief: true, Progress: o.Progress}}
	}
	result, err := exchange.Pull(ctx, r, pull)
	p.Stop()

	if errors.Is(err, kist.ErrNoUpstream) {
		return cli.Hintf(err, "'kist branch -u REMOTE/BRANCH' sets it, or say from where: kist pull REMOTE BRANCH")
	}
	if o.rebase && (result == nil || result.Merge == nil) {
		err = work.LocalBlock(err, work.HintAutostash)
	}
	if result == nil {
		return o.PrintResult(ctx, env, r, nil, err)
	}
	err = missingSource(err, args, result)
	if result.Fetch != nil && !env.Global.JSON {
		fetched := exchange.FetchOptions{Remote: result.Source.Remote}
		if err := printFetched(ctx, env, r, fetched, result.Fetch); err != nil {
			return err
		}
	}
	if result.Rebase != nil {
		env.Maintain(r)
		if err == nil || stage.IsPartial(err) {
			env.JSON(pulledRebaseJSON{newPulledJSON(result.Fetch), work.NewRebasedJSON(result.Rebase)})
		}
		return work.PrintRebase(ctx, env, r, result.Rebase, err)
	}
	o.Form = func(merged work.MergedJSON) any { return pulledJSON{newPulledJSON(result.Fetch), merged} }
	return o.PrintResult(ctx, env, r, result.Merge, err)
}

// missingSource returns err, or a better error for a branch to pull that the remote lacks.
func missingSource(err error, args []string, result *exchange.PullResult) error {
	if result.Fetch == nil || len(args) != 2 || !errors.Is(err, refs.ErrNotFound) {
		return err
	}
	name := args[1]
	var names []string
	for _, ref := range result.Fetch.Refs {
		names = append(names, cli.ShortRef(ref.Name))
	}
	err = cli.Failf(cli.ExitFailed, "unknown-ref", "remote %s has no branch or tag %s", cli.QuoteArg(result.Source.Remote), cli.QuoteArg(name))
	return cli.HintSimilar(err, name, names)
}

// pullSource returns the branch to pull; zero: the upstream of the current branch.
func pullSource(env *cli.Env, r *kist.Repository, args []string) (kist.Upstream, error) {
	if len(args) == 0 {
		return kist.Upstream{}, nil
	}
	name, err := RemoteOrURL(env, r, args[0])
	if err != nil {
		return kist.Upstream{}, err
	}
	if len(args) == 2 && !hasName(r, name) {
		return kist.Upstream{Remote: name, Ref: args[1]}, nil // a branch or a tag
	}
	if len(args) == 2 {
		return kist.Upstream{Remote: name, Ref: refs.Heads + strings.TrimPrefix(args[1], refs.Heads)}, nil
	}
	if !hasName(r, name) {
		return kist.Upstream{Remote: name}, nil // its default branch
	}
	head, err := r.Refs().Head()
	if err != nil {
		return kist.Upstream{}, err
	}
	if upstream, err := kist.UpstreamOf(r, head.Branch); err == nil && upstream.Remote == name {
		return upstream, nil
	}
	if head.Branch == "" {
		return kist.Upstream{}, cli.Usagef("HEAD is on no branch: name the BRANCH to pull")
	}
	return kist.Upstream{Remote: name, Ref: refs.Heads + head.Branch}, nil
}

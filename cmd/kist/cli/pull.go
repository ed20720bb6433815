package cli

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/remote/registry"
	"github.com/kist-vcs/kist/remote/tracking"
	"github.com/kist-vcs/kist/tree/commits"
)

type pullOptions struct {
	messages  []string
	ffOnly    bool
	noFF      bool
	noTags    bool
	prune     bool
	unrelated bool
}

func newPull(env *Env) *cobra.Command {
	var o pullOptions
	cmd := &cobra.Command{
		Use:   "pull [OPTIONS] [REMOTE [BRANCH]]",
		Short: "fetch from a remote and merge",
		Long: `Fetches, like 'kist fetch', and merges the branch that the current one follows,
or BRANCH of REMOTE, like 'kist merge': the current branch is moved on if it has
nothing of its own, and otherwise a merge is committed. With conflicts, the exit
status is 3.

With --json: fetch and merge, which hold what 'kist fetch' and 'kist merge'
print.`,
		Example: `  kist pull
  kist pull --ff-only              fail rather than merge
  kist pull origin topic`,
		Args:              arguments(0, 2),
		ValidArgsFunction: completeNth(env.complete(remotes), cobra.NoFileCompletions),
	}
	env.inRepository(cmd, notBare(o.run), exitPartial, exitMoved, exitBusy)
	flags := cmd.Flags()
	flags.StringArrayVarP(&o.messages, "message", "m", nil, "the `MESSAGE` of a merge commit; if given more than once, each is a paragraph")
	flags.BoolVar(&o.ffOnly, "ff-only", false, "fail with status 13 if a commit is needed")
	flags.BoolVar(&o.noFF, "no-ff", false, "make a commit even if moving the branch is enough")
	flags.BoolVar(&o.noTags, "no-tags", false, "do not fetch tags")
	flags.BoolVarP(&o.prune, "prune", "p", false, "remove remote-tracking branches that the remote no longer has")
	flags.BoolVar(&o.unrelated, "allow-unrelated-histories", false, "merge histories without a common commit, or one whose content is gone")
	cmd.MarkFlagsMutuallyExclusive("ff-only", "no-ff")
	env.transfer.registerJobs(cmd)
	return cmd
}

// pulledJSON is what pull prints with --json.
type pulledJSON struct {
	Fetch transferJSON `json:"fetch"`
	Merge mergedJSON   `json:"merge"`
}

func (o *pullOptions) run(ctx context.Context, env *Env, r *kist.Repository, args []string) error {
	source, err := pullSource(env, r, args)
	if err != nil {
		return err
	}
	p := env.progress("pulling")
	defer p.Stop()
	result, err := tracking.Pull(ctx, r, tracking.PullOptions{
		Source: source,
		Fetch:  tracking.FetchOptions{NoTags: o.noTags, Prune: o.prune, Jobs: env.transfer.jobs, Progress: p.transferred()},
		Merge: commits.MergeOptions{
			Message: cleanMessage(strings.Join(o.messages, "\n\n")), FastForwardOnly: o.ffOnly, NoFastForward: o.noFF,
			Unrelated: o.unrelated, Progress: p.amounts(),
		},
	})
	p.Stop()
	if result != nil && result.Fetch != nil && !env.global.json {
		fetched := tracking.FetchOptions{Remote: result.Source.Remote}
		if err := printFetched(ctx, env, r, fetched, result.Fetch); err != nil {
			return err
		}
	}
	switch {
	case errors.Is(err, kist.ErrNoUpstream):
		return hintf(failf(exitFailed, "no-upstream", "%w", err), "'kist branch -u REMOTE/BRANCH' sets it, or say from where: kist pull REMOTE BRANCH")
	case errors.Is(err, commits.ErrNotFastForward):
		return hintf(err, "without --ff-only, kist makes a merge commit")
	case result == nil || result.Merge == nil:
		return env.unwritten(r, blocked(err))
	}
	env.maintain(r)
	form := func(merged mergedJSON) any { return pulledJSON{newFetchJSON(result.Fetch), merged} }
	if err := printMerged(ctx, env, r, result.Merge, form); err != nil {
		return err
	}
	return mergeOutcome(env, r, result.Merge, err)
}

// pullSource returns from where to pull; zero is what the current branch
// follows.
func pullSource(env *Env, r *kist.Repository, args []string) (registry.Upstream, error) {
	if len(args) == 0 {
		return registry.Upstream{}, nil
	}
	name, err := env.remoteArg(r, args[0])
	if err != nil {
		return registry.Upstream{}, err
	}
	if len(args) == 2 {
		return registry.Upstream{Remote: name, Ref: refs.Heads + strings.TrimPrefix(args[1], refs.Heads)}, nil
	}
	head, err := r.Refs().Head()
	if err != nil {
		return registry.Upstream{}, err
	}
	if upstream, err := registry.UpstreamOf(r, head.Branch); err == nil && upstream.Remote == name {
		return upstream, nil
	}
	if head.Branch == "" {
		return registry.Upstream{}, usagef("HEAD is on no branch: name the BRANCH to pull")
	}
	return registry.Upstream{Remote: name, Ref: refs.Heads + head.Branch}, nil
}

package work

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/readable"
	"github.com/kist-vcs/kist/cmd/kist/show"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/remote/exchange/registry"
)

// standing compares a branch with its upstream, as in "origin/main" and ": ahead 1, behind 2".
// If both are at the same commit, how is empty.
func standing(t kist.UpstreamComparison) (upstream, how string) {
	var parts []string
	if t.Gone {
		parts = append(parts, "gone")
	}
	if t.Ahead > 0 {
		parts = append(parts, fmt.Sprintf("ahead %d", t.Ahead))
	}
	if t.Behind > 0 {
		parts = append(parts, fmt.Sprintf("behind %d", t.Behind))
	}
	if len(parts) > 0 {
		how = ": " + strings.Join(parts, ", ")
	}
	return t.Short(), how
}

// standingLong is standing as sentences, with advice.
func standingLong(t kist.UpstreamComparison) string {
	name := cli.Printable(t.Short())
	commits := func(n int) string { return readable.Plural(uint64(n), "commit", "commits") }
	switch {
	case t.Gone:
		return fmt.Sprintf("Your branch follows '%s', which is gone.\n  ('kist branch --unset-upstream' ends that)\n", name)
	case t.Ahead > 0 && t.Behind > 0:
		return fmt.Sprintf("Your branch and '%s' have parted: %s here, %s there.\n  ('kist pull' merges them)\n", name, commits(t.Ahead), commits(t.Behind))
	case t.Ahead > 0 && t.IsLocal():
		return fmt.Sprintf("Your branch is ahead of '%s' by %s.\n", name, commits(t.Ahead))
	case t.Ahead > 0:
		return fmt.Sprintf("Your branch is ahead of '%s' by %s.\n  ('kist push' uploads them)\n", name, commits(t.Ahead))
	case t.Behind > 0:
		return fmt.Sprintf("Your branch is behind '%s' by %s, and can be moved on.\n  ('kist pull' does)\n", name, commits(t.Behind))
	}
	return fmt.Sprintf("Your branch is up to date with '%s'.\n", name)
}

// tellStanding compares a branch with its upstream, in the words of status.
func tellStanding(ctx context.Context, env *cli.Env, r *kist.Repository, branch string) {
	if env.Global.Quiet || env.Global.JSON {
		return
	}
	if t, err := kist.CompareUpstream(ctx, r, branch); err == nil { // else status reports the error
		env.PrintOutcome("%s", standingLong(t))
	}
}

// followNew sets the upstream of a new branch, if rev is a remote-tracking branch.
func followNew(ctx context.Context, env *cli.Env, r *kist.Repository, branch, rev string) error {
	full, err := r.Refs().Expand(ctx, rev)
	if err != nil {
		return nil // the branch is from another revision
	}
	upstream, ok := kist.FollowedBranch(r, full)
	if !ok {
		return nil
	}
	if err := kist.SetUpstream(ctx, r, branch, upstream); err != nil {
		return err
	}
	show.TellUpstream(env, branch, upstream.Short())
	return nil
}

// newRemoteBranch returns the only remote-tracking branch with a short name, as in
// origin/topic for topic. It returns "" if there is none, or more than one, or if name is a
// revision already.
func newRemoteBranch(ctx context.Context, r *kist.Repository, name string) string {
	if _, err := r.Resolve(ctx, name); !errors.Is(err, refs.ErrNotFound) || refs.CheckShort(name) != nil {
		return ""
	}
	found := ""
	for _, m := range registry.All(r) {
		if _, err := r.Refs().Get(refs.Remotes + m.Name + "/" + name); err == nil {
			if found != "" {
				return ""
			}
			found = m.Name + "/" + name
		}
	}
	return found
}

// setUpstream makes the branch in args, by default the current one, follow the branch name,
// of a remote or of this repository. With an empty name, the branch follows none.
func setUpstream(ctx context.Context, env *cli.Env, r *kist.Repository, name string, args []string) error {
	if len(args) > 1 {
		return cli.Usagef("one argument too many: %s", cli.QuoteArg(args[1]))
	}
	branch, err := followingBranch(ctx, r, args)
	if err != nil {
		return err
	}

	if name == "" {
		if _, err := kist.UpstreamOf(r, branch); errors.Is(err, kist.ErrNoUpstream) {
			return err
		}
		return kist.SetUpstream(ctx, r, branch, kist.Upstream{})
	}

	upstream, err := upstreamArg(ctx, r, name)
	if err != nil {
		return err
	}
	if upstream == (kist.Upstream{Ref: refs.Heads + branch}) {
		env.Warn("branch %s does not follow itself", cli.QuoteArg(branch)) // git, too, accepts it and does nothing
		return nil
	}
	if err := kist.SetUpstream(ctx, r, branch, upstream); err != nil {
		return err
	}
	show.TellUpstream(env, branch, upstream.Short())
	return nil
}

// followingBranch returns the branch in args, by default the current one.
func followingBranch(ctx context.Context, r *kist.Repository, args []string) (string, error) {
	if len(args) == 1 {
		return branchArg(ctx, r, args[0])
	}
	head, err := r.Refs().Head()
	if err == nil && head.Branch == "" {
		err = registry.ErrDetached
	}
	return head.Branch, err
}

// upstreamArg returns the branch that name stands for. A local branch comes before all else
// of this name.
func upstreamArg(ctx context.Context, r *kist.Repository, name string) (kist.Upstream, error) {
	full := refs.Heads + name
	if _, err := r.Refs().Get(full); err != nil {
		if full, err = r.Refs().Expand(ctx, name); err != nil && !errors.Is(err, refs.ErrNotFound) {
			return kist.Upstream{}, err
		}
	}
	if _, ok := refs.BranchOf(full); ok {
		return kist.Upstream{Ref: full}, nil
	}
	if upstream, ok := kist.FollowedBranch(r, full); ok {
		return upstream, nil
	}
	err := cli.HintSimilar(cli.Failf(cli.ExitFailed, "unknown-ref", "%s is not a branch", cli.QuoteArg(name)), name, append(cli.RefNames(r, refs.Remotes), cli.RefNames(r, refs.Heads)...))
	return kist.Upstream{}, cli.Hintf(err, "'kist branch -a' lists them; 'kist push -u' creates one on a remote")
}

// trackingJSON compares a branch with its upstream, in the JSON of branch and status.
type trackingJSON struct {
	Upstream string `json:"upstream,omitempty" doc:"the upstream branch, as in origin/main"`
	Gone     bool   `json:"gone,omitempty" doc:"true if that branch does not exist any more"`
	Ahead    *int   `json:"ahead,omitempty" doc:"the number of commits that the upstream lacks"`
	Behind   *int   `json:"behind,omitempty" doc:"the number of commits that only the upstream has"`
}

// newTrackingJSON returns the JSON of t. It is empty if t is nil.
func newTrackingJSON(t *kist.UpstreamComparison) trackingJSON {
	switch {
	case t == nil:
		return trackingJSON{}
	case t.Gone:
		return trackingJSON{Upstream: t.Short(), Gone: true}
	}
	return trackingJSON{Upstream: t.Short(), Ahead: &t.Ahead, Behind: &t.Behind}
}

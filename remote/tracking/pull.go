package tracking

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/history"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/registry"
	"github.com/kist-vcs/kist/tree/commits"
	"github.com/kist-vcs/kist/tree/operation"
	"github.com/kist-vcs/kist/tree/rebase"
	"github.com/kist-vcs/kist/tree/stage"
)

// PullOptions are the options of [Pull].
type PullOptions struct {
	Fetch  FetchOptions         // Pull sets its Remote; its Refs must include the merged branch
	Merge  commits.MergeOptions // Pull sets its Rev, and its message if empty
	Rebase *rebase.Options      // nil: merge; Pull sets its Upstream
	Source registry.Upstream    // zero: the upstream of HEAD's branch
}

// PullResult is the result of a pull.
type PullResult struct {
	Source registry.Upstream
	Fetch  *FetchResult
	Merge  *commits.MergeResult // nil after an earlier error, and after a rebase
	Rebase *rebase.Result       // nil after an earlier error, and after a merge
}

// Pull fetches and then merges the upstream of HEAD's branch, or Source, into the
// branch. With o.Rebase it rebases the branch, unless a fast-forward is enough. The
// error matches ErrNoUpstream if there is no Source and no upstream. Other errors are
// those of [Fetch], [commits.Merge] and the rebase.
func Pull(ctx context.Context, r *kist.Repository, o PullOptions) (*PullResult, error) {
	if err := operation.NoOperation(r); err != nil {
		return nil, err
	}
	if o.Source == (registry.Upstream{}) {
		head, err := r.Refs().Head()
		if err != nil {
			return nil, err
		}
		if head.Branch == "" {
			return nil, fmt.Errorf("HEAD is detached: %w", kist.ErrNoUpstream)
		}
		if o.Source, err = registry.UpstreamOf(r, head.Branch); err != nil {
			return nil, err
		}
	}

	result := &PullResult{Source: o.Source}
	m, err := registry.Resolve(r, o.Source.Remote)
	if err != nil {
		return nil, err
	}

	o.Fetch.Remote = o.Source.Remote
	if m.Name == "" {
		o.Fetch.Refs = []registry.FetchRef{{Source: cmp.Or(o.Source.Ref, "HEAD")}}
	}
	if result.Fetch, err = Fetch(ctx, r, o.Fetch); err != nil {
		return result, err
	}

	branch := strings.TrimPrefix(o.Source.Ref, refs.Heads)
	if o.Merge.Message == "" && branch == "" {
		o.Merge.Message = "Merge " + m.Label()
	} else if o.Merge.Message == "" {
		o.Merge.Message = fmt.Sprintf("Merge branch '%s' of %s", branch, remote.Redact(m.URL))
	}
	o.Merge.Rev = refs.FetchHead
	if m.Name != "" {
		if o.Merge.Rev, err = trackingBranch(ctx, r, o.Source); err != nil {
			return result, err
		}
	}

	if o.Rebase != nil {
		o.Rebase.Upstream, o.Rebase.ForkPoint = o.Merge.Rev, true
		if forward, err := isForward(ctx, r, o.Merge.Rev); err != nil {
			return result, err
		} else if !forward {
			result.Rebase, err = rebase.Rebase(ctx, r, *o.Rebase)
			return result, err
		}
	}
	result.Merge, err = commits.Merge(ctx, r, o.Merge)
	if o.Rebase != nil && o.Rebase.Autostash && errors.Is(err, stage.ErrLocalChanges) { // a rebase puts them aside
		result.Merge = nil
		result.Rebase, err = rebase.Rebase(ctx, r, *o.Rebase)
	}
	return result, err
}

// trackingBranch sets FETCH_HEAD to the remote-tracking branch of a source, and returns the
// shortest name of that branch.
func trackingBranch(ctx context.Context, r *kist.Repository, source registry.Upstream) (rev string, err error) {
	tip, err := r.Refs().Get(source.Tracking())
	if err != nil {
		return "", fmt.Errorf("branch %q of %q: %w", strings.TrimPrefix(source.Ref, refs.Heads), source.Remote, err)
	}
	if err := r.Publish(ctx, func(ctx context.Context) error { return r.Refs().SetSpecial(ctx, refs.FetchHead, tip) }); err != nil {
		return "", err
	}
	if full, err := r.Refs().Expand(ctx, source.Short()); err != nil || full != source.Tracking() { // something here has this name
		return source.Tracking(), nil
	}
	return source.Short(), nil
}

// isForward reports whether a commit is a descendant of HEAD, so that there is nothing to
// rebase.
func isForward(ctx context.Context, r *kist.Repository, rev string) (bool, error) {
	head, err := r.Refs().Head()
	if err != nil || head.Unborn() {
		return err == nil, err
	}
	tip, _, err := r.ReadCommit(ctx, rev)
	if err != nil || tip == head.ID {
		return false, err
	}
	return history.IsAncestor(ctx, r.Objects(), head.ID, tip)
}

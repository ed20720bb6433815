package tracking

import (
	"cmp"
	"context"
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
// branch. With o.Rebase it rebases the branch, unless a fast-forward is enough. The error matches ErrNoUpstream if there is neither. Other errors are those
// of [Fetch] and [commits.Merge].
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
	if m.Name == "" {
		o.Merge.Rev = refs.FetchHead
		result.Merge, err = commits.Merge(ctx, r, o.Merge)
		return result, err
	}

	tip, err := r.Refs().Get(o.Source.Tracking())
	if err != nil {
		return result, fmt.Errorf("branch %q of %q: %w", branch, o.Source.Remote, err)
	}
	if err := r.Publish(ctx, func(ctx context.Context) error { return r.Refs().SetSpecial(ctx, refs.FetchHead, tip) }); err != nil {
		return result, err
	}

	o.Merge.Rev = o.Source.Short()
	if full, err := r.Refs().Expand(ctx, o.Merge.Rev); err != nil || full != o.Source.Tracking() { // something here has this name
		o.Merge.Rev = o.Source.Tracking()
	}

	if o.Rebase != nil {
		head, err := r.Refs().Head()
		if err != nil {
			return result, err
		}
		forward := head.Unborn()
		if !forward {
			if forward, err = history.IsAncestor(ctx, r.Objects(), head.ID, tip); err != nil {
				return result, err
			}
		}
		if !forward || head.ID == tip {
			o.Rebase.Upstream = o.Merge.Rev
			result.Rebase, err = rebase.Rebase(ctx, r, *o.Rebase)
			return result, err
		}
	}
	result.Merge, err = commits.Merge(ctx, r, o.Merge)
	return result, err
}

package kist

import (
	"context"
	"fmt"
	"strings"

	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/remote"
)

// PullOptions say what [Repository.Pull] brings.
type PullOptions struct {
	Fetch  FetchOptions // its Remote is set by Pull; its Branches have to include what is merged
	Merge  MergeOptions // its Rev is set by Pull, and its message, if there is none
	Source Upstream     // zero: what HEAD's branch follows
}

// PullResult tells what came of a pull.
type PullResult struct {
	Source Upstream
	Fetch  *FetchResult
	Merge  *MergeResult // nil: there was an error before
}

// Pull fetches, and merges what HEAD's branch follows, or another branch, into
// it. The error matches ErrNoUpstream if there is none, and is otherwise one of
// [Repository.Fetch] or [Repository.Merge].
func (r *Repository) Pull(ctx context.Context, o PullOptions) (*PullResult, error) {
	if err := r.noOperation(); err != nil {
		return nil, err
	}
	if o.Source == (Upstream{}) {
		head, err := r.refs.Head()
		if err != nil {
			return nil, err
		}
		if head.Branch == "" {
			return nil, fmt.Errorf("HEAD is detached: %w", ErrNoUpstream)
		}
		if o.Source, err = r.Upstream(head.Branch); err != nil {
			return nil, err
		}
	}
	result := &PullResult{Source: o.Source}
	m, err := r.Remote(o.Source.Remote)
	if err != nil {
		return nil, err
	}
	o.Fetch.Remote = o.Source.Remote
	if result.Fetch, err = r.Fetch(ctx, o.Fetch); err != nil {
		return result, err
	}
	branch := strings.TrimPrefix(o.Source.Ref, refs.Heads)
	tip, err := r.refs.Get(o.Source.Tracking())
	if err != nil {
		return result, fmt.Errorf("branch %q of %q: %w", branch, o.Source.Remote, err)
	}
	if err := r.publish(ctx, func(ctx context.Context) error { return r.refs.SetSpecial(ctx, refs.FetchHead, tip) }); err != nil {
		return result, err
	}
	if o.Merge.Message == "" {
		o.Merge.Message = fmt.Sprintf("Merge branch '%s' of %s", branch, remote.Redact(m.URL))
	}
	o.Merge.Rev = o.Source.Short()
	if full, err := r.refs.Expand(ctx, o.Merge.Rev); err != nil || full != o.Source.Tracking() { // something here has this name
		o.Merge.Rev = o.Source.Tracking()
	}
	result.Merge, err = r.Merge(ctx, o.Merge)
	return result, err
}

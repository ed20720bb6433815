package exchange

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/history"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/exchange/registry"
	"github.com/kist-vcs/kist/tree/work/commits"
	"github.com/kist-vcs/kist/tree/work/operation"
	"github.com/kist-vcs/kist/tree/work/rebase"
	"github.com/kist-vcs/kist/tree/work/stage"
)

// PullOptions are the options of [Pull].
type PullOptions struct {
	Fetch  FetchOptions         // Pull sets its Remote; its Refs must include the merged branch
	Merge  commits.MergeOptions // Pull sets its Rev, and its message if empty
	Rebase *rebase.Options      // nil: merge; Pull sets its Upstream
	Source kist.Upstream        // zero: the upstream of HEAD's branch
}

// PullResult is the result of a pull.
type PullResult struct {
	Source kist.Upstream
	Fetch  *FetchResult         // nil: Source is a branch of this repository
	Merge  *commits.MergeResult // nil after an earlier error, and after a rebase
	Rebase *rebase.Result       // nil after an earlier error, and after a merge
}

// Pull fetches and then merges the upstream of HEAD's branch, or Source, into the
// branch. With o.Rebase it rebases the branch, unless a fast-forward is enough. Nothing is
// fetched if the upstream is a branch of this repository. The error matches ErrNoUpstream if there is no Source and no upstream. Other errors are
// those of [Fetch], [commits.Merge] and the rebase.
func Pull(ctx context.Context, r *kist.Repository, o PullOptions) (*PullResult, error) {
	if err := operation.NoOperation(r); err != nil {
		return nil, err
	}
	if o.Source == (kist.Upstream{}) {
		head, err := r.Refs().Head()
		if err != nil {
			return nil, err
		}
		if head.Branch == "" {
			return nil, fmt.Errorf("HEAD is detached: %w", kist.ErrNoUpstream)
		}
		if o.Source, err = kist.UpstreamOf(r, head.Branch); err != nil {
			return nil, err
		}
	}

	result := &PullResult{Source: o.Source}
	var err error
	if o.Source.IsLocal() {
		o.Merge.Rev, err = trackingBranch(ctx, r, o.Source)
	} else {
		result.Fetch, err = fetchSource(ctx, r, &o)
	}
	if err != nil {
		return result, err
	}
	return result, integrate(ctx, r, o, result)
}

// fetchSource fetches o.Source. It sets the revision to merge, and the message of a merge
// commit if there is none.
func fetchSource(ctx context.Context, r *kist.Repository, o *PullOptions) (*FetchResult, error) {
	m, err := registry.Resolve(r, o.Source.Remote)
	if err != nil {
		return nil, err
	}

	o.Fetch.Remote = o.Source.Remote
	if m.Name == "" {
		o.Fetch.Refs = []registry.FetchRef{{Source: cmp.Or(o.Source.Ref, "HEAD")}}
	}
	fetched, err := Fetch(ctx, r, o.Fetch)
	if err != nil {
		return fetched, err
	}

	what, name := "branch", strings.TrimPrefix(o.Source.Ref, refs.Heads)
	o.Merge.Rev = refs.FetchHead
	if m.Name == "" && !fetched.tag(name).IsZero() {
		what = "tag"
	} else if m.Name != "" {
		if what, o.Merge.Rev, err = pulledRev(ctx, r, o.Source, fetched); err != nil {
			return fetched, err
		}
	}

	if o.Merge.Message != "" {
		return fetched, nil
	}
	head, err := r.Refs().Head()
	if err != nil {
		return fetched, err
	}
	if name == "" {
		o.Merge.Message = "Merge " + m.Label() + commits.IntoBranch(head)
	} else {
		o.Merge.Message = fmt.Sprintf("Merge %s '%s' of %s", what, name, remote.Redact(m.URL)) + commits.IntoBranch(head)
	}
	return fetched, nil
}

// integrate merges o.Merge.Rev, or rebases HEAD's branch on it.
func integrate(ctx context.Context, r *kist.Repository, o PullOptions, result *PullResult) error {
	if o.Rebase != nil {
		o.Rebase.Upstream, o.Rebase.ForkPoint = o.Merge.Rev, true
		if forward, err := isForward(ctx, r, o.Merge.Rev); err != nil {
			return err
		} else if !forward {
			result.Rebase, err = rebase.Rebase(ctx, r, *o.Rebase)
			return err
		}
	}
	var err error
	result.Merge, err = commits.Merge(ctx, r, o.Merge)
	if o.Rebase != nil && o.Rebase.Autostash && errors.Is(err, stage.ErrLocalChanges) { // a rebase puts them aside
		result.Merge = nil
		result.Rebase, err = rebase.Rebase(ctx, r, *o.Rebase)
	}
	return err
}

// pulledRev returns the kind and the revision of a fetched branch, or else of a fetched tag.
func pulledRev(ctx context.Context, r *kist.Repository, source kist.Upstream, fetched *FetchResult) (what, rev string, err error) {
	rev, err = trackingBranch(ctx, r, source)
	tag := fetched.tag(strings.TrimPrefix(source.Ref, refs.Heads))
	if !errors.Is(err, refs.ErrNotFound) || tag.IsZero() {
		return "branch", rev, err
	}
	return "tag", refs.FetchHead, setFetchHead(ctx, r, tag)
}

// trackingBranch sets FETCH_HEAD to the remote-tracking branch of a source, or to the local
// branch, and returns the shortest name of that branch.
func trackingBranch(ctx context.Context, r *kist.Repository, source kist.Upstream) (rev string, err error) {
	tip, err := r.Refs().Get(source.Tracking())
	if err != nil && source.IsLocal() {
		return "", fmt.Errorf("upstream branch %q: %w", source.Short(), err)
	}
	if err != nil {
		return "", fmt.Errorf("branch %q of %q: %w", strings.TrimPrefix(source.Ref, refs.Heads), source.Remote, err)
	}
	if err := setFetchHead(ctx, r, tip); err != nil {
		return "", err
	}
	if full, err := r.Refs().Expand(ctx, source.Short()); err != nil || full != source.Tracking() { // something here has this name
		return source.Tracking(), nil
	}
	return source.Short(), nil
}

// setFetchHead sets FETCH_HEAD to the commit of an ID from a ref.
func setFetchHead(ctx context.Context, r *kist.Repository, id object.ID) error {
	return r.Publish(ctx, kist.Step(func(ctx context.Context) error {
		commit, err := refs.Peel(ctx, r.Objects(), id)
		if err != nil {
			return err
		}
		return r.Refs().SetSpecial(ctx, refs.FetchHead, commit)
	}))
}

// tag returns the value of a fetched tag of the remote, or zero.
func (f *FetchResult) tag(name string) object.ID {
	for _, ref := range f.Refs {
		if ref.Name == refs.Tags+name {
			return ref.New
		}
	}
	return object.ID{}
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

package kist

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/history"
	"github.com/kist-vcs/kist/remote"
)

// ErrNoRemote is matched by the error for a remote that is not configured.
var ErrNoRemote = errors.New("no such remote")

// NoRemoteError means that a remote is not configured. It matches [ErrNoRemote].
type NoRemoteError struct{ Name string } // the name may be a URL with a password

func (e *NoRemoteError) Error() string {
	return fmt.Sprintf("%v: %q", ErrNoRemote, remote.Redact(e.Name))
}

// Is makes errors.Is(err, ErrNoRemote) true.
func (e *NoRemoteError) Is(target error) bool { return target == ErrNoRemote }

// Upstream is the branch that a local branch is compared with and pulled from. Usually it is
// a branch of a remote, and the local branch is also pushed to it.
type Upstream struct {
	Remote string // name; empty: the branch is in this repository
	Ref    string // full name on the remote, as in "refs/heads/main"
}

// IsLocal reports whether the upstream is a branch of this repository.
func (u Upstream) IsLocal() bool { return u.Remote == "" }

// Tracking returns the full name of the remote-tracking branch, as in
// "refs/remotes/origin/main", or of the local branch.
func (u Upstream) Tracking() string {
	if u.IsLocal() {
		return u.Ref
	}
	return refs.Remotes + u.Remote + "/" + strings.TrimPrefix(u.Ref, refs.Heads)
}

// Short returns the short name, as in "origin/main".
func (u Upstream) Short() string {
	if u.IsLocal() {
		return strings.TrimPrefix(u.Ref, refs.Heads)
	}
	return strings.TrimPrefix(u.Tracking(), refs.Remotes)
}

// UpstreamOf returns the upstream of a branch, given its short name. The error
// matches [ErrNoUpstream], or is a [*ConfigError] if the configured upstream is
// invalid.
func UpstreamOf(r *Repository, branch string) (Upstream, error) {
	if _, err := r.Config().TrackingBranch(branch); err != nil {
		return Upstream{}, err
	}
	c := r.Config().Branch[branch]
	return Upstream{Remote: c.Remote, Ref: c.Merge}, nil
}

// SetUpstream sets the upstream of a branch, given its short name. A zero Upstream removes
// it.
func SetUpstream(ctx context.Context, r *Repository, branch string, u Upstream) error {
	if err := refs.CheckName(refs.Heads + branch); err != nil {
		return err
	}
	if u == (Upstream{}) {
		if _, ok := r.Config().Branch[branch]; !ok {
			return nil
		}
		return r.EditConfig(ctx, func(c *Config) error { return c.SetAt(nil, "branch", branch) })
	}
	return SetUpstreams(ctx, r, map[string]Upstream{branch: u})
}

// SetUpstreams sets the upstreams of branches, by their short names. It writes the
// configuration once.
func SetUpstreams(ctx context.Context, r *Repository, set map[string]Upstream) error {
	for branch, u := range set {
		if err := checkUpstream(r, branch, u); err != nil {
			return err
		}
	}
	return r.EditConfig(ctx, func(c *Config) error {
		for branch, u := range set {
			var remote any // nil removes the key
			if !u.IsLocal() {
				remote = u.Remote
			}
			err := errors.Join(c.SetAt(remote, "branch", branch, "remote"), c.SetAt(u.Ref, "branch", branch, "merge"))
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// checkUpstream returns an error if a branch cannot have the upstream u.
func checkUpstream(r *Repository, branch string, u Upstream) error {
	if err := refs.CheckName(refs.Heads + branch); err != nil {
		return err
	}
	if !u.IsLocal() {
		if _, ok := r.Config().Remote[u.Remote]; !ok {
			return &NoRemoteError{u.Remote}
		}
	}
	if !strings.HasPrefix(u.Ref, refs.Heads) {
		return &refs.NameError{Name: u.Ref, Reason: "is no branch"}
	}
	return refs.CheckName(u.Tracking())
}

// FollowedBranch returns the branch that a remote-tracking branch, given its full name, follows. The
// HEAD of a remote follows its default branch. FollowedBranch reports whether there is such a
// remote and branch.
func FollowedBranch(r *Repository, tracking string) (Upstream, bool) {
	name, ok := strings.CutPrefix(tracking, refs.Remotes)
	if !ok {
		return Upstream{}, false
	}
	remote, branch, ok := strings.Cut(name, "/")
	if branch == "HEAD" {
		list, err := r.Refs().List(refs.Remotes + remote + "/")
		at := slices.IndexFunc(list, func(ref refs.Ref) bool { return ref.Name == tracking })
		if err != nil || at < 0 {
			return Upstream{}, false
		}
		branch = strings.TrimPrefix(list[at].Target, refs.Remotes+remote+"/")
	}
	if _, known := r.Config().Remote[remote]; !ok || !known {
		return Upstream{}, false
	}
	return Upstream{Remote: remote, Ref: refs.Heads + branch}, true
}

// UpstreamComparison compares a branch with its upstream.
type UpstreamComparison struct {
	Upstream
	Gone          bool // the remote-tracking branch, or the local upstream, does not exist
	Ahead, Behind int  // number of commits that only the branch has, and that only the upstream has
}

// CompareUpstream compares a branch with its remote-tracking branch. The error matches
// [ErrNoUpstream].
func CompareUpstream(ctx context.Context, r *Repository, branch string) (UpstreamComparison, error) {
	u, err := UpstreamOf(r, branch)
	if err != nil {
		return UpstreamComparison{}, err
	}
	t := UpstreamComparison{Upstream: u}
	theirs, err := r.Refs().Get(u.Tracking())
	if errors.Is(err, refs.ErrNotFound) {
		t.Gone = true
		return t, nil
	}
	if err != nil {
		return t, err
	}
	ours, err := r.Refs().Get(refs.Heads + branch)
	if errors.Is(err, refs.ErrNotFound) {
		ours, err = object.ID{}, nil
	}
	if err != nil || ours == theirs {
		return t, err
	}
	if ours.IsZero() {
		for _, err := range history.Walk(ctx, r.Objects(), []object.ID{theirs}, history.Options{}) {
			if err != nil {
				return t, err
			}
			t.Behind++
		}
		return t, nil
	}
	t.Ahead, t.Behind, err = history.AheadBehind(ctx, r.Objects(), ours, theirs)
	return t, err
}

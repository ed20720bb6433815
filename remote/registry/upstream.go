package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/history"
)

// Upstream is the branch of a remote that a branch follows: where it is pushed
// to and pulled from.
type Upstream struct {
	Remote string // name
	Ref    string // full name on the remote, as in "refs/heads/main"
}

// Tracking returns the full name of the ref that says where the branch was
// seen last, as in "refs/remotes/origin/main".
func (u Upstream) Tracking() string {
	return refs.Remotes + u.Remote + "/" + strings.TrimPrefix(u.Ref, refs.Heads)
}

// Short returns the name for people, as in "origin/main".
func (u Upstream) Short() string { return strings.TrimPrefix(u.Tracking(), refs.Remotes) }

// UpstreamOf returns the upstream of a branch, given its short name. The error
// matches ErrNoUpstream, or is a [*ConfigError] if the configured upstream is
// invalid.
func UpstreamOf(r *kist.Repository, branch string) (Upstream, error) {
	c, ok := r.Config().Branch[branch]
	if !ok || c.Remote == "" || c.Merge == "" {
		return Upstream{}, fmt.Errorf("branch %q has %w", branch, kist.ErrNoUpstream)
	}
	u := Upstream{Remote: c.Remote, Ref: c.Merge}
	if !strings.HasPrefix(u.Ref, refs.Heads) || refs.CheckName(u.Tracking()) != nil {
		return Upstream{}, &kist.ConfigError{Err: fmt.Errorf("branch %q: merge %q is not the full name of a branch, as in %q", branch, c.Merge, refs.Heads+branch)}
	}
	return u, nil
}

// SetUpstream makes a branch, given its short name, follow one of a remote; a
// zero Upstream ends that.
func SetUpstream(ctx context.Context, r *kist.Repository, branch string, u Upstream) error {
	if err := refs.CheckName(refs.Heads + branch); err != nil {
		return err
	}
	if u == (Upstream{}) {
		if _, ok := r.Config().Branch[branch]; !ok {
			return nil
		}
		return r.EditConfig(ctx, func(c *kist.Config) error { return c.SetAt(nil, "branch", branch) })
	}
	return SetUpstreams(ctx, r, map[string]Upstream{branch: u})
}

// SetUpstreams makes branches, given by their short names, follow those of
// remotes. It writes the configuration once.
func SetUpstreams(ctx context.Context, r *kist.Repository, set map[string]Upstream) error {
	for branch, u := range set {
		if err := checkUpstream(r, branch, u); err != nil {
			return err
		}
	}
	return r.EditConfig(ctx, func(c *kist.Config) error {
		for branch, u := range set {
			if err := c.SetAt(u.Remote, "branch", branch, "remote"); err != nil {
				return err
			}
			if err := c.SetAt(u.Ref, "branch", branch, "merge"); err != nil {
				return err
			}
		}
		return nil
	})
}

// checkUpstream refuses an upstream that a branch cannot follow.
func checkUpstream(r *kist.Repository, branch string, u Upstream) error {
	if err := refs.CheckName(refs.Heads + branch); err != nil {
		return err
	}
	if _, err := Find(r, u.Remote); err != nil {
		return err
	}
	if !strings.HasPrefix(u.Ref, refs.Heads) {
		return &refs.NameError{Name: u.Ref, Reason: "is no branch"}
	}
	return refs.CheckName(u.Tracking())
}

// BranchOf returns what the full name of a remote-tracking branch, as in
// "refs/remotes/origin/main", stands for; a remote's HEAD stands for its
// default branch.
func BranchOf(r *kist.Repository, tracking string) (Upstream, bool) {
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

// Tracking is how a branch and its upstream stand to each other.
type Tracking struct {
	Upstream
	Gone          bool // the upstream was not seen yet, or was deleted
	Ahead, Behind int  // commits that only the branch has, and that only the upstream has
}

// Track compares a branch with its upstream, as that was seen last. The error
// matches ErrNoUpstream.
func Track(ctx context.Context, r *kist.Repository, branch string) (Tracking, error) {
	u, err := UpstreamOf(r, branch)
	if err != nil {
		return Tracking{}, err
	}
	t := Tracking{Upstream: u}
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

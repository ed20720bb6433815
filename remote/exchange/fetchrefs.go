package exchange

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/remote/exchange/registry"
	"github.com/kist-vcs/kist/remote/rootlog"
	"github.com/kist-vcs/kist/tree/work/commits"
)

// selectRefs returns the refs of a remote that are to be fetched, and the
// remote-tracking branches to be deleted.
func selectRefs(r *kist.Repository, head *rootlog.State, o FetchOptions) (wanted, gone []FetchedRef, err error) {
	m, err := registry.Resolve(r, o.Remote)
	if err != nil {
		return nil, nil, err
	}
	tracking := refs.Remotes + m.Name + "/"
	asked, err := findAskedRefs(r, head, m, o)
	if err != nil {
		return nil, nil, err
	}
	for name, key := range head.Refs {
		if name == refs.Heads+"HEAD" { // its place here is taken by the remote's default branch
			r.Options().Warn(fmt.Sprintf("a branch called HEAD on %q is left out", m.Label()))
			continue
		}
		for _, f := range o.findLocalRefs(name, tracking, asked[name]) {
			if err := refs.CheckName(cmp.Or(f.Local, name)); err != nil { // another program has made the list
				r.Options().Warn(fmt.Sprintf("a ref on %q is left out: %v", m.Label(), err))
				continue
			}
			if f.Local != "" {
				if f.Old, err = r.Refs().Get(f.Local); err != nil && !errors.Is(err, refs.ErrNotFound) {
					return nil, nil, err
				}
			}
			f.New = key.ID
			f.Kept = f.Kept && !f.Old.IsZero() && f.Old != f.New
			wanted = append(wanted, f)
		}
	}
	if !o.Prune || m.Name == "" {
		return wanted, nil, nil
	}

	gone, err = findGoneBranches(r, head, tracking)
	return wanted, gone, err
}

// findLocalRefs returns the refs here that a ref of a remote moves, by its full name. Their Kept
// is set if they stay when they have another value. Tracking is the prefix of
// remote-tracking branches. If a ref was asked for and moves nothing, it has no Local.
func (o *FetchOptions) findLocalRefs(name, tracking string, asked []registry.FetchRef) (list []FetchedRef) {
	branch, isBranch := strings.CutPrefix(name, refs.Heads)
	isTag := strings.HasPrefix(name, refs.Tags)
	switch {
	case isBranch && tracking != refs.Remotes+"/" && (o.Refs == nil || asked != nil):
		list = append(list, FetchedRef{Name: name, Local: tracking + branch})
	case isTag && (o.single && asked != nil || !o.single && !o.NoTags):
		list = append(list, FetchedRef{Name: name, Local: name, Kept: !o.Force})
	}
	for _, f := range asked {
		if f.Local != "" && !slices.ContainsFunc(list, func(l FetchedRef) bool { return l.Local == f.Local }) {
			list = append(list, FetchedRef{Name: name, Local: f.Local, Kept: !f.Force && strings.HasPrefix(f.Local, refs.Tags), move: !f.Force})
		}
	}
	if asked != nil && list == nil {
		list = append(list, FetchedRef{Name: name})
	}
	return list
}

// findAskedRefs returns the refs that the options name, by their full names on the remote. Their
// Local is full. A branch that HEAD is on here cannot be moved.
func findAskedRefs(r *kist.Repository, head *rootlog.State, m registry.Remote, o FetchOptions) (map[string][]registry.FetchRef, error) {
	at, err := r.Refs().Head()
	if err != nil {
		return nil, err
	}
	asked := map[string][]registry.FetchRef{}
	for _, f := range listSpecs(m, o) {
		name, local, err := f.Find(head.Refs, head.DefaultBranch)
		if err != nil {
			return nil, err
		}
		if at.Branch != "" && local == refs.Heads+at.Branch && !r.IsBare() {
			return nil, fmt.Errorf("%q: %w", at.Branch, commits.ErrCheckedOut)
		}
		f.Local, f.Force = local, f.Force || o.Force
		asked[name] = append(asked[name], f)
	}
	return asked, nil
}

// listSpecs returns the refs that a fetch names.
func listSpecs(m registry.Remote, o FetchOptions) []registry.FetchRef {
	if m.Name == "" && len(o.Refs) == 0 {
		return []registry.FetchRef{{Source: "HEAD"}}
	}
	return o.Refs
}

// findFetchHead returns the object for FETCH_HEAD: the first ref that a fetch names, or else the
// upstream of the current branch, if it is on this remote. It is zero if there is neither.
func findFetchHead(r *kist.Repository, head *rootlog.State, o FetchOptions) (object.ID, error) {
	m, err := registry.Resolve(r, o.Remote)
	if err != nil {
		return object.ID{}, err
	}
	if list := listSpecs(m, o); len(list) > 0 {
		name, _, err := list[0].Find(head.Refs, head.DefaultBranch)
		return head.Refs[name].ID, err
	}
	at, err := r.Refs().Head()
	if err != nil || at.Branch == "" {
		return object.ID{}, err
	}
	if u, err := kist.UpstreamOf(r, at.Branch); err == nil && !u.IsLocal() && u.Remote == m.Name {
		return head.Refs[u.Ref].ID, nil
	}
	return object.ID{}, nil
}

// Prune deletes the remote-tracking branches of a remote whose branch is gone there, and
// returns them. In a dry run, it only returns them.
func Prune(ctx context.Context, r *kist.Repository, name string, dryRun bool) ([]FetchedRef, error) {
	m, err := registry.Find(r, name)
	if err != nil {
		return nil, err
	}
	opened, err := registry.OpenSource(ctx, r, m)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	head, err := opened.Head(ctx)
	if err != nil {
		return nil, err
	}
	gone, err := findGoneBranches(r, head, refs.Remotes+m.Name+"/")
	if err != nil || dryRun || len(gone) == 0 {
		return gone, err
	}
	var changes []refs.Change
	for _, f := range gone {
		changes = append(changes, refs.Change{Name: f.Local, Old: f.Old, Reason: "remote: pruned"})
	}
	return gone, r.Publish(ctx, func(tx *kist.Tx) { tx.Move(changes...) })
}

// findGoneBranches returns the remote-tracking branches below tracking whose branch is gone.
func findGoneBranches(r *kist.Repository, head *rootlog.State, tracking string) (gone []FetchedRef, err error) {
	list, err := r.Refs().List(tracking)
	for _, ref := range list {
		name := refs.Heads + strings.TrimPrefix(ref.Name, tracking)
		if _, ok := head.Refs[name]; !ok && ref.Target == "" {
			gone = append(gone, FetchedRef{Name: name, Local: ref.Name, Old: ref.ID})
		}
	}
	return gone, err
}

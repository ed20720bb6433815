package gc

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/graph"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/history"
	"github.com/kist-vcs/kist/refs/intact"
	"github.com/kist-vcs/kist/remote/registry"
)

// Forks returns the commits where unpushed history leaves pushed history, with
// the names of the branches that leave there. A merge with commits that others
// have pushed needs the content of these commits.
//
// For each branch these are the merge bases with its upstream, and the parents
// of unpushed commits that some remote-tracking branch reaches. Forks skips
// commits that cannot be read.
func Forks(ctx context.Context, r *kist.Repository) (map[object.ID][]string, error) {
	pushed, err := r.Refs().List(refs.Remotes)
	if err != nil || len(pushed) == 0 {
		return nil, err
	}
	local, err := r.Refs().List(refs.Heads)
	if err != nil {
		return nil, err
	}
	head, err := r.Refs().Head()
	if err != nil {
		return nil, err
	}
	if head.Branch == "" {
		local = append(local, refs.Ref{Name: "HEAD", ID: head.ID})
	}
	tracked := map[object.ID]bool{}
	var tips []object.ID
	for _, ref := range pushed {
		tracked[ref.ID] = true
		tips = append(tips, ref.ID)
	}
	f := &forkFinder{r: r, found: map[object.ID][]string{}}
	for _, ref := range local {
		if tracked[ref.ID] {
			continue
		}
		name := "branch " + strings.TrimPrefix(ref.Name, refs.Heads)
		if ref.Name == "HEAD" {
			name = "HEAD"
		}
		if f.pushed == nil {
			f.pushed = map[object.ID]bool{}
			err := graph.Walk(ctx, f.pushed, tips, func(id object.ID) ([]object.ID, error) { return f.parents(ctx, id) })
			if err != nil {
				return nil, err
			}
		}
		if err := f.parts(ctx, name, ref.ID); err != nil {
			return nil, err
		}
		if err := f.upstream(ctx, name, ref); err != nil {
			return nil, err
		}
	}
	return f.found, nil
}

// forkFinder finds the commits where branches leave pushed history.
type forkFinder struct {
	r      *kist.Repository
	pushed map[object.ID]bool // commits reachable from remote-tracking branches
	found  map[object.ID][]string
}

func (f *forkFinder) add(id object.ID, name string) {
	why := fmt.Sprintf("where %s parts from what was pushed", name)
	for _, known := range f.found[id] {
		if known == why {
			return
		}
	}
	f.found[id] = append(f.found[id], why)
}

// parents returns the parents of a commit, none if it cannot be read.
func (f *forkFinder) parents(ctx context.Context, id object.ID) ([]object.ID, error) {
	c, err := object.ReadCommit(ctx, f.r.Objects(), id)
	if intact.IsAbsent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return c.Parents, nil
}

// parts adds the pushed parents of unpushed commits.
func (f *forkFinder) parts(ctx context.Context, name string, tip object.ID) error {
	if f.pushed[tip] {
		return nil
	}
	return graph.Walk(ctx, map[object.ID]bool{}, []object.ID{tip}, func(id object.ID) ([]object.ID, error) {
		if f.pushed[id] {
			f.add(id, name)
			return nil, nil
		}
		return f.parents(ctx, id)
	})
}

// upstream adds the merge bases of a branch and its upstream.
func (f *forkFinder) upstream(ctx context.Context, name string, ref refs.Ref) error {
	u, err := registry.UpstreamOf(f.r, strings.TrimPrefix(ref.Name, refs.Heads))
	if err != nil {
		return nil // the branch has no upstream
	}
	at, err := f.r.Refs().Get(u.Tracking())
	if errors.Is(err, refs.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	bases, err := history.MergeBases(ctx, f.r.Objects(), ref.ID, at)
	if intact.IsAbsent(err) {
		return nil
	}
	for _, id := range bases {
		f.add(id, name)
	}
	return err
}

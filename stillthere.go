package kist

import (
	"context"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/history"
)

// stillThere makes sure that commits are there with all that they refer to, now
// that they are to be named: they may have been removed as garbage since they were
// looked at, or brought by a fetch that was stopped before it had the rest, which
// is a [*GoneError]. It is called within publish. Zero IDs do not count.
func (r *Repository) stillThere(ctx context.Context, commits ...object.ID) error {
	var keys []object.Key
	unnamed := map[object.ID]bool{}
	for _, id := range commits {
		if !id.IsZero() {
			keys = append(keys, object.Key{Kind: object.KindCommit, ID: id})
			unnamed[id] = true
		}
	}
	gone, err := r.objects.Missing(ctx, keys)
	if err == nil && len(gone) > 0 {
		err = &volume.StaleError{Keys: gone}
	}
	if err != nil {
		return err
	}
	if head, err := r.refs.Head(); err == nil {
		delete(unnamed, head.ID) // as most often
	}
	if len(unnamed) == 0 {
		return nil
	}
	return r.whole(ctx, unnamed)
}

// whole makes sure that commits are there with all that they refer to. What a
// name or a log tells of is, with its ancestors: it was published. All else is
// looked at, but for what has expired. It changes the set.
func (r *Repository) whole(ctx context.Context, commits map[object.ID]bool) error {
	published, err := r.published(ctx, commits)
	if err != nil || len(commits) == 0 {
		return err
	}
	said, err := r.SaidToRead()
	if err != nil {
		return err
	}
	var starts []object.ID
	for id := range commits {
		starts = append(starts, id)
	}
	found := newInventory(r, said)
	unpublished := history.Options{Parents: func(c history.Commit, _ func(object.ID) bool) (parents []object.ID, err error) {
		for _, id := range c.Parents {
			if !published[id] {
				parents = append(parents, id)
			}
		}
		return parents, nil
	}}
	for c, err := range history.Walk(ctx, r.objects, starts, unpublished) {
		if err != nil {
			return err
		}
		if _, expired := said.Expired(c.ID); expired {
			continue
		}
		lacking, err := found.lacking(ctx, c.Commit)
		if err == nil && lacking > 0 {
			err = &GoneError{Commits: []Lacking{{c.ID, lacking}}}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// published removes from a set the commits that names and logs lead to. If some
// are left, it returns all that these lead to, as far as they can be read: damage
// elsewhere is no reason to stop.
func (r *Repository) published(ctx context.Context, commits map[object.ID]bool) (map[object.ID]bool, error) {
	names, _ := r.refs.Roots(ctx)
	for _, name := range names {
		delete(commits, name.ID)
	}
	reached := map[object.ID]bool{}
	if len(commits) == 0 {
		return reached, nil
	}
	tips := map[object.ID]bool{}
	for _, name := range names {
		if id, err := refs.Peel(ctx, r.objects, name.ID); err == nil {
			tips[id] = true
		}
	}
	var starts []object.ID
	for id := range tips {
		starts = append(starts, id)
	}
	for c, err := range history.Walk(ctx, r.objects, starts, history.Options{}) {
		if err != nil {
			break
		}
		reached[c.ID] = true
		if delete(commits, c.ID); len(commits) == 0 {
			break
		}
	}
	return reached, ctx.Err()
}

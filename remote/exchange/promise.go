package exchange

import (
	"context"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/history"
	"github.com/kist-vcs/kist/remote/exchange/registry"
	"github.com/kist-vcs/kist/remote/rootlog"
	"github.com/kist-vcs/kist/remote/transfer"
)

// promise is the promise that a fetch relies on: refs of a remote reach the fetched commits, so it keeps their content.
type promise struct {
	dir  string
	id   *rootlog.Identity
	head *rootlog.State
}

// newPromise returns the promise for a fetch into a lazy repository. It is nil if the fetch brings the content, too: from the folder of
// another repository, or from a URL, which cannot be asked later.
func newPromise(r *kist.Repository, opened transfer.Source, head *rootlog.State, o FetchOptions) (*promise, error) {
	if _, store := opened.(*transfer.Remote); !store || !r.Config().IsLazy() {
		return nil, nil
	}
	m, err := registry.Resolve(r, o.Remote)
	if err != nil || m.Name == "" {
		return nil, err
	}
	return &promise{registry.Dir(r, m.Name), opened.Identity(), head}, nil
}

// note adds the commits of the fetched refs to the promise, before the refs move. It leaves out the former commits of refs that are
// moved forward.
func (p *promise) note(ctx context.Context, f *fetching) error {
	var commits, older []object.ID
	for _, ref := range f.wanted {
		if ref.Kept {
			continue
		}
		id, err := refs.Peel(ctx, f.tx, ref.New)
		if err != nil {
			return err
		}
		commits = append(commits, id)
		if !ref.Forced && ref.Old != ref.New && !ref.Old.IsZero() {
			older = append(older, ref.Old)
		}
	}
	return transfer.AddPromise(ctx, p.dir, transfer.NewPromise(p.id.Remote, p.head.Seq, commits), older)
}

// lazyLocal is the store of a lazy repository for a push.
type lazyLocal struct {
	*volume.Store
	promised *kist.Promised
}

// IsAway implements [transfer.AwayKnower]. An object that nobody has promised is not away: it must be found to be sent.
func (l lazyLocal) IsAway(ctx context.Context, key object.Key) (bool, error) {
	if !volume.IsAbsent(l.Store, key) {
		return false, nil
	}
	return l.promised.Has(ctx, key)
}

// keepsPromise reports whether the refs of a remote at head reach all commits of its promise, and nothing away was promised by another
// remote alone. Then the remote keeps everything that is away here (AWAY_IS_CLOSED).
func keepsPromise(ctx context.Context, r *kist.Repository, name string, head *rootlog.State) (bool, error) {
	wanted := map[object.ID]bool{}
	for _, m := range registry.All(r) {
		p, err := transfer.ReadPromise(registry.Dir(r, m.Name))
		if err != nil {
			return false, nil // unknown
		}
		for _, id := range p.Commits() {
			wanted[id] = true
		}
	}
	if name == "" || len(wanted) == 0 {
		return false, nil
	}
	var starts []object.ID
	for _, key := range head.Refs {
		id, err := refs.Peel(ctx, r.Objects(), key.ID)
		switch {
		case err == nil:
			starts = append(starts, id)
		case !object.IsUnreadable(err):
			return false, err
		}
	}
	for _, id := range starts {
		delete(wanted, id)
	}
	if len(wanted) == 0 {
		return true, nil
	}
	for c, err := range history.Walk(ctx, r.Objects(), starts, history.Options{}) {
		if err != nil {
			return false, ctx.Err()
		}
		if delete(wanted, c.ID); len(wanted) == 0 {
			return true, nil
		}
	}
	return false, nil
}

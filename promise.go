package kist

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"slices"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/graph"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/remote/transfer"
)

// Promised knows which objects a lazy repository may lack, without a network: the objects to which the content of promised commits links,
// as far as that content is here (AWAY_IS_CLOSED). So damage is not taken for away: an object that only other commits need must be here.
type Promised struct {
	r    *Repository
	here volume.Here
	tips []object.ID
	away map[object.Key]struct{} // nil: not found yet
}

// NewPromised reads the promises of the remotes. It passes over damaged ones: then more objects must be here. A repository that is not lazy has
// none.
func NewPromised(r *Repository) (*Promised, error) {
	p := &Promised{r: r, here: volume.OnlyHere(r.objects)}
	if !r.config.IsLazy() {
		return p, nil
	}
	for name := range r.config.Remote {
		if CheckRemoteName(name) != nil {
			continue
		}
		promise, err := transfer.ReadPromise(filepath.Join(r.dir, "remotes", name))
		if err != nil && !errors.Is(err, transfer.ErrState) {
			return nil, err
		}
		p.tips = append(p.tips, promise.Commits()...)
	}
	return p, nil
}

// Has reports whether an object that is not here may be away. The first call reads the nodes of the promised commits that are here.
func (p *Promised) Has(ctx context.Context, key object.Key) (bool, error) {
	if len(p.tips) == 0 || !key.Kind.CanBeAway() {
		return false, nil
	}
	if p.away == nil {
		away, err := p.find(ctx)
		if err != nil {
			return false, err
		}
		p.away = away
	}
	_, ok := p.away[key]
	return ok, nil
}

// Any reports whether anything is promised.
func (p *Promised) Any() bool { return len(p.tips) > 0 }

// All returns the objects that are away, as far as content that is here links to them.
func (p *Promised) All(ctx context.Context) ([]object.Key, error) {
	if _, err := p.Has(ctx, object.Key{Kind: object.KindTree}); err != nil {
		return nil, err
	}
	return slices.Collect(maps.Keys(p.away)), nil
}

// find finds the objects that are away. It passes over damaged nodes.
func (p *Promised) find(ctx context.Context) (map[object.Key]struct{}, error) {
	away, seen := map[object.Key]struct{}{}, map[object.Key]bool{}
	var starts []object.Key
	for _, id := range p.tips {
		starts = append(starts, object.Key{Kind: object.KindCommit, ID: id})
	}
	err := graph.Walk(ctx, seen, starts, func(key object.Key) ([]object.Key, error) {
		links, err := graph.Links(ctx, p.here, key)
		switch {
		case object.IsAway(err), object.IsUnreadable(err), errors.Is(err, object.ErrNewerFormat):
			return nil, nil
		case err != nil:
			return nil, err
		}
		absent, err := volume.Absent(p.r.objects, links)
		for _, link := range absent {
			if link.Kind.CanBeAway() {
				away[link] = struct{}{}
			}
		}
		return slices.DeleteFunc(links, func(link object.Key) bool { return !link.Kind.IsNode() }), err
	})
	return away, err
}

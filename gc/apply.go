package gc

import (
	"context"
	"errors"
	"slices"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/graph"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/tree"
)

// Apply removes the garbage that the plan lists, except objects that came into
// use since. It can be stopped at any moment: the next collection completes its
// work. It may be called once.
func (p *Plan) Apply(ctx context.Context) error {
	if err := p.before(ctx); err != nil {
		return err
	}
	if _, err := p.sweep.EmptyTrash(ctx); err != nil {
		return err
	}

	var done, total int64
	for _, g := range p.removed {
		for _, i := range g.volumes {
			total += p.marker.use[i].stored
		}
	}
	copied := func(n int64) {
		if done += n; p.o.Progress != nil {
			p.o.Progress(done, max(done, total))
		}
	}

	p.stats.Removed, p.stats.Rewritten, p.stats.Deleted = 0, 0, 0
	p.stats.Optimised, p.stats.OptimisedBytes = 0, 0
	for _, g := range p.removed {
		if len(g.volumes) == 0 {
			continue
		}
		if err := p.remove(ctx, g, copied); err != nil {
			return err
		}
	}

	p.stats.Live, p.stats.After = 0, 0
	left, err := p.sweep.Leftovers(ctx)
	if err != nil {
		return err
	}
	for _, l := range left {
		p.stats.After += l.Bytes
	}
	if err := p.marker.refresh(ctx); err != nil {
		return err
	}
	for i := range p.marker.use {
		u := &p.marker.use[i]
		if p.sweep.Volume(i).Gone {
			continue
		}
		p.stats.After += u.Bytes
		if !u.stays && !u.holds {
			continue
		}
		unmarked, err := p.unmarked(i)
		if err != nil {
			return err
		}
		p.stats.Live += unmarked
	}
	p.stats.Live += p.marker.kept

	if p.o.After != nil {
		return p.o.After(ctx)
	}
	return nil
}

// unmarked returns the number of objects of volume i without a mark.
func (p *Plan) unmarked(i int) (n int64, err error) {
	if i < p.stats.Volumes {
		return p.spared(i), nil
	}
	for kind := object.KindChunk; kind.Valid(); kind++ {
		for rec, err := range p.sweep.Keys(i, kind) {
			kept := false
			if err == nil { // a copied object is marked at its source, not here
				kept, err = p.marker.keeps(rec.Key)
			}
			if err != nil {
				return n, &NeededError{Err: err}
			}
			if !kept {
				n++
			}
		}
	}
	return n, nil
}

func (p *Plan) before(ctx context.Context) error {
	if p.o.Before == nil {
		return nil
	}
	return p.o.Before(ctx)
}

// remove removes the volumes of g, after it has copied their live objects.
func (p *Plan) remove(ctx context.Context, g group, copied func(int64)) error {
	m := p.marker
	marked := make([]int, len(g.volumes))
	some := false
	for k, i := range g.volumes {
		marked[k] = m.use[i].marked
		some = some || marked[k] > 0
	}
	if some {
		written, err := p.store(ctx, g, copied)
		p.stats.Written += written
		if err != nil {
			return err
		}
	}

	// Mark most of the changes before the sweep makes other processes wait.
	if err := m.update(ctx, p.needs); err != nil {
		return err
	}

	return p.sweep.Remove(ctx, func(ctx context.Context) (volume.Removal, error) {
		var r volume.Removal
		if err := p.before(ctx); err != nil {
			return r, err
		}
		if err := m.update(ctx, p.needs); err != nil {
			return r, err
		}
		for k, i := range g.volumes {
			u := &m.use[i]
			if u.marked != marked[k] {
				continue // one of its objects came into use since
			}
			r.Volumes = append(r.Volumes, i)
			if !u.stays {
				p.stats.Removed += int64(u.Objects - u.marked)
			}
			switch {
			case g.optimise:
				p.stats.Optimised++
				p.stats.OptimisedBytes += u.Bytes
			case u.marked > 0:
				p.stats.Rewritten++
			default:
				p.stats.Deleted++
			}
		}
		var err error
		r.Drop, err = p.drop()
		return r, err
	})
}

// drop returns the garbage commits and tags in existing volumes, by volume. The
// objects that they refer to may be removed. No commit or tag may remain without
// them, even if the process stops when only some of the volumes are gone.
func (p *Plan) drop() (map[int][]object.Key, error) {
	drop := map[int][]object.Key{}
	for i := range p.marker.use {
		u := &p.marker.use[i]
		if u.stays || p.sweep.Volume(i).Gone {
			continue
		}
		for _, kind := range []object.Kind{object.KindCommit, object.KindTag} {
			for rec, err := range p.sweep.Keys(i, kind) {
				if err != nil {
					return nil, &NeededError{Err: err}
				}
				if u.has(rec.Index) {
					continue
				}
				// A copied object is marked at its source, not here.
				kept, err := p.marker.keeps(rec.Key)
				if err != nil {
					return nil, err
				}
				if !kept {
					drop[i] = append(drop[i], rec.Key)
				}
			}
		}
	}
	return drop, nil
}

// maxAffected is the most commits, and the most paths, that a [Problem] names.
const maxAffected = 100

// Affected adds to each problem the commits and paths that it affects. It looks
// at all commits reachable from tips, and reads objects from r. It skips all
// objects below a damaged or missing one.
func Affected(ctx context.Context, r object.Reader, records *record.View, tips []object.Key, problems []*Problem) error {
	a := &affected{objects: r, records: records, bad: map[object.Key]*Problem{}, needs: map[object.Key]bool{}}
	for _, p := range problems {
		if !p.Key.IsZero() && a.bad[p.Key] == nil {
			a.bad[p.Key] = p
		}
	}

	if len(a.bad) == 0 {
		return nil
	}
	return graph.Walk(ctx, map[object.Key]bool{}, tips, func(key object.Key) ([]object.Key, error) {
		links, err := graph.Links(ctx, r, key)
		if key.Kind == object.KindCommit && !aborts(ctx, err) {
			err = a.commit(ctx, key.ID)
		}
		if aborts(ctx, err) {
			return nil, err
		}
		return slices.DeleteFunc(links, func(link object.Key) bool { return link.Kind != object.KindCommit }), nil
	})
}

// affected finds the commits and paths that refer to damaged or missing
// objects.
type affected struct {
	objects object.Reader
	records *record.View
	bad     map[object.Key]*Problem
	needs   map[object.Key]bool // results of need, by node
}

// commit adds a commit and its paths to the problems that affect it.
func (a *affected) commit(ctx context.Context, id object.ID) error {
	key := object.Key{Kind: object.KindCommit, ID: id}
	if p := a.bad[key]; p != nil {
		p.affects(id, "")
		return nil
	}
	c, err := object.ReadCommit(ctx, a.objects, id)
	if err != nil {
		return err
	}
	if _, expired := a.records.Expired(id); expired {
		return nil
	}
	if !c.SkippedRest.IsZero() {
		if p := a.bad[object.Key{Kind: object.KindChunk, ID: c.SkippedRest}]; p != nil {
			p.affects(id, "")
		}
	}
	into := func(path string, node object.ID) (bool, error) {
		key := object.Key{Kind: object.KindTree, ID: node}
		if p := a.bad[key]; p != nil {
			p.affects(id, path)
			return false, nil
		}
		return a.need(ctx, key)
	}
	err = tree.WalkInto(ctx, a.objects, c.Tree, into, func(path string, e object.Entry) error {
		if e.Type == object.TypeDir || e.Content.IsZero() {
			return nil
		}
		return a.content(ctx, id, e.Content, path)
	})
	if errors.Is(err, tree.ErrTooMany) || errors.Is(err, tree.ErrTooDeep) {
		return nil // report only the paths found so far
	}
	return err
}

// content adds the file at path to the problems that affect its content.
func (a *affected) content(ctx context.Context, commit object.ID, content object.Key, path string) error {
	return graph.Walk(ctx, map[object.Key]bool{}, []object.Key{content}, func(key object.Key) ([]object.Key, error) {
		if p := a.bad[key]; p != nil {
			p.affects(commit, path)
			return nil, nil
		}
		if need, err := a.need(ctx, key); err != nil || !need {
			return nil, err
		}
		return graph.Links(ctx, a.objects, key)
	})
}

// need reports whether an object is bad or refers to a bad one.
func (a *affected) need(ctx context.Context, key object.Key) (bool, error) {
	if !key.Kind.IsNode() {
		return a.bad[key] != nil, nil
	}
	return graph.Fold(ctx, a.needs, key, func(key object.Key) (links, nodes []object.Key, err error) {
		if a.bad[key] == nil {
			links, err = graph.Links(ctx, a.objects, key)
		}
		links = slices.DeleteFunc(links, func(link object.Key) bool { return a.records.Skips(key, link) })
		for _, link := range links {
			if link.Kind.IsNode() {
				nodes = append(nodes, link)
			}
		}
		return links, nodes, err
	}, func(key object.Key, links []object.Key) (bool, error) {
		return a.bad[key] != nil || slices.ContainsFunc(links, func(link object.Key) bool { return a.bad[link] != nil || a.needs[link] }), nil
	})
}

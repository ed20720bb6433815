package gc

import (
	"context"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
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

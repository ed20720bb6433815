package gc

import (
	"cmp"
	"context"
	"slices"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
)

const (
	// minGain is the part of a volume's stored bytes that must be compressed
	// data for it to be worth optimising: of media nothing is to be gained.
	minGain = 0.25

	// An optimised volume is stored anew together with what is new if it is at
	// most this large, or this many times as large as that is: so what is new can
	// be stored as the difference from what it has, and a large repository is not
	// written anew for a few files.
	alwaysAgain = 64 << 20
	againRatio  = 8
)

// optimisable returns the numbers of the volumes that are worth being optimised,
// and those that are optimised already but are to be so once more, together with
// them. It is none if all is optimised, or if there is less to optimise than
// [PlanOptions.MinOptimise].
func (p *Plan) optimisable(ctx context.Context, except map[int]bool) (volumes []int, err error) {
	var total int64
	var again []int
	for i := range p.marker.use {
		u := &p.marker.use[i]
		if u.InUse || u.marked == 0 || except[i] || p.o.Idle && u.stays {
			continue
		}
		if u.Optimised {
			again = append(again, i)
			continue
		}
		gain, err := p.compressed(ctx, i)
		if err != nil {
			return nil, err
		}
		if gain > 0 && float64(gain) >= minGain*float64(u.stored) {
			volumes = append(volumes, i)
			total += gain
		}
	}
	if len(volumes) == 0 || total < p.o.MinOptimise {
		return nil, nil
	}
	slices.SortFunc(again, func(i, j int) int { return cmp.Compare(p.marker.use[i].stored, p.marker.use[j].stored) })
	for _, i := range again {
		stored := p.marker.use[i].stored
		if stored > max(alwaysAgain, againRatio*total) {
			break
		}
		volumes = append(volumes, i)
		total += stored
	}
	slices.Sort(volumes)
	return volumes, nil
}

// compressed returns how many stored bytes of volume i are compressed data that
// roots need, or other nodes.
func (p *Plan) compressed(ctx context.Context, i int) (stored int64, err error) {
	for kind := object.KindChunk; kind.Valid(); kind++ {
		for rec, err := range p.sweep.Keys(i, kind) {
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				return 0, err
			}
			if p.optimises(i, rec.Index) && (rec.Stored < rec.Raw || kind.IsNode()) {
				stored += int64(rec.Stored)
			}
		}
	}
	return stored, nil
}

// optimises reports whether an object is to be in an optimised volume, if its
// volume is. What is young and needed by no root is not: it is stored apart, so
// that it is young no longer than it would have been.
func (p *Plan) optimises(i, index int) bool {
	u := &p.marker.use[i]
	if u.stays {
		return u.needed.Has(index)
	}
	return u.has(index)
}

// store stores what is to be kept of a group of volumes anew. All of them are to
// go: no copy in one of them counts as being elsewhere, whichever pass stores it.
func (p *Plan) store(ctx context.Context, g group, copied func(int64)) (written int, err error) {
	if !g.optimise {
		return p.rewrite(ctx, g.volumes, copied)
	}
	if slices.ContainsFunc(g.volumes, func(i int) bool { return p.marker.use[i].stays }) {
		apart := func(at volume.Place) bool { return p.marker.use[at.Volume].stays && !p.optimises(at.Volume, at.Index) }
		if written, err = p.sweep.Rewrite(ctx, g.volumes, apart, copied); err != nil {
			return written, err
		}
	}
	needed, err := p.needs(ctx)
	if err != nil {
		return written, err
	}
	order, err := p.marker.order(ctx, needed.Roots, g.volumes)
	if err != nil {
		return written, err
	}
	did, err := p.sweep.Optimise(ctx, g.volumes, volume.OptimiseOptions{
		Keep:     func(at volume.Place) bool { return p.optimises(at.Volume, at.Index) },
		Order:    order,
		Progress: copied,
	})
	p.stats.Patches += did.Patches
	return written + did.Written, err
}

// relies reports whether a copy of an object may be relied on: this collection
// does not remove it, or stores it anew before that. A volume that appeared while
// things were marked has copies that are not.
func (p *Plan) relies(at volume.Place) bool {
	if at.Volume >= p.stats.Volumes {
		return true // it came after what is to go was chosen
	}
	u := &p.marker.use[at.Volume]
	return u.stays || u.has(at.Index)
}

// rewrite stores anew what is needed of volumes. What was optimised is again, as
// it lies: patches of objects that go become patches of others.
func (p *Plan) rewrite(ctx context.Context, volumes []int, copied func(int64)) (written int, err error) {
	optimised := func(i int) bool { return p.marker.use[i].Optimised }
	keep := func(which bool) func(volume.Place) bool {
		return func(at volume.Place) bool {
			return optimised(at.Volume) == which && p.marker.use[at.Volume].has(at.Index)
		}
	}
	if slices.ContainsFunc(volumes, optimised) {
		did, err := p.sweep.Optimise(ctx, volumes, volume.OptimiseOptions{Keep: keep(true), Progress: copied})
		if written = did.Written; err != nil {
			return written, err
		}
	}
	if slices.ContainsFunc(volumes, func(i int) bool { return !optimised(i) }) {
		n, err := p.sweep.Rewrite(ctx, volumes, keep(false), copied)
		return written + n, err
	}
	return written, nil
}

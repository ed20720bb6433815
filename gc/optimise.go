package gc

import (
	"cmp"
	"context"
	"iter"
	"slices"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/keys"
	"github.com/kist-vcs/kist/object/optimise"
	"github.com/kist-vcs/kist/object/volume"
)

const (
	// minGain is the least share of compressed data, in a volume's stored
	// bytes, that makes optimising worthwhile. Media files do not get smaller.
	minGain = 0.25

	// An optimised volume is optimised again, together with new objects, if it
	// has at most alwaysAgain bytes, or at most againRatio times as many as
	// they have. So new objects can become patches on its objects, and a large
	// repository is not rewritten for a few files.
	alwaysAgain = 64 << 20
	againRatio  = 8
)

// optimisable returns the volumes that are worth optimising, with those
// optimised volumes that are optimised again with them. It returns none if
// there is less to optimise than [PlanOptions.MinOptimise].
func (p *Plan) optimisable(ctx context.Context, except map[int]bool) (volumes []int, err error) {
	var total int64
	var again []int
	for i := range p.marker.use {
		u := &p.marker.use[i]
		if u.InUse || u.Evicted || u.marked == 0 || except[i] || p.o.Idle && u.stays {
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

// compressed returns how many bytes of volume i are compressed values that
// would go into an optimised volume.
func (p *Plan) compressed(ctx context.Context, i int) (stored int64, err error) {
	for rec, err := range objectsFrom(ctx, &p.sweep.Inventory, i, object.KindChunk) {
		if err != nil {
			return 0, err
		}
		if p.optimises(i, rec.Index) && (rec.Stored < rec.Raw || rec.Key.Kind.IsNode()) {
			stored += int64(rec.Stored)
		}
	}
	return stored, nil
}

// optimises reports whether an object is stored in the optimised volume if its
// own volume is optimised. Young objects that no root reaches do not: they are
// stored apart, so that they do not stay young longer.
func (p *Plan) optimises(i, index int) bool {
	u := &p.marker.use[i]
	if u.stays {
		return u.needed.Has(index)
	}
	return u.isMarked(index)
}

// storeLive copies the live objects of a group to new volumes. All volumes of the
// group will be removed, so a copy in one of them never counts as a copy
// elsewhere.
func (p *Plan) storeLive(ctx context.Context, g volumeGroup, copied func(int64)) (written int, err error) {
	if !g.optimise {
		return p.rewriteVolumes(ctx, g.volumes, copied)
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
	order, err := p.marker.storageOrder(ctx, needed.Roots, g.volumes)
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

// mayBeOnly reports whether a copy of an object is sure to remain: this
// collection keeps it, or copies it before it removes the volume. Objects of a
// volume that appeared during the collection have no marks.
func (p *Plan) mayBeOnly(at volume.Place) bool {
	if at.Volume >= p.stats.Volumes {
		return true // the volume appeared after choose, so it stays
	}
	u := &p.marker.use[at.Volume]
	return u.stays || u.isMarked(at.Index)
}

// rewriteVolumes copies the live objects of volumes to new volumes. Optimised volumes
// are optimised again in their present order, because patches on removed bases
// need other bases.
func (p *Plan) rewriteVolumes(ctx context.Context, volumes []int, copied func(int64)) (written int, err error) {
	optimised := func(i int) bool { return p.marker.use[i].Optimised }
	keep := func(which bool) func(volume.Place) bool {
		return func(at volume.Place) bool {
			return optimised(at.Volume) == which && p.marker.use[at.Volume].isMarked(at.Index)
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

// storageOrder returns the places of the live objects in volumes, in the order in which
// they will be stored.
func (m *marker) storageOrder(ctx context.Context, roots []Root, volumes []int) (iter.Seq2[int, int], error) {
	wanted := map[int]bool{}
	for _, i := range volumes {
		wanted[i] = true
	}

	var seen []keys.Set // by number of the volume
	for i := range m.inventory.Len() {
		seen = append(seen, keys.NewSet(m.inventory.Volume(i).Objects))
	}

	top := make([]object.Key, len(roots))
	for i, r := range roots {
		top[i] = r.Key
	}

	places, err := optimise.Order(ctx, top, optimise.OrderOptions{
		Nodes: m.objects,
		Skips: m.records.Skips,
		Meet: func(key object.Key) (uint64, bool, bool) {
			places, err := m.findCopies(key)
			if err != nil || len(places) == 0 || slices.ContainsFunc(places, func(p volume.Place) bool { return seen[p.Volume].Has(p.Index) }) {
				return 0, false, false
			}
			for _, p := range places {
				seen[p.Volume].Add(p.Index)
			}
			i := slices.IndexFunc(places, func(p volume.Place) bool { return wanted[p.Volume] })
			if i < 0 {
				return 0, false, true
			}
			return uint64(places[i].Volume)<<32 | uint64(places[i].Index), true, true
		},
	})
	if err != nil {
		return nil, err
	}
	return func(yield func(int, int) bool) {
		for at := range places {
			if !yield(int(at>>32), int(uint32(at))) {
				return
			}
		}
	}, nil
}

package gc

import (
	"cmp"
	"context"
	"iter"
	"slices"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/keys"
	"github.com/kist-vcs/kist/object/repack"
	"github.com/kist-vcs/kist/object/volume"
)

const (
	// minRepackableShare is the least share of compressed data, in a volume's stored
	// bytes, that makes repacking worthwhile. Media files do not get smaller.
	minRepackableShare = 0.25

	// A repacked volume is repacked again, together with new objects, if it
	// has at most repackAgainBytes bytes, or at most repackAgainRatio times as many as
	// they have. So new objects can become patches on its objects, and a large
	// repository is not rewritten for a few files.
	repackAgainBytes = 64 << 20
	repackAgainRatio = 8
)

// volumesToRepack returns the volumes that are worth repacking, with those
// repacked volumes that are repacked again with them. It returns none if
// there is less to repack than [PlanOptions.MinRepack].
func (p *Plan) volumesToRepack(ctx context.Context, except map[int]bool) (volumes []int, err error) {
	var total int64
	var again []int
	for i := range p.live.volumes {
		u := &p.live.volumes[i]
		if u.InUse || u.Evicted || u.liveCount == 0 || except[i] || p.options.Idle && u.mustStay {
			continue
		}
		if u.Repacked {
			again = append(again, i)
			continue
		}
		gain, err := p.compressedBytes(ctx, i)
		if err != nil {
			return nil, err
		}
		if gain > 0 && float64(gain) >= minRepackableShare*float64(u.liveBytes) {
			volumes = append(volumes, i)
			total += gain
		}
	}

	if len(volumes) == 0 || total < p.options.MinRepack {
		return nil, nil
	}
	slices.SortFunc(again, func(i, j int) int { return cmp.Compare(p.live.volumes[i].liveBytes, p.live.volumes[j].liveBytes) })
	for _, i := range again {
		stored := p.live.volumes[i].liveBytes
		if stored > max(repackAgainBytes, repackAgainRatio*total) {
			break
		}
		volumes = append(volumes, i)
		total += stored
	}

	slices.Sort(volumes)
	return volumes, nil
}

// compressedBytes returns how many bytes of volume i are compressed values that
// would go into a repacked volume.
func (p *Plan) compressedBytes(ctx context.Context, i int) (stored int64, err error) {
	for rec, err := range objectsFrom(ctx, &p.sweep.Inventory, i, object.KindChunk) {
		if err != nil {
			return 0, err
		}
		if p.goesIntoRepacked(i, rec.Index) && (rec.Stored < rec.Raw || rec.Key.Kind.IsNode()) {
			stored += int64(rec.Stored)
		}
	}
	return stored, nil
}

// goesIntoRepacked reports whether an object is stored in the repacked volume if its
// own volume is repacked. Young objects that no root reaches are stored apart, so that they do
// not stay young longer.
func (p *Plan) goesIntoRepacked(i, index int) bool {
	u := &p.live.volumes[i]
	if u.mustStay {
		return u.reachable.Has(index)
	}
	return u.isLive(index)
}

// copyLive copies the live objects of a group to new volumes. All volumes of the
// group will be removed, so a copy in one of them never counts as a copy
// elsewhere.
func (p *Plan) copyLive(ctx context.Context, g volumeGroup, copied func(int64)) (written int, err error) {
	if !g.repack {
		return p.rewriteVolumes(ctx, g.volumes, copied)
	}
	if slices.ContainsFunc(g.volumes, func(i int) bool { return p.live.volumes[i].mustStay }) {
		apart := func(at volume.Place) bool {
			return p.live.volumes[at.Volume].mustStay && !p.goesIntoRepacked(at.Volume, at.Index)
		}
		if written, err = p.sweep.Rewrite(ctx, g.volumes, apart, copied); err != nil {
			return written, err
		}
	}
	needed, err := p.needs(ctx)
	if err != nil {
		return written, err
	}
	order, err := p.live.storageOrder(ctx, needed.Roots, g.volumes)
	if err != nil {
		return written, err
	}
	did, err := p.sweep.Repack(ctx, g.volumes, volume.RepackOptions{
		Keep:     func(at volume.Place) bool { return p.goesIntoRepacked(at.Volume, at.Index) },
		Order:    order,
		Progress: copied,
	})
	p.stats.Patches += did.Patches
	return written + did.Written, err
}

// mayBeOnly reports whether a copy of an object is sure to remain: this
// collection keeps it, or copies it before it removes the volume. Objects of a
// volume that appeared during the collection are not in the sets of p.live.
func (p *Plan) mayBeOnly(at volume.Place) bool {
	if at.Volume >= p.stats.Volumes {
		return true // the volume appeared after chooseVolumes, so it stays
	}
	u := &p.live.volumes[at.Volume]
	return u.mustStay || u.isLive(at.Index)
}

// rewriteVolumes copies the live objects of volumes to new volumes. Repacked volumes
// are repacked again in their present order, because patches on removed bases
// need other bases.
func (p *Plan) rewriteVolumes(ctx context.Context, volumes []int, copied func(int64)) (written int, err error) {
	isRepacked := func(i int) bool { return p.live.volumes[i].Repacked }
	keepIf := func(which bool) func(volume.Place) bool {
		return func(at volume.Place) bool {
			return isRepacked(at.Volume) == which && p.live.volumes[at.Volume].isLive(at.Index)
		}
	}

	if slices.ContainsFunc(volumes, isRepacked) {
		did, err := p.sweep.Repack(ctx, volumes, volume.RepackOptions{Keep: keepIf(true), Progress: copied})
		if written = did.Written; err != nil {
			return written, err
		}
	}
	if slices.ContainsFunc(volumes, func(i int) bool { return !isRepacked(i) }) {
		n, err := p.sweep.Rewrite(ctx, volumes, keepIf(false), copied)
		return written + n, err
	}
	return written, nil
}

// storageOrder yields the places of the live objects in volumes, in the order in which they will be
// stored: the number of the volume, and the index of the object in it.
func (f *liveFinder) storageOrder(ctx context.Context, roots []Root, volumes []int) (iter.Seq2[int, int], error) {
	wanted := map[int]bool{}
	for _, i := range volumes {
		wanted[i] = true
	}

	var seen []keys.Set // by number of the volume
	for i := range f.inventory.Len() {
		seen = append(seen, keys.NewSet(f.inventory.Volume(i).Objects))
	}

	top := make([]object.Key, len(roots))
	for i, r := range roots {
		top[i] = r.Key
	}

	places, err := repack.Order(ctx, top, repack.OrderOptions{
		Nodes: f.objects,
		Skips: f.records.Skips,
		Meet: func(key object.Key) (uint64, bool, bool) {
			places, err := f.findCopies(key)
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

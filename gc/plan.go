package gc

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/keys"
	"github.com/kist-vcs/kist/object/trace"
	"github.com/kist-vcs/kist/object/volume"
)

// The defaults of a collection.
const (
	DefaultPruneOlder = 14 * 24 * time.Hour
	DefaultMaxWaste   = 0.05
)

// DefaultPlan are the options of a collection that nobody configured.
var DefaultPlan = PlanOptions{PruneOlder: DefaultPruneOlder, MaxWaste: DefaultMaxWaste}

// PlanOptions configure [NewPlan].
type PlanOptions struct {
	// PruneOlder is the least age of volumes to collect. Younger volumes stay,
	// and so does everything reachable from their nodes. They may belong to a
	// command that is running, or that was stopped and will be repeated. 0
	// means any age.
	PruneOlder time.Duration

	// MaxWaste is the share of garbage, from 0 to 1, that may remain. Volumes
	// are rewritten, those with the largest share of garbage first, until no
	// more remains.
	MaxWaste float64

	// Repack stores similar objects as patches, in volumes that are not
	// repacked yet. Volumes of media files are left out.
	Repack bool

	// Idle excludes young volumes from repacking, see PruneOlder.
	Idle bool

	// MinRepack is the least amount of compressed data, in stored bytes,
	// that is repacked. With less, no volume is.
	MinRepack int64

	Now        time.Time // the present time
	SingleHost bool      // see [volume.MaintainOptions]
	DryRun     bool      // the plan will not be applied, and nothing changes

	// Apply calls Before, if not nil, each time before it removes volumes. Before
	// carries out the changes that Needs counts as done. For example, it removes
	// the expired log entries that keep nothing alive.
	Before func(context.Context) error

	// After, if not nil, is called by Apply at the end, under the maintenance lock.
	After func(context.Context) error

	// Progress, if not nil, receives the number of bytes copied by Apply so
	// far, and the total.
	Progress func(done, total int64)
}

// Stats are the effects of a plan: expected, or real after Apply.
type Stats struct {
	Live      int64 `json:"objects_live" doc:"the number of objects that are live or too young"`
	Removed   int64 `json:"objects_removed" doc:"the number of removed objects"`
	Volumes   int   `json:"-"` // volumes before
	Salvaged  int   `json:"salvaged" doc:"the number of interrupted writes that were recovered"`
	Rewritten int   `json:"rewritten" doc:"the number of volumes that copies of their live objects replaced"`
	Written   int   `json:"written" doc:"the number of new volumes, without --dry-run"`
	Deleted   int   `json:"deleted" doc:"the number of volumes without live objects"`

	Repacked      int   `json:"repacked" doc:"the number of volumes that were stored as small as possible"`
	RepackedBytes int64 `json:"bytes_repacked" doc:"the size of these volumes before"`
	Patches       int64 `json:"patches" doc:"the number of objects stored as differences, without --dry-run"`

	// Bytes of all files of volumes, including trash and interrupted writes.
	// Before Apply, After does not include the gain of repacking.
	Before int64 `json:"bytes_before" doc:"the size of all volumes before"`
	After  int64 `json:"bytes_after" doc:"the size of all volumes afterwards"`
}

// Plan is a planned garbage collection. It holds the maintenance lock: no
// other process can collect garbage until it is closed.
type Plan struct {
	options  PlanOptions
	needs    Needs
	sweep    *volume.Sweep
	live     *liveFinder
	stats    Stats
	toRemove []volumeGroup
	toThin   []int // evicted volumes with records of purged objects
}

// volumeGroup is a list of volumes, by number, that are removed together.
type volumeGroup struct {
	volumes []int
	repack  bool
}

// NewPlan finds the live objects of a store and chooses the volumes to remove.
// The error is [disk.ErrBusy] if another process collects garbage or maintains
// the store. It is a [*NeededError] if a live object is missing or damaged.
// The caller closes the plan.
func NewPlan(ctx context.Context, store *volume.Store, needs Needs, o PlanOptions) (*Plan, error) {
	if o.Before == nil {
		o.Before = func(context.Context) error { return nil }
	}
	sweep, err := store.Sweep(ctx, volume.SweepOptions{
		MaintainOptions: volume.MaintainOptions{SingleHost: o.SingleHost}, DryRun: o.DryRun,
	})
	if err != nil {
		if _, damaged := err.(*object.DamageError); damaged {
			err = &NeededError{Err: err}
		}
		return nil, err
	}
	p := &Plan{options: o, needs: needs, sweep: sweep}
	p.live = &liveFinder{inventory: &sweep.Inventory, objects: store, skipped: map[link]bool{}, young: func(v volume.Listed) bool { return p.isYoung(v.Created) }}
	sweep.MayBeOnly = p.mayBeOnly
	end := trace.From(ctx).Begin("find live objects")
	err = p.live.update(ctx, needs)
	end(err)
	if err != nil {
		sweep.Close()
		return nil, err
	}
	if err := p.chooseVolumes(ctx); err != nil {
		sweep.Close()
		return nil, err
	}
	return p, nil
}

// Close ends the plan.
func (p *Plan) Close() { p.sweep.Close() }

// Stats returns the expected effects of the plan, or after Apply the real ones.
func (p *Plan) Stats() Stats { return p.stats }

// chooseVolumes selects the volumes to remove and fills in the statistics.
func (p *Plan) chooseVolumes(ctx context.Context) error {
	trash, err := p.sweep.TrashSize()
	if err != nil {
		return err
	}
	purged, err := p.live.findPurged(ctx)
	if err != nil {
		return err
	}
	toRepack := map[int]bool{}
	if p.options.Repack {
		list, err := p.volumesToRepack(ctx, purged.withObjects)
		if err != nil {
			return err
		}
		for _, i := range list {
			toRepack[i] = true
		}
	}
	st := &p.stats
	st.Salvaged = p.sweep.Salvaged
	st.Before = trash
	st.Live = p.live.liveCount
	var after, waste int64
	if after, err = p.countLeftovers(ctx); err != nil {
		return err
	}
	var toRewrite []int // volumes with live objects and garbage
	var toDelete []int  // volumes without live objects
	var repacked []int
	for i := range p.live.volumes {
		u := &p.live.volumes[i]
		st.Volumes++
		st.Before += u.Bytes
		after += u.Bytes
		if toRepack[i] {
			repacked = append(repacked, i)
			st.RepackedBytes += u.Bytes
			after -= u.wasteSize()
		}
		switch {
		case p.canThin(i, purged):
			p.toThin = append(p.toThin, i)
			st.Removed += int64(u.Objects - u.liveCount)
		case u.mustStay || u.Evicted && u.liveCount > 0 || purged.mustWait && purged.withNodes[i]:
			st.Live += p.countUnreachable(i)
			u.mustWait = !u.mustStay
		case toRepack[i]:
			st.Removed += int64(u.Objects - u.liveCount)
		case u.liveCount == 0:
			toDelete = append(toDelete, i)
			after -= u.Bytes
			st.Removed += int64(u.Objects)
		default:
			toRewrite = append(toRewrite, i)
			waste += u.wasteSize()
		}
	}

	count := p.sortForRewrite(toRewrite, purged, &after, waste)
	for _, i := range toRewrite[:count] {
		u := &p.live.volumes[i]
		st.Removed += int64(u.Objects - u.liveCount)
	}

	st.After, st.Rewritten, st.Deleted, st.Repacked = after, count, len(toDelete), len(repacked)
	// Remove the purged nodes last: if the collection stops early, they still
	// lead to the other purged objects.
	toRewrite, someLast := splitList(toRewrite[:count], purged.withNodes)
	toDelete, noneLast := splitList(toDelete, purged.withNodes)
	p.toRemove = slices.Concat([]volumeGroup{{volumes: toDelete}}, p.groupVolumes(toRewrite, false), p.groupVolumes(repacked, true),
		p.groupVolumes(someLast, false), []volumeGroup{{volumes: noneLast}})
	return nil
}

// countLeftovers adds to the statistics the volumes of dead writers that this plan
// has not salvaged. In a dry run, none is salvaged. It returns how many of their
// bytes stay.
func (p *Plan) countLeftovers(ctx context.Context) (stay int64, err error) {
	list, err := p.sweep.Leftovers(ctx)
	for _, l := range list {
		p.stats.Before += l.Bytes
		switch {
		case !p.options.DryRun:
			stay += l.Bytes
		case p.isYoung(l.Written):
			stay += l.Sealed
			p.stats.Live += l.Objects
		default:
			p.stats.Removed += l.Objects
		}
	}

	if p.options.DryRun {
		p.stats.Salvaged = len(list)
	}
	return stay, err
}

// isYoung reports whether objects stored at t are too young to be removed.
func (p *Plan) isYoung(t time.Time) bool {
	return p.options.PruneOlder > 0 && p.options.Now.Sub(t) < p.options.PruneOlder
}

// countUnreachable returns the number of unreachable objects of a volume that
// stays.
func (p *Plan) countUnreachable(i int) int64 {
	u := &p.live.volumes[i]
	return int64(max(0, u.Objects-u.liveCount-p.sweep.Dropped(i)))
}

// sortForRewrite sorts volumes by their share of garbage, the largest first. It returns how many of
// the first to rewrite, so that at most MaxWaste of after remains garbage. It subtracts the
// garbage of these volumes from after. after and waste are in bytes.
func (p *Plan) sortForRewrite(some []int, purged *purgedVolumes, after *int64, waste int64) (n int) {
	share := func(i int) float64 { // of garbage; volumes with purged objects come first
		u := &p.live.volumes[i]
		share := float64(u.wasteSize()) / float64(u.Bytes)
		if purged.withObjects[i] {
			share += 2
		}
		return share
	}

	slices.SortFunc(some, func(i, j int) int { return cmp.Or(cmp.Compare(share(j), share(i)), cmp.Compare(i, j)) })
	for n < len(some) && (purged.withObjects[some[n]] || float64(waste) > p.options.MaxWaste*float64(*after)) {
		u := &p.live.volumes[some[n]]
		if u.liveCount == u.Objects && u.repeatedCount == 0 {
			break // this one and the rest have no garbage
		}
		*after -= u.wasteSize()
		waste -= u.wasteSize()
		n++
	}

	return n
}

// splitList splits a list into items outside and inside a set.
func splitList(list []int, set map[int]bool) (rest, in []int) {
	for _, i := range list {
		if set[i] {
			in = append(in, i)
		} else {
			rest = append(rest, i)
		}
	}
	return rest, in
}

// groupVolumes splits volumes into groups that are rewritten to about one full
// volume each. The volumes of a group are removed, and their space freed,
// after the whole group is copied.
func (p *Plan) groupVolumes(volumes []int, repack bool) (groups []volumeGroup) {
	slices.Sort(volumes) // by age, so that volumes written together stay together
	var list []int
	var bytes, objects int64
	for _, i := range volumes {
		u := &p.live.volumes[i]
		list = append(list, i)
		bytes += u.liveBytes
		objects += int64(u.liveCount)
		if bytes >= volume.DefaultMaxBytes || objects >= volume.DefaultMaxObjects {
			groups = append(groups, volumeGroup{list, repack})
			list, bytes, objects = nil, 0, 0
		}
	}

	if len(list) > 0 {
		groups = append(groups, volumeGroup{list, repack})
	}
	return groups
}

// Apply removes the garbage that the plan lists, except objects that came into
// use since. It can be stopped at any moment: the next collection completes its
// work. It may be called once.
func (p *Plan) Apply(ctx context.Context) error {
	if err := p.options.Before(ctx); err != nil {
		return err
	}
	if _, err := p.sweep.EmptyTrash(ctx); err != nil {
		return err
	}

	var done, total int64
	for _, g := range p.toRemove {
		for _, i := range g.volumes {
			total += p.live.volumes[i].liveBytes
		}
	}

	copied := func(n int64) {
		if done += n; p.options.Progress != nil {
			p.options.Progress(done, max(done, total))
		}
	}

	p.stats.Removed, p.stats.Rewritten, p.stats.Deleted = 0, 0, 0
	p.stats.Repacked, p.stats.RepackedBytes = 0, 0
	if err := p.thinEvicted(ctx); err != nil {
		return err
	}
	for _, g := range p.toRemove {
		if len(g.volumes) == 0 {
			continue
		}
		end := trace.From(ctx).Begin("remove volumes", "count", len(g.volumes))
		err := p.removeGroup(ctx, g, copied)
		end(err)
		if err != nil {
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

	if err := p.live.addVolumes(ctx); err != nil {
		return err
	}
	for i := range p.live.volumes {
		u := &p.live.volumes[i]
		if p.sweep.Volume(i).Gone {
			continue
		}
		p.stats.After += u.Bytes
		if !u.mustStay && !u.mustWait {
			continue
		}
		spared, err := p.countSpared(ctx, i)
		if err != nil {
			return err
		}
		p.stats.Live += spared
	}

	p.stats.Live += p.live.liveCount

	if p.options.After != nil {
		return p.options.After(ctx)
	}
	return nil
}

// canThin reports whether volume i is an evicted one that stays, with records of purged objects.
func (p *Plan) canThin(i int, purged *purgedVolumes) bool {
	u := &p.live.volumes[i]
	return u.Evicted && u.liveCount > 0 && !u.mustStay && purged.withObjects[i]
}

// thinEvicted removes the records of unreachable objects from the evicted volumes that have some of purged objects. So a purged content counts
// no longer as away.
func (p *Plan) thinEvicted(ctx context.Context) error {
	if len(p.toThin) == 0 {
		return nil
	}
	if err := p.live.update(ctx, p.needs); err != nil {
		return err
	}
	var failed error
	err := p.sweep.Evict(ctx, p.toThin, nil, func(_ int, rec keys.Record) bool {
		live, err := p.live.isLive(rec.Key)
		failed = cmp.Or(failed, err)
		return live || err != nil
	})
	if err = cmp.Or(err, failed); err != nil {
		return err
	}
	for _, i := range p.toThin {
		p.stats.Removed += int64(p.live.volumes[i].Objects - p.live.volumes[i].liveCount)
	}
	return p.live.addVolumes(ctx)
}

// countSpared returns the number of objects of volume i that stay though they are not live.
func (p *Plan) countSpared(ctx context.Context, i int) (n int64, err error) {
	if i < p.stats.Volumes {
		return p.countUnreachable(i), nil
	}
	for rec, err := range objectsFrom(ctx, &p.sweep.Inventory, i, object.KindChunk) {
		kept := false
		if err == nil { // a copied object is live at its source, not here
			kept, err = p.live.isLive(rec.Key)
		}
		if err != nil {
			return n, err
		}
		if !kept {
			n++
		}
	}
	return n, nil
}

// removeGroup removes the volumes of g, after it has copied their live objects.
func (p *Plan) removeGroup(ctx context.Context, g volumeGroup, copied func(int64)) error {
	live := p.live
	counts := make([]int, len(g.volumes))
	some := false
	for k, i := range g.volumes {
		counts[k] = live.volumes[i].liveCount
		some = some || counts[k] > 0
	}

	if some {
		written, err := p.copyLive(ctx, g, copied)
		p.stats.Written += written
		if err != nil {
			return err
		}
	}

	// Find most of the changes before the sweep makes other processes wait.
	if err := live.update(ctx, p.needs); err != nil {
		return err
	}

	return p.sweep.Remove(ctx, func(ctx context.Context) (volume.Removal, error) {
		var r volume.Removal
		if err := p.options.Before(ctx); err != nil {
			return r, err
		}
		if err := live.update(ctx, p.needs); err != nil {
			return r, err
		}
		for k, i := range g.volumes {
			u := &live.volumes[i]
			if u.liveCount != counts[k] {
				continue // one of its objects came into use since
			}
			r.Volumes = append(r.Volumes, i)
			if !u.mustStay {
				p.stats.Removed += int64(u.Objects - u.liveCount)
			}
			switch {
			case g.repack:
				p.stats.Repacked++
				p.stats.RepackedBytes += u.Bytes
			case u.liveCount > 0:
				p.stats.Rewritten++
			default:
				p.stats.Deleted++
			}
		}
		var err error
		r.Drop, err = p.findDroppable(ctx)
		return r, err
	})
}

// findDroppable returns the garbage commits and tags in existing volumes, by volume. The
// objects that they refer to may be removed. No commit or tag may remain without
// them, even if the process stops when only some of the volumes are gone.
func (p *Plan) findDroppable(ctx context.Context) (map[int][]object.Key, error) {
	drop := map[int][]object.Key{}
	for i := range p.live.volumes {
		u := &p.live.volumes[i]
		if u.mustStay || p.sweep.Volume(i).Gone {
			continue
		}
		for rec, err := range objectsFrom(ctx, &p.sweep.Inventory, i, object.KindCommit) {
			if err != nil {
				return nil, err
			}
			if u.isLive(rec.Index) {
				continue
			}
			// A copied object is live at its source, not here.
			kept, err := p.live.isLive(rec.Key)
			if err != nil {
				return nil, err
			}
			if !kept {
				drop[i] = append(drop[i], rec.Key)
			}
		}
	}
	return drop, nil
}

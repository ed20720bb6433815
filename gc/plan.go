package gc

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
)

// The defaults of a collection.
const (
	DefaultPruneOlder = 14 * 24 * time.Hour
	DefaultMaxWaste   = 0.05
)

// PlanOptions say what [NewPlan] plans.
type PlanOptions struct {
	// PruneOlder is the age that a volume must have: what is in a younger one
	// stays, and so does what its nodes refer to. It may belong to a command
	// that is still at work, or was stopped and will be run again. 0: of any age.
	PruneOlder time.Duration

	// MaxWaste is the share of what is left, from 0 to 1, that may be garbage.
	// Volumes are rewritten, the worst first, until it is not more.
	MaxWaste float64

	// Optimise has objects that are much like others stored as the difference
	// from these, in volumes that are not optimised yet, but for those of media.
	Optimise bool

	// Idle says that young volumes are not optimised, see PruneOlder.
	Idle bool

	// MinOptimise is how many stored bytes of compressed data there have to be
	// that are not optimised. With less, none are.
	MinOptimise int64

	Now        time.Time // the time it is
	SingleHost bool      // see [volume.MaintainOptions]
	DryRun     bool      // the plan will not be applied: nothing is changed

	// Before, if not nil, is called by Apply, several times, before anything is
	// removed. It makes true what Needs takes for granted: that log entries that have
	// expired are gone.
	Before func(context.Context) error

	// After, if not nil, is called by Apply when all is done, still alone.
	After func(context.Context) error

	// Progress, if not nil, is told how far Apply has come, in bytes that are
	// copied.
	Progress func(done, total int64)
}

// Stats tell what a plan would do, and after it was applied, what it did.
type Stats struct {
	Live      int64 // objects that are needed, or too young to be removed
	Removed   int64 // objects that are removed
	Volumes   int   // before
	Rewritten int   // volumes that are replaced by what is needed of them
	Written   int   // volumes that was copied to; of an applied plan
	Deleted   int   // volumes that nothing is needed of
	Optimised int   // volumes that are replaced by optimised ones
	Patches   int64 // objects in these that were stored as differences; of an applied plan
	Salvaged  int   // interrupted writes that were taken over, or would be

	OptimisedBytes int64 // bytes of the files of the volumes that are replaced by optimised ones

	// Bytes of all files of volumes, including those removed earlier and those of
	// interrupted writes. Of a plan that was not applied, After does not know what optimising will gain.
	Before, After int64
}

// Plan is a collection of garbage: what would be removed, and how. Nobody else
// can collect garbage until it is closed.
type Plan struct {
	o       PlanOptions
	needs   Needs
	sweep   *volume.Sweep
	marker  *marker
	stats   Stats
	removed []group
}

// group is volumes that go together, by their numbers.
type group struct {
	volumes  []int
	optimise bool
}

// NewPlan finds out what is needed of a store, and what of the rest can go. The
// error is [disk.ErrBusy] if somebody else collects garbage or maintains the
// store, and a [*NeededError] if something is missing or damaged. Close the
// plan.
func NewPlan(ctx context.Context, store *volume.Store, needs Needs, o PlanOptions) (*Plan, error) {
	sweep, err := store.Sweep(ctx, volume.SweepOptions{
		MaintainOptions: volume.MaintainOptions{SingleHost: o.SingleHost}, DryRun: o.DryRun,
	})
	if err != nil {
		if _, damaged := err.(*object.DamageError); damaged {
			err = &NeededError{Err: err}
		}
		return nil, err
	}
	p := &Plan{o: o, needs: needs, sweep: sweep}
	p.marker = &marker{view: &sweep.View, objects: store, skipped: map[link]bool{}, young: func(v volume.ViewVolume) bool { return p.young(v.Created) }}
	sweep.Stays = p.relies
	if err := p.marker.update(ctx, needs); err != nil {
		sweep.Close()
		return nil, err
	}
	if err := p.choose(ctx); err != nil {
		sweep.Close()
		return nil, err
	}
	return p, nil
}

// Close ends the plan.
func (p *Plan) Close() { p.sweep.Close() }

// Stats returns what the plan would do, or has done.
func (p *Plan) Stats() Stats { return p.stats }

// live returns how many bytes a volume would have with only what is needed.
func (u *usage) live() int64 { return liveBytes(&u.Info, int64(u.marked-u.copies), u.stored) }

// liveBytes returns how many bytes a volume would have with only n of its
// objects, whose values take stored bytes.
func liveBytes(v *volume.Info, n, stored int64) int64 {
	if n == 0 {
		return 0
	}
	return stored + n*max(0, v.Bytes-v.Stored)/int64(v.Objects)
}

// waste returns how many bytes are for nothing in a volume.
func (u *usage) waste() int64 {
	if u.stays {
		return 0
	}
	return u.Bytes - u.live()
}

// choose says which volumes go.
func (p *Plan) choose(ctx context.Context) error {
	trash, err := p.sweep.TrashSize()
	if err != nil {
		return err
	}
	purged, err := p.marker.leftover(ctx)
	if err != nil {
		return err
	}
	optimise := map[int]bool{}
	if p.o.Optimise {
		list, err := p.optimisable(ctx, purged.volumes)
		if err != nil {
			return err
		}
		for _, i := range list {
			optimise[i] = true
		}
	}
	st := &p.stats
	st.Salvaged = p.sweep.Salvaged
	st.Before = trash
	st.Live = p.marker.kept
	var after, waste int64
	if after, err = p.left(ctx); err != nil {
		return err
	}
	var some []int // volumes of which some is needed
	var none []int
	var anew []int // volumes that are optimised
	for i := range p.marker.use {
		u := &p.marker.use[i]
		st.Volumes++
		st.Before += u.Bytes
		after += u.Bytes
		if optimise[i] {
			anew = append(anew, i)
			st.OptimisedBytes += u.Bytes
			after -= u.waste()
		}
		switch {
		case u.stays || purged.held && purged.lists[i]:
			st.Live += p.spared(i)
			u.holds = !u.stays
		case optimise[i]:
			st.Removed += int64(u.Objects - u.marked)
		case u.marked == 0:
			none = append(none, i)
			after -= u.Bytes
			st.Removed += int64(u.Objects)
		default:
			some = append(some, i)
			waste += u.waste()
		}
	}
	n := p.worst(some, purged, &after, waste)
	for _, i := range some[:n] {
		u := &p.marker.use[i]
		st.Removed += int64(u.Objects - u.marked)
	}
	st.After, st.Rewritten, st.Deleted, st.Optimised = after, n, len(none), len(anew)
	// What the rest of what was purged is found by goes last, should this be
	// stopped on the way.
	some, someLast := split(some[:n], purged.lists)
	none, noneLast := split(none, purged.lists)
	p.removed = slices.Concat([]group{{volumes: none}}, p.groups(some, false), p.groups(anew, true),
		p.groups(someLast, false), []group{{volumes: noneLast}})
	return nil
}

// left counts what dead writers left and this plan has not taken over: all of
// it in a dry run. It returns how many bytes of that stay.
func (p *Plan) left(ctx context.Context) (stay int64, err error) {
	list, err := p.sweep.Leftovers(ctx)
	for _, l := range list {
		p.stats.Before += l.Bytes
		switch {
		case !p.o.DryRun:
			stay += l.Bytes
		case p.young(l.Written):
			stay += l.Sealed
			p.stats.Live += l.Objects
		default:
			p.stats.Removed += l.Objects
		}
	}
	if p.o.DryRun {
		p.stats.Salvaged = len(list)
	}
	return stay, err
}

// young reports whether objects stored at t are too young to be removed.
func (p *Plan) young(t time.Time) bool {
	return p.o.PruneOlder > 0 && p.o.Now.Sub(t) < p.o.PruneOlder
}

// spared returns how many objects of a volume that stays are there, and not marked.
func (p *Plan) spared(i int) int64 {
	u := &p.marker.use[i]
	return int64(max(0, u.Objects-u.marked-p.sweep.Dropped(i)))
}

// worst sorts volumes of which some is needed, and returns how many of the first
// are to be rewritten, so that of waste bytes few enough are left. It takes what
// they waste from after.
func (p *Plan) worst(some []int, purged *leftover, after *int64, waste int64) (n int) {
	slices.SortFunc(some, func(i, j int) int { // those with what was purged, then the largest share first
		a, b := &p.marker.use[i], &p.marker.use[j]
		return cmp.Or(
			compareBool(purged.volumes[j], purged.volumes[i]),
			cmp.Compare(float64(b.waste())/float64(b.Bytes), float64(a.waste())/float64(a.Bytes)),
			cmp.Compare(i, j))
	})
	for n < len(some) && (purged.volumes[some[n]] || float64(waste) > p.o.MaxWaste*float64(*after)) {
		u := &p.marker.use[some[n]]
		if u.marked == u.Objects && u.copies == 0 {
			break // this one and the rest are needed wholly
		}
		*after -= u.waste()
		waste -= u.waste()
		n++
	}
	return n
}

// split takes those apart that are in a set.
func split(list []int, set map[int]bool) (rest, in []int) {
	for _, i := range list {
		if set[i] {
			in = append(in, i)
		} else {
			rest = append(rest, i)
		}
	}
	return rest, in
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// groups puts volumes together that are rewritten to about one, or two that
// are full: only then do they go, and their space is free.
func (p *Plan) groups(volumes []int, optimise bool) (groups []group) {
	slices.Sort(volumes) // by age: what was put together stays together
	var list []int
	var bytes, objects int64
	for _, i := range volumes {
		u := &p.marker.use[i]
		list = append(list, i)
		bytes += u.stored
		objects += int64(u.marked)
		if bytes >= volume.DefaultMaxBytes || objects >= volume.DefaultMaxObjects {
			groups = append(groups, group{list, optimise})
			list, bytes, objects = nil, 0, 0
		}
	}
	if len(list) > 0 {
		groups = append(groups, group{list, optimise})
	}
	return groups
}

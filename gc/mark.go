package gc

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/graph"
	"github.com/kist-vcs/kist/object/keys"
	"github.com/kist-vcs/kist/object/optimise"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs/record"
)

// Needs returns the gc roots and the records. It is called several times and
// must read the present state each time. An error ends the collection, because
// a root may have been overlooked.
type Needs func(ctx context.Context) (Needed, error)

// Needed lists the gc roots. Everything reachable from them is kept, except
// objects that records allow to be missing.
type Needed struct {
	Roots   []Root
	Records *record.View
}

// NeededError is a reachable object that is damaged or missing. The objects
// below it are unknown, so nothing can be collected. It matches
// [object.ErrCorrupt].
type NeededError struct {
	Root string // the gc root that reaches it, or ""
	Err  error
}

func (e *NeededError) Error() string {
	if e.Root == "" {
		return e.Err.Error()
	}
	return fmt.Sprintf("needed by %s: %v", e.Root, e.Err)
}

// Is makes errors.Is(err, object.ErrCorrupt) true.
func (e *NeededError) Is(target error) bool { return target == object.ErrCorrupt }

// Unwrap returns the cause.
func (e *NeededError) Unwrap() error { return e.Err }

// marker marks the live objects. It reads nodes but no chunks. It needs two
// bits of memory for every object of every volume.
type marker struct {
	view    *volume.View
	objects object.Reader
	young   func(volume.ViewVolume) bool
	use     []usage // by number of the volume

	records *record.View
	skipped map[link]bool // links that records exclude; the value is true if only hints reach them

	kept   int64          // number of marked objects, each counted once
	places []volume.Place // a buffer for find and keeps
}

// link is a reference from an object to another. From is zero for a root.
type link struct{ from, to object.Key }

// usage is the live part of a volume.
type usage struct {
	volume.ViewVolume
	stays bool // the volume stays: it is young, or a running session has written it
	holds bool // it stays for now: its purged nodes lead to purged objects elsewhere
	seen  bool // it stays, and the objects below its nodes are marked

	needed keys.Set // reachable from roots
	wanted keys.Set // reachable from hints, so objects below may be missing

	marked int   // objects in one of the sets
	copies int   // marked objects with another copy that was marked first
	stored int64 // stored bytes of the marked objects that are not copies
}

// update marks all live objects once more, because roots may have changed and
// volumes may have appeared since.
func (m *marker) update(ctx context.Context, needs Needs) error {
	if err := m.refresh(ctx); err != nil {
		return err
	}
	needed, err := needs(ctx)
	if err != nil {
		return err
	}
	m.records = needed.Records
	for _, r := range needed.Roots {
		if err := m.reach(ctx, r); err != nil {
			return err
		}
	}
	if err := m.resume(ctx); err != nil {
		return err
	}
	for i := range m.use {
		if m.use[i].stays && !m.use[i].seen {
			if err := m.reachFrom(ctx, i); err != nil {
				return err
			}
			m.use[i].seen = true
		}
	}
	return m.markBases(ctx)
}

// markBases marks the damaged objects of volumes that have live ones, and everything
// reachable from them. A live patch may depend on a damaged base, and is then readable
// only through another copy of the base. The objects below a base are kept because a
// commit that is present must be complete, and the note of its damage may be wrong.
func (m *marker) markBases(ctx context.Context) error {
	for i := range m.use {
		u := &m.use[i]
		if u.marked == 0 && !u.stays || m.view.Volume(i).Gone {
			continue
		}
		for _, key := range m.view.Damaged(i) {
			if err := m.walk(ctx, key, true); err != nil {
				return err
			}
		}
	}
	return nil
}

// refresh adds volumes that have appeared.
func (m *marker) refresh(ctx context.Context) error {
	if err := m.view.Refresh(ctx); err != nil {
		if aborts(ctx, err) {
			return err
		}
		return &NeededError{Err: err}
	}
	for i := len(m.use); i < m.view.Len(); i++ {
		v := m.view.Volume(i)
		m.use = append(m.use, usage{
			ViewVolume: v, stays: v.InUse || m.young(v),
			needed: keys.NewSet(v.Objects), wanted: keys.NewSet(v.Objects),
		})
	}
	return nil
}

// reach marks a root and everything reachable from it.
func (m *marker) reach(ctx context.Context, r Root) error {
	err := m.walk(ctx, r.Key, r.Hint)
	if err != nil && !aborts(ctx, err) {
		err = &NeededError{Root: r.Name, Err: err}
	}
	return err
}

// resume follows the links that records excluded before but no longer exclude.
func (m *marker) resume(ctx context.Context) error {
	for l, hint := range m.skipped {
		if m.records.Skips(l.from, l.to) {
			continue
		}
		delete(m.skipped, l)
		if err := m.reach(ctx, Root{Key: l.to, Hint: hint}); err != nil {
			return err
		}
	}
	return nil
}

// skips reports whether records exclude a link, and remembers such links.
func (m *marker) skips(from, to object.Key, hint bool) bool {
	if !m.records.Skips(from, to) {
		return false
	}
	l := link{from, to}
	before, ok := m.skipped[l]
	m.skipped[l] = hint && (before || !ok)
	return true
}

// reachFrom marks everything reachable from the nodes in volume i, because
// another process may be about to use these nodes.
func (m *marker) reachFrom(ctx context.Context, i int) error {
	for kind := object.KindManifest; kind.Valid(); kind++ {
		for rec, err := range m.view.Keys(i, kind) {
			if err == nil {
				err = m.walk(ctx, rec.Key, true)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// walk marks an object and everything reachable from it. If it is only a hint,
// damaged and missing objects are skipped. The marks are the only memory of the
// walk, so that it needs two bits for each object.
func (m *marker) walk(ctx context.Context, key object.Key, hint bool) error {
	if m.skips(object.Key{}, key, hint) {
		return nil
	}
	return graph.Follow(ctx, []object.Key{key}, func(key object.Key) ([]object.Key, error) {
		if first, err := m.mark(ctx, key, hint); !first || err != nil {
			return nil, err
		}
		links, err := graph.Links(ctx, m.objects, key)
		if err != nil && hint && !aborts(ctx, err) {
			return nil, nil
		}
		return slices.DeleteFunc(links, func(link object.Key) bool { return m.skips(key, link, hint) }), err
	})
}

// mark marks all copies of an object. It reports whether the object had no
// such mark yet. If it is only a hint, the object may be missing.
func (m *marker) mark(ctx context.Context, key object.Key, hint bool) (first bool, err error) {
	places, err := m.find(ctx, key)
	if err != nil {
		if hint && !aborts(ctx, err) {
			return false, nil
		}
		return false, err
	}
	before := false // a copy has the other mark already
	for _, p := range places {
		u := &m.use[p.Volume]
		if u.set(hint).Has(p.Index) {
			return false, nil
		}
		before = before || u.set(!hint).Has(p.Index)
	}
	for _, p := range places {
		u := &m.use[p.Volume]
		had := u.has(p.Index)
		if p.Gone {
			continue
		}
		u.set(hint).Add(p.Index)
		if had {
			continue
		}
		u.marked++
		if before {
			u.copies++
			continue
		}
		before = true
		u.stored += p.Stored
		m.kept++
	}
	return true, nil
}

// set returns the set for hints or the one for roots.
func (u *usage) set(hint bool) keys.Set {
	if hint {
		return u.wanted
	}
	return u.needed
}

// find returns the places of an object. At least one of them is in an existing
// volume, or was marked before its volume was removed. Otherwise the error is
// a [*object.NotFoundError].
func (m *marker) find(ctx context.Context, key object.Key) ([]volume.Place, error) {
	for again := false; ; again = true {
		places, err := m.view.Find(key, m.places[:0])
		if err != nil {
			return nil, err
		}
		m.places = places
		for _, p := range places {
			if !p.Gone || m.use[p.Volume].has(p.Index) {
				return places, nil
			}
		}
		if again {
			return nil, &object.NotFoundError{Key: key}
		}
		if err := m.refresh(ctx); err != nil {
			return nil, err
		}
	}
}

// has reports whether an object of the volume is marked.
func (u *usage) has(index int) bool { return u.needed.Has(index) || u.wanted.Has(index) }

// keeps reports whether an object is marked in any volume.
func (m *marker) keeps(key object.Key) (bool, error) {
	places, err := m.view.Find(key, m.places[:0])
	m.places = places
	return slices.ContainsFunc(places, func(p volume.Place) bool { return m.use[p.Volume].has(p.Index) }), err
}

// order returns the places of the live objects in volumes, in the order in which
// they will be stored.
func (m *marker) order(ctx context.Context, roots []Root, volumes []int) (iter.Seq2[int, int], error) {
	wanted := map[int]bool{}
	for _, i := range volumes {
		wanted[i] = true
	}
	var seen []keys.Set // by number of the volume
	for i := range m.view.Len() {
		seen = append(seen, keys.NewSet(m.view.Volume(i).Objects))
	}
	top := make([]object.Key, len(roots))
	for i, r := range roots {
		top[i] = r.Key
	}
	places, err := optimise.Order(ctx, top, optimise.OrderOptions{
		Nodes: m.objects,
		Skips: m.records.Skips,
		Meet: func(key object.Key) (uint64, bool, bool) {
			places, err := m.view.Find(key, m.places[:0])
			m.places = places
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

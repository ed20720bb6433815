package gc

import (
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/graph"
	"github.com/kist-vcs/kist/object/keys"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs/record"
)

// marker marks the live objects. It reads nodes but no chunks. It needs two
// bits of memory for every object of every volume.
type marker struct {
	inventory *volume.Inventory
	objects   object.Reader
	young     func(volume.Listed) bool
	use       []volumeUse // by number of the volume

	records *record.Effects
	skipped map[link]bool // links that records exclude; the value is true if only hints reach them

	kept   int64          // number of marked objects, each counted once
	places []volume.Place // a buffer for copies
}

// link is a reference from an object to another. From is zero for a root.
type link struct{ from, to object.Key }

// volumeUse is the live part of a volume.
type volumeUse struct {
	volume.Listed
	stays bool // the volume stays: it is young, or a running session has written it
	waits bool // it stays for now: its purged nodes lead to purged objects elsewhere
	seen  bool // it stays, and the objects below its nodes are marked

	needed keys.Set // reachable from roots
	wanted keys.Set // reachable from hints, so objects below may be missing

	marked int   // objects in one of the sets
	copies int   // marked objects with another copy that was marked first
	stored int64 // stored bytes of the marked objects that are not copies
}

// markSet returns the set for hints or the one for roots.
func (u *volumeUse) markSet(hint bool) keys.Set {
	if hint {
		return u.wanted
	}
	return u.needed
}

// isMarked reports whether an object of the volume is marked.
func (u *volumeUse) isMarked(index int) bool { return u.needed.Has(index) || u.wanted.Has(index) }

// liveSize returns how many bytes the volume would have with only its live objects.
func (u *volumeUse) liveSize() int64 { return liveBytes(&u.Info, int64(u.marked-u.copies), u.stored) }

// liveBytes returns how many bytes a volume would have with only n of its
// objects, whose values take stored bytes.
func liveBytes(v *volume.Info, n, stored int64) int64 {
	if n == 0 {
		return 0
	}
	return stored + n*max(0, v.Bytes-v.Stored)/int64(v.Objects)
}

// wasteSize returns how many bytes of the volume are garbage, 0 if gc keeps the volume.
func (u *volumeUse) wasteSize() int64 {
	if u.stays {
		return 0
	}
	return u.Bytes - u.liveSize()
}

// updateMarks marks all live objects once more, because roots may have changed and
// volumes may have appeared since.
func (m *marker) updateMarks(ctx context.Context, needs Needs) error {
	if err := m.addVolumes(ctx); err != nil {
		return err
	}
	needed, err := needs(ctx)
	if err != nil {
		return err
	}
	m.records = needed.Records
	for _, r := range needed.Roots {
		if err := m.markRoot(ctx, r); err != nil {
			return err
		}
	}

	if err := m.resumeSkipped(ctx); err != nil {
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
		if u.marked == 0 && !u.stays || m.inventory.Volume(i).Gone {
			continue
		}
		for _, key := range m.inventory.Damaged(i) {
			if err := m.markReachable(ctx, key, true); err != nil {
				return err
			}
		}
	}
	return nil
}

// addVolumes adds volumes that have appeared.
func (m *marker) addVolumes(ctx context.Context) error {
	if err := m.inventory.Refresh(ctx); err != nil {
		return neededError(ctx, "", err)
	}
	for i := len(m.use); i < m.inventory.Len(); i++ {
		v := m.inventory.Volume(i)
		m.use = append(m.use, volumeUse{
			Listed: v, stays: v.InUse || m.young(v),
			needed: keys.NewSet(v.Objects), wanted: keys.NewSet(v.Objects),
		})
	}
	return nil
}

// markRoot marks a root and everything reachable from it.
func (m *marker) markRoot(ctx context.Context, r Root) error {
	return neededError(ctx, r.Name, m.markReachable(ctx, r.Key, r.Hint))
}

// resumeSkipped follows the links that records excluded before but no longer exclude.
func (m *marker) resumeSkipped(ctx context.Context) error {
	for l, hint := range m.skipped {
		if m.records.Skips(l.from, l.to) {
			continue
		}
		delete(m.skipped, l)
		if err := m.markRoot(ctx, Root{Key: l.to, Hint: hint}); err != nil {
			return err
		}
	}
	return nil
}

// skipsLink reports whether records exclude a link, and remembers such links.
func (m *marker) skipsLink(from, to object.Key, hint bool) bool {
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
	for rec, err := range objectsFrom(ctx, m.inventory, i, object.KindManifest) {
		if err == nil {
			err = m.markReachable(ctx, rec.Key, true)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// objectsFrom yields the objects of volume i, of a kind and the kinds after it.
func objectsFrom(ctx context.Context, inventory *volume.Inventory, i int, kind object.Kind) iter.Seq2[keys.Record, error] {
	return func(yield func(keys.Record, error) bool) {
		for ; kind.Valid(); kind++ {
			for rec, err := range inventory.Keys(i, kind) {
				if err == nil {
					err = ctx.Err()
				}
				if !yield(rec, neededError(ctx, "", err)) || err != nil {
					return
				}
			}
		}
	}
}

// markReachable marks an object and everything reachable from it. If it is only a hint,
// damaged and missing objects are skipped. The marks are the only memory of the
// walk, so that it needs two bits for each object.
func (m *marker) markReachable(ctx context.Context, key object.Key, hint bool) error {
	if m.skipsLink(object.Key{}, key, hint) {
		return nil
	}
	return graph.Follow(ctx, []object.Key{key}, func(key object.Key) ([]object.Key, error) {
		if first, err := m.markCopies(ctx, key, hint); !first || err != nil {
			return nil, err
		}
		links, err := graph.Links(ctx, m.objects, key)
		if err != nil && hint && !endsWalk(ctx, err) {
			return nil, nil
		}
		return slices.DeleteFunc(links, func(link object.Key) bool { return m.skipsLink(key, link, hint) }), err
	})
}

// markCopies marks all copies of an object. It reports whether the object had no
// such mark yet. If it is only a hint, the object may be missing.
func (m *marker) markCopies(ctx context.Context, key object.Key, hint bool) (first bool, err error) {
	places, err := m.findPresent(ctx, key)
	if err != nil {
		if hint && !endsWalk(ctx, err) {
			return false, nil
		}
		return false, err
	}
	before := false // a copy has the other mark already
	for _, p := range places {
		u := &m.use[p.Volume]
		if u.markSet(hint).Has(p.Index) {
			return false, nil
		}
		before = before || u.markSet(!hint).Has(p.Index)
	}

	for _, p := range places {
		u := &m.use[p.Volume]
		had := u.isMarked(p.Index)
		if p.Gone {
			continue
		}
		u.markSet(hint).Add(p.Index)
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

// findPresent returns the places of an object, as findCopies does. At least one of them is in an
// existing volume, or was marked before its volume was removed. Otherwise the error is
// a [*object.NotFoundError].
func (m *marker) findPresent(ctx context.Context, key object.Key) ([]volume.Place, error) {
	for again := false; ; again = true {
		places, err := m.findCopies(key)
		if err != nil {
			return nil, err
		}
		for _, p := range places {
			if !p.Gone || m.isMarked(p) {
				return places, nil
			}
		}
		if again {
			return nil, &object.NotFoundError{Key: key}
		}
		if err := m.addVolumes(ctx); err != nil {
			return nil, err
		}
	}
}

// findCopies returns the places of an object, until the next call.
func (m *marker) findCopies(key object.Key) (places []volume.Place, err error) {
	m.places, err = m.inventory.Find(key, m.places[:0])
	return m.places, err
}

// isMarked reports whether the object at a place is marked.
func (m *marker) isMarked(p volume.Place) bool { return m.use[p.Volume].isMarked(p.Index) }

// isKept reports whether an object is marked in any volume.
func (m *marker) isKept(key object.Key) (bool, error) {
	places, err := m.findCopies(key)
	return slices.ContainsFunc(places, m.isMarked), err
}

// purgedVolumes lists the volumes that still have unreachable purged objects. gc
// removes these objects however small they are.
type purgedVolumes struct {
	volumes map[int]bool
	lists   map[int]bool // volumes with purged nodes, which lead to the other purged objects
	wait    bool         // a volume with purged objects stays for now, so lists must stay too
}

// findPurged finds the remaining purged objects.
func (m *marker) findPurged(ctx context.Context) (*purgedVolumes, error) {
	l := &purgedVolumes{volumes: map[int]bool{}, lists: map[int]bool{}}
	err := graph.Walk(ctx, map[object.Key]bool{}, m.records.AllPurged(), func(key object.Key) ([]object.Key, error) {
		places, err := m.findCopies(key)
		if damaged := (*object.CorruptError)(nil); errors.As(err, &damaged) {
			return nil, nil // no part of it can be read
		}
		if err != nil {
			return nil, err
		}
		places = slices.DeleteFunc(places, func(p volume.Place) bool { return p.Gone })
		// A marked object is live for another reason, with all objects below it.
		if len(places) == 0 || slices.ContainsFunc(places, m.isMarked) {
			return nil, nil
		}
		for _, p := range places {
			l.volumes[p.Volume] = true
			l.wait = l.wait || m.use[p.Volume].stays
			if key.Kind.IsNode() {
				l.lists[p.Volume] = true
			}
		}
		links, err := graph.Links(ctx, m.objects, key)
		if err != nil && !endsWalk(ctx, err) && !errors.Is(err, object.ErrNewerFormat) {
			err = nil // the links of a damaged node cannot be found
		}
		return links, err
	})
	return l, err
}

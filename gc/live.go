package gc

import (
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/graph"
	"github.com/kist-vcs/kist/object/keys"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs/record"
)

// liveFinder finds the live objects. It reads nodes but no chunks. It needs two
// bits of memory for every object of every volume.
type liveFinder struct {
	inventory *volume.Inventory
	objects   object.Reader
	young     func(volume.Listed) bool
	volumes   []liveVolume // by number of the volume

	records  *record.Effects
	promised *kist.Promised // nil: nothing is away
	skipped  map[link]bool  // links that records exclude; the value is true if only hints reach them

	liveCount int64          // number of live objects, each counted once
	copies    []volume.Place // a buffer for copies
}

// link is a reference from an object to another. From is zero for a root.
type link struct{ from, to object.Key }

// liveVolume is a volume with the set of its live objects.
type liveVolume struct {
	volume.Listed
	mustStay   bool // the volume stays: it is young, or a running session has written it
	mustWait   bool // it stays for now: its purged nodes lead to purged objects elsewhere
	isFollowed bool // it must stay, and the objects below its nodes were added

	reachable keys.Set // reachable from roots
	hinted    keys.Set // reachable from hints, so objects below may be missing

	liveCount     int   // objects in one of the sets
	repeatedCount int   // live objects with another copy that was added first
	liveBytes     int64 // stored bytes of the live objects, without repeated ones
}

// liveSet returns the set for hints or the one for roots.
func (u *liveVolume) liveSet(hint bool) keys.Set {
	if hint {
		return u.hinted
	}
	return u.reachable
}

// isLive reports whether an object of the volume is live.
func (u *liveVolume) isLive(index int) bool { return u.reachable.Has(index) || u.hinted.Has(index) }

// liveSize returns how many bytes the volume would have with only its live objects.
func (u *liveVolume) liveSize() int64 {
	return liveBytes(&u.Info, int64(u.liveCount-u.repeatedCount), u.liveBytes)
}

// liveBytes returns how many bytes a volume would have with only n of its
// objects, whose values take stored bytes.
func liveBytes(v *volume.Info, n, stored int64) int64 {
	if n == 0 {
		return 0
	}
	return stored + n*max(0, v.Bytes-v.Stored)/int64(v.Objects)
}

// wasteSize returns how many bytes of the volume are garbage, 0 if gc keeps the volume.
func (u *liveVolume) wasteSize() int64 {
	if u.mustStay {
		return 0
	}
	return u.Bytes - u.liveSize()
}

// update finds all live objects once more, because roots may have changed and
// volumes may have appeared since.
func (f *liveFinder) update(ctx context.Context, needs Needs) error {
	if err := f.addVolumes(ctx); err != nil {
		return err
	}
	needed, err := needs(ctx)
	if err != nil {
		return err
	}
	f.records, f.promised = needed.Records, needed.Promised
	for _, r := range needed.Roots {
		if err := f.addRoot(ctx, r); err != nil {
			return err
		}
	}

	if err := f.resumeSkipped(ctx); err != nil {
		return err
	}
	for i := range f.volumes {
		if f.volumes[i].mustStay && !f.volumes[i].isFollowed {
			if err := f.addBelowNodes(ctx, i); err != nil {
				return err
			}
			f.volumes[i].isFollowed = true
		}
	}

	return f.addDamagedBases(ctx)
}

// addDamagedBases adds the damaged objects of volumes that have live ones, and everything
// reachable from them. A live patch may depend on a damaged base, and is then readable
// only through another copy of the base. The objects below a base are kept because a
// commit that is present must be complete, and the note of its damage may be wrong.
func (f *liveFinder) addDamagedBases(ctx context.Context) error {
	for i := range f.volumes {
		u := &f.volumes[i]
		if u.liveCount == 0 && !u.mustStay || f.inventory.Volume(i).Gone {
			continue
		}
		for _, key := range f.inventory.Damaged(i) {
			if err := f.addReachable(ctx, key, true); err != nil {
				return err
			}
		}
	}
	return nil
}

// addVolumes adds volumes that have appeared.
func (f *liveFinder) addVolumes(ctx context.Context) error {
	if err := f.inventory.Refresh(ctx); err != nil {
		return neededError(ctx, "", err)
	}
	for i := len(f.volumes); i < f.inventory.Len(); i++ {
		v := f.inventory.Volume(i)
		f.volumes = append(f.volumes, liveVolume{
			Listed: v, mustStay: v.InUse || f.young(v),
			reachable: keys.NewSet(v.Objects), hinted: keys.NewSet(v.Objects),
		})
	}
	return nil
}

// addRoot adds a root and everything reachable from it.
func (f *liveFinder) addRoot(ctx context.Context, r Root) error {
	return neededError(ctx, r.Name, f.addReachable(ctx, r.Key, r.Hint))
}

// resumeSkipped follows the links that records excluded before but no longer exclude.
func (f *liveFinder) resumeSkipped(ctx context.Context) error {
	for l, hint := range f.skipped {
		if f.records.Skips(l.from, l.to) {
			continue
		}
		delete(f.skipped, l)
		if err := f.addRoot(ctx, Root{Key: l.to, Hint: hint}); err != nil {
			return err
		}
	}
	return nil
}

// skipsLink reports whether records exclude a link, and remembers such links.
func (f *liveFinder) skipsLink(from, to object.Key, hint bool) bool {
	if !f.records.Skips(from, to) {
		return false
	}
	l := link{from, to}
	before, ok := f.skipped[l]
	f.skipped[l] = hint && (before || !ok)
	return true
}

// addBelowNodes adds everything reachable from the nodes in volume i, because
// another process may be about to use these nodes.
func (f *liveFinder) addBelowNodes(ctx context.Context, i int) error {
	for rec, err := range objectsFrom(ctx, f.inventory, i, object.KindManifest) {
		if err == nil {
			err = f.addReachable(ctx, rec.Key, true)
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

// addReachable adds an object and everything reachable from it to the live objects. If it is only a
// hint, damaged and missing objects are skipped. The sets of live objects are the only memory of
// the walk, so that it needs two bits for each object.
func (f *liveFinder) addReachable(ctx context.Context, key object.Key, hint bool) error {
	if f.skipsLink(object.Key{}, key, hint) {
		return nil
	}
	return graph.Follow(ctx, []object.Key{key}, func(key object.Key) ([]object.Key, error) {
		if first, err := f.addCopies(ctx, key, hint); !first || err != nil {
			return nil, err
		}
		links, err := graph.Links(ctx, f.objects, key)
		if err != nil && hint && !endsWalk(ctx, err) {
			return nil, nil
		}
		return slices.DeleteFunc(links, func(link object.Key) bool { return f.skipsLink(key, link, hint) }), err
	})
}

// addCopies adds all copies of an object to the set for hints or to the one for roots. It reports
// whether none was in that set yet. If it is only a hint, the object may be missing.
func (f *liveFinder) addCopies(ctx context.Context, key object.Key, hint bool) (first bool, err error) {
	places, err := f.findPresent(ctx, key)
	if err != nil {
		if hint && !endsWalk(ctx, err) {
			return false, nil
		}
		if f.promised != nil && errors.Is(err, object.ErrNotFound) { // a leaf: the remote keeps everything below it
			if away, aerr := f.promised.Has(ctx, key); away || aerr != nil {
				return false, aerr
			}
		}
		return false, err
	}
	before := false // a copy is in the other set already
	for _, p := range places {
		u := &f.volumes[p.Volume]
		if u.liveSet(hint).Has(p.Index) {
			return false, nil
		}
		before = before || u.liveSet(!hint).Has(p.Index)
	}

	for _, p := range places {
		u := &f.volumes[p.Volume]
		had := u.isLive(p.Index)
		if p.Gone {
			continue
		}
		u.liveSet(hint).Add(p.Index)
		if had {
			continue
		}
		u.liveCount++
		if before {
			u.repeatedCount++
			continue
		}
		before = true
		u.liveBytes += p.Stored
		f.liveCount++
	}

	return true, nil
}

// findPresent returns the places of an object, as findCopies does. At least one of them is in an
// existing volume, or was live before its volume was removed. Otherwise the error is
// an [*object.AbsentError].
func (f *liveFinder) findPresent(ctx context.Context, key object.Key) ([]volume.Place, error) {
	for again := false; ; again = true {
		places, err := f.findCopies(key)
		if err != nil {
			return nil, err
		}
		for _, p := range places {
			if !p.Gone || f.isLiveAt(p) {
				return places, nil
			}
		}
		if again {
			return nil, &object.AbsentError{Key: key}
		}
		if err := f.addVolumes(ctx); err != nil {
			return nil, err
		}
	}
}

// findCopies returns the places of an object, until the next call.
func (f *liveFinder) findCopies(key object.Key) (places []volume.Place, err error) {
	f.copies, err = f.inventory.Find(key, f.copies[:0])
	return f.copies, err
}

// isLiveAt reports whether the object at a place is live.
func (f *liveFinder) isLiveAt(p volume.Place) bool { return f.volumes[p.Volume].isLive(p.Index) }

// isLive reports whether a copy of an object is live, in any volume.
func (f *liveFinder) isLive(key object.Key) (bool, error) {
	places, err := f.findCopies(key)
	return slices.ContainsFunc(places, f.isLiveAt), err
}

// purgedVolumes lists the volumes that still have unreachable purged objects. gc
// removes these objects however small they are.
type purgedVolumes struct {
	withObjects map[int]bool
	withNodes   map[int]bool // volumes with purged nodes, which lead to the other purged objects
	mustWait    bool         // a volume with purged objects stays for now, so those with nodes must stay too
}

// findPurged finds the remaining purged objects.
func (f *liveFinder) findPurged(ctx context.Context) (*purgedVolumes, error) {
	l := &purgedVolumes{withObjects: map[int]bool{}, withNodes: map[int]bool{}}
	err := graph.Walk(ctx, map[object.Key]bool{}, f.records.AllPurged(), func(key object.Key) ([]object.Key, error) {
		places, err := f.findCopies(key)
		if damaged := (*object.CorruptError)(nil); errors.As(err, &damaged) {
			return nil, nil // no part of it can be read
		}
		if err != nil {
			return nil, err
		}
		places = slices.DeleteFunc(places, func(p volume.Place) bool { return p.Gone })
		// A live object is needed for another reason, with all objects below it.
		if len(places) == 0 || slices.ContainsFunc(places, f.isLiveAt) {
			return nil, nil
		}
		for _, p := range places {
			l.withObjects[p.Volume] = true
			l.mustWait = l.mustWait || f.volumes[p.Volume].mustStay
			if key.Kind.IsNode() {
				l.withNodes[p.Volume] = true
			}
		}
		links, err := graph.Links(ctx, f.objects, key)
		if err != nil && !endsWalk(ctx, err) && !errors.Is(err, object.ErrNewerFormat) {
			err = nil // the links of a damaged node cannot be found
		}
		return links, err
	})
	return l, err
}

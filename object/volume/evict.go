package volume

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/frame"
	"github.com/kist-vcs/kist/object/keys"
)

// An evicted volume has only KEYS and SEAL. Its objects are on a remote. In its records,
// File is notHere, and Offset and Stored are 0.
const notHere = 0

// fetchValue returns an evicted object as a stored value. It prefers a copy in another volume, and then one in a file of
// the worktree. All reads of evicted objects come here, and all but [Store.Prefetch] fetch here.
func (v *sealedVolume) fetchValue(ctx context.Context, rec keys.Record) ([]byte, error) {
	l, err := v.store.lastListing()
	if err != nil {
		return nil, err
	}
	for other, at := range l.usableCopies(rec.Key) {
		if at.File == notHere {
			continue
		}
		if data, err := other.readObject(at); err == nil {
			return frame.AppendRaw(nil, data), nil
		}
	}
	if v.store.Elsewhere == nil {
		return nil, &object.AbsentError{Key: rec.Key, Reason: object.ErrEvicted}
	}
	data := v.store.fetched.find(rec.Key)
	if data == nil {
		data = getLent(v.store, rec.Key)
	}
	if data == nil {
		if data, err = v.store.Elsewhere.Get(ctx, rec.Key); err != nil {
			return nil, err
		}
		if object.Sum(data) == rec.Key.ID {
			v.store.fetched.add(ctx, v.store, rec.Key, data)
		}
	}
	return frame.AppendRaw(nil, data), nil
}

// readAway is readObject of an evicted object, with a context that may come from [object.Passing].
func (v *sealedVolume) readAway(ctx context.Context, rec keys.Record) (data []byte, err error) {
	value, err := v.fetchValue(ctx, rec)
	if err == nil {
		data, err = v.decodeValue(nil, rec, value, nil)
	}
	if err != nil {
		return nil, v.readError(rec, err)
	}
	return data, nil
}

// LentReader is a [Store.Elsewhere] that finds lent objects in files of the worktree. GetLent returns the bytes of an object,
// verified by their hash, or nil. HasLent reports whether GetLent probably finds it, without reading it. IsRecorded reports whether
// a file had it, and may have changed since.
type LentReader interface {
	GetLent(key object.Key) []byte
	HasLent(key object.Key) bool
	IsRecorded(key object.Key) bool
}

// getLent returns the verified bytes of a lent object, nil if no file has them.
func getLent(s *Store, key object.Key) []byte {
	lent, ok := s.Elsewhere.(LentReader)
	if !ok {
		return nil
	}
	return lent.GetLent(key)
}

// HasLent reports whether getLent probably finds an object.
func HasLent(s *Store, key object.Key) bool {
	lent, ok := s.Elsewhere.(LentReader)
	return ok && lent.HasLent(key)
}

// LentReport counts the evicted objects that files of the worktree have, or had.
type LentReport struct {
	Objects int   // that were read and have the right hash
	Bytes   int64 // of these
	Changed int   // objects whose file has changed: lent no longer, and not damaged
}

// CheckLent reads all lent objects, and hashes them.
func CheckLent(ctx context.Context, s *Store) (report LentReport, err error) {
	lent, ok := s.Elsewhere.(LentReader)
	if !ok {
		return report, nil
	}
	l, err := s.lastListing()
	if err != nil {
		return report, err
	}
	for _, v := range l.volumes {
		if !v.isEvicted() {
			continue
		}
		o, err := v.ensureOpen()
		if err != nil {
			return report, err
		}
		for rec, err := range o.withoutDropped(o.index.All()) {
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				return report, err
			}
			if away := l.evictedCopies(rec.Key); len(away) == 0 || away[0] != v { // here, or counted with another volume
				continue
			}
			if !lent.IsRecorded(rec.Key) {
				continue
			}
			if data := lent.GetLent(rec.Key); data != nil {
				report.Objects++
				report.Bytes += int64(len(data))
			} else {
				report.Changed++
			}
		}
	}
	return report, nil
}

// IsEvicted reports whether an object has only evicted copies.
func IsEvicted(s *Store, key object.Key) (bool, error) {
	l, err := s.lastListing()
	return err == nil && l.evictedCopies(key) != nil, err
}

// HasEvicted reports whether objects of the store are only on a remote.
func HasEvicted(ctx context.Context, s *Store) (bool, error) {
	infos, err := s.Volumes(ctx)
	return slices.ContainsFunc(infos, func(i Info) bool { return i.Evicted }), err
}

// EvictedKeys returns the objects of the store that have only evicted copies.
func EvictedKeys(ctx context.Context, s *Store) (away []object.Key, err error) {
	l, err := s.lastListing()
	if err != nil {
		return nil, err
	}
	seen := map[object.Key]bool{}
	for _, v := range l.volumes {
		info, err := v.describe()
		if err != nil || !info.Evicted {
			continue
		}
		o, err := v.ensureOpen()
		if err != nil {
			return nil, err
		}
		for rec, err := range o.withoutDropped(o.index.All()) {
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				return nil, err
			}
			if !seen[rec.Key] && l.evictedCopies(rec.Key) != nil {
				seen[rec.Key] = true
				away = append(away, rec.Key)
			}
		}
	}

	return away, nil
}

// evictedCopies returns the volumes with evicted copies of an object. It returns none if
// another copy is here and not known to be damaged.
func (l *listing) evictedCopies(key object.Key) (away []*sealedVolume) {
	for _, v := range l.volumes {
		rec, ok, err := v.findRecord(key)
		switch {
		case !ok || err != nil:
		case rec.File == notHere:
			away = append(away, v)
		case !v.isBad(key):
			return nil
		}
	}
	return away
}

// AwayReport lists the objects that are evicted or may be away, and on which nobody can rely.
type AwayReport struct {
	Gone    []object.Key // no remote has them: the next Put stores them
	Unkept  []object.Key // a remote has them, and none promises to keep them
	Unknown []object.Key // a remote could not be asked that may keep them
	Why     error        // the reason for Unknown, nil without [Store.Elsewhere]
}

// CheckAway asks the remotes about those of the wanted objects that have only evicted copies, or may be away. The store notes which are
// gone, and which came back.
func CheckAway(ctx context.Context, s *Store, wanted []object.Key) (report AwayReport, err error) {
	l, err := s.lastListing()
	if err != nil {
		return report, err
	}
	copies := map[object.Key][]*sealedVolume{}
	var away []object.Key
	for _, key := range wanted {
		if _, listed := copies[key]; listed {
			continue
		}
		if list := l.evictedCopies(key); list != nil || isFar(s, key) {
			copies[key] = list
			away = append(away, key)
		}
	}
	if len(away) == 0 || s.Elsewhere == nil {
		report.Unknown = away
		return report, nil
	}

	gone, unkept, why := s.Elsewhere.FindUnkept(ctx, away)
	if err := ctx.Err(); err != nil {
		return report, err
	}
	if why != nil {
		for _, key := range slices.Concat(gone, unkept) {
			delete(copies, key)
		}
		report.Unknown, report.Why = slices.Concat(gone, unkept), why
	} else {
		report.Gone, report.Unkept = gone, unkept
	}
	for _, key := range report.Gone {
		for _, v := range copies[key] {
			v.setBad(key)
		}
		delete(copies, key)
	}
	for key, list := range copies {
		for _, v := range list {
			v.clearBad(key)
		}
	}
	return report, nil
}

// Absent returns those of some keys that no volume has, or only in copies that are known
// to be damaged.
func Absent(s *Store, keys []object.Key) (absent []object.Key, err error) {
	for _, key := range keys {
		v, _, err := s.findObject(key)
		if err != nil {
			return nil, err
		}
		if v == nil {
			absent = append(absent, key)
		}
	}
	return absent, nil
}

// HasDamage reports whether a copy in the store is known to be damaged.
func HasDamage(s *Store) (bool, error) {
	l, err := s.lastListing()
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(l.volumes, func(v *sealedVolume) bool { return v.hasBad.Load() }), nil
}

// Evict replaces volumes by smaller ones without the chunks for which take returns true. Take
// gets the number of the volume. An evicted volume keeps the records of these chunks, so that
// the store still has them, and reads them with [Store.Elsewhere]. All these chunks must be on a
// remote. The volumes must not be in use.
//
// If one of the volumes is evicted already, Evict keeps only its records for which take
// returns true. The other objects are missing afterwards. If a volume has no chunk to
// evict, Evict rewrites it only if it is in merge, so that fewer volumes remain.
func (w *Sweep) Evict(ctx context.Context, volumes []int, merge map[int]bool, take func(int, keys.Record) bool) error {
	taken := map[int]keys.Set{}
	var records []keys.Record
	var sources copier
	var rewrite []int
	for _, i := range volumes {
		e := w.volumes[i]
		taken[i] = keys.NewSet(e.o.index.Len())
		found := false
		for rec, err := range w.Keys(i, object.KindChunk) {
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				return fmt.Errorf("evict chunks: %w", err)
			}
			if take(i, rec) {
				taken[i].Add(rec.Index)
				records = append(records, keys.Record{Key: rec.Key, File: notHere, Raw: rec.Raw})
				found = true
			}
		}
		info := e.v.info.Load()
		sources.addSource(info)
		if found || info.Evicted || merge[i] {
			rewrite = append(rewrite, i)
		}
	}

	if len(rewrite) == 0 {
		return nil
	}
	if len(records) > 0 {
		if err := writeEvicted(w.store, records, sources.created); err != nil {
			return fmt.Errorf("evict chunks: %w", err)
		}
	}

	kept := slices.DeleteFunc(slices.Clone(rewrite), func(i int) bool { return w.volumes[i].v.info.Load().Evicted })
	keep := func(at Place) bool { return !taken[at.Volume].Has(at.Index) }
	if _, err := w.Rewrite(ctx, kept, keep, nil); err != nil {
		return err
	}
	return w.Remove(ctx, func(context.Context) (Removal, error) { return Removal{Volumes: rewrite}, nil })
}

// writeEvicted writes an evicted volume with records. A key may come more than once.
func writeEvicted(s *Store, records []keys.Record, created time.Time) error {
	w, err := s.newWriter("")
	if err != nil {
		return err
	}
	w.created = created
	for _, rec := range records {
		if w.table.findRecord(rec.Key) == nil {
			w.recordObject(addedObject{id: rec.Key.ID, kind: rec.Key.Kind, raw: rec.Raw})
			w.placed++
		}
	}
	if err := w.complete(nil, nil, w.table.sortedNumbers()); err != nil {
		w.abandon()
		return err
	}
	w.lock.Remove()
	_, err = s.listVolumes()
	return err
}

package volume

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"slices"
	"sync/atomic"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/object/frame"
	"github.com/kist-vcs/kist/object/keys"
)

// Lend implements [object.Lender]. The bytes are in storage that is reused.
func (s *Store) Lend(ctx context.Context, key object.Key, use func(data []byte) error) error {
	var data []byte
	var storage *buffer
	err := s.searchKey(ctx, key, func(v *sealed, rec keys.Record) (err error) {
		data, storage, err = v.lend(rec)
		return err
	})
	if err != nil {
		return err
	}
	defer storage.free()
	return use(data)
}

// lend reads the object at rec as read does. The caller frees storage after the use of
// data.
func (v *sealed) lend(rec keys.Record) (data []byte, storage *buffer, err error) {
	o, err := v.opened()
	if err != nil {
		return nil, nil, err
	}

	storage = takeBuffer(int(min(rec.Stored, maxStored)))
	value, err := o.storedValueWith(rec, storage.b, v.store.lendReader(rec.File, int64(rec.Offset), int(rec.Stored)))
	if err == nil {
		if _, raw := frame.Raw(value); !raw { // otherwise, the object is a part of the value
			defer storage.free()
			storage = takeBuffer(int(rec.Raw) + frame.DecodeSlack)
		}
		data, err = v.decode(storage.b, rec, value, nil)
	}
	if err != nil {
		storage.free()
		return nil, nil, v.readError(rec, err)
	}
	return data, storage, nil
}

var _ object.Lender = (*Store)(nil)

// minReadOnce is the size of the smallest stored value that is read with readOnce.
// Neighbours of smaller values are usually read soon.
const minReadOnce = 64 << 10

// readBefore approximates the set of large values that were lent. A value that is lent
// again is in many files, so it is worth its place in the page cache.
type readBefore [1 << 14]atomic.Uint64

// note adds the value at off in a log, and reports whether it was lent before. It may
// confuse two values.
func (r *readBefore) note(log uint32, off int64) bool {
	hash := (uint64(off) ^ uint64(log)<<40) * 0x9e3779b97f4a7c15
	word, bit := &r[hash>>50], uint64(1)<<(hash>>44&63)
	return word.Or(bit)&bit != 0
}

// lendReader returns the function that reads a lent value of n bytes.
func (s *Store) lendReader(log uint32, off int64, n int) readFunc {
	if n < minReadOnce || s.lent.note(log, off) {
		return (*os.File).ReadAt
	}
	return readOnce
}

// View shows the volumes of a store, and the places of objects in them. It numbers the
// volumes from 0. Volumes that appear later get the next numbers. It is not safe for
// concurrent use.
type View struct {
	store   *Store
	locked  bool // only this process removes volumes
	volumes []*viewed
	names   map[string]bool
}

// viewed is a volume of a view.
type viewed struct {
	v    *sealed
	o    *openVolume
	gone bool
}

// ViewVolume describes a volume of a view.
type ViewVolume struct {
	Info
	InUse bool // the session that wrote it is not closed: the volume cannot be removed
	Gone  bool // the sweep removed it
}

// Place is the place of a copy of an object.
type Place struct {
	Volume int   // number of the volume
	Index  int   // number of the object in the order of the volume's keys, from 0
	Stored int64 // bytes of the stored value
	Gone   bool  // the sweep removed the volume
}

// Look returns a view of the store. Other processes may remove volumes, or maintain the
// store: the view still finds the objects in removed volumes. It need not be closed.
func (s *Store) Look(ctx context.Context) (*View, error) {
	w := &View{store: s, names: map[string]bool{}}
	return w, w.Refresh(ctx)
}

// Refresh adds the volumes that have appeared. It returns an error if one cannot be
// searched: a [*object.DamageError] if it is damaged.
func (w *View) Refresh(ctx context.Context) error {
	for {
		err := w.takeUp(ctx)
		if _, damaged := err.(*object.DamageError); err == nil || damaged || w.locked || !isGone(err) {
			return err
		}
		// Another process removed a volume after it was listed.
	}
}

// takeUp adds the volumes that have appeared, once.
func (w *View) takeUp(ctx context.Context) error {
	l, err := w.store.refresh()
	if err != nil {
		return fmt.Errorf("list volumes: %w", err)
	}
	for _, v := range l.volumes {
		if err := ctx.Err(); err != nil {
			return err
		}
		if w.names[v.name] {
			continue
		}
		o, err := v.opened()
		if err == nil {
			_, err = v.describe()
		}
		if err == nil && v.info.Load().Objects != o.index.Len() {
			err = damageError(v.name, keysFile, errors.New("its number of objects is not that of the seal"))
		}
		if err != nil {
			return err
		}
		w.names[v.name] = true
		w.volumes = append(w.volumes, &viewed{v: v, o: o})
	}
	return nil
}

// Len returns the number of volumes, including removed ones.
func (w *View) Len() int { return len(w.volumes) }

// Volume describes volume i.
func (w *View) Volume(i int) ViewVolume {
	e := w.volumes[i]
	info := *e.v.info.Load()
	return ViewVolume{Info: info, Gone: e.gone, InUse: !e.gone && disk.IsLocked(w.store.lockPath(info.Session))}
}

// Find appends the places of all copies of an object to places. It skips copies that are
// known to be damaged. If there are no others, it reads these once more, since a patch
// becomes readable with its base. If it can read none of them, it returns an
// [*object.CorruptError].
func (w *View) Find(key object.Key, places []Place) ([]Place, error) {
	n := len(places)
	var bad []Place
	for i, e := range w.volumes {
		rec, ok, err := e.o.index.Find(key)
		switch {
		case err != nil:
			return places, e.v.indexError(err)
		case !ok || e.v.isDropped(key):
		case e.v.isBad(key):
			bad = append(bad, Place{i, rec.Index, int64(rec.Stored), e.gone})
		default:
			places = append(places, Place{i, rec.Index, int64(rec.Stored), e.gone})
		}
	}
	if len(places) > n || len(bad) == 0 {
		return places, nil
	}
	return w.reread(bad, places)
}

// reread appends the readable copies of bad to places.
func (w *View) reread(bad, places []Place) ([]Place, error) {
	n := len(places)
	var failed error
	for _, at := range bad {
		e := w.volumes[at.Volume]
		rec, err := e.o.index.At(at.Index)
		if err == nil {
			_, err = e.v.read(rec)
		}
		if err != nil && isGone(err) {
			err = e.v.damaged(rec, err)
		}
		if err != nil {
			failed = err
			continue
		}
		e.v.clearBad(rec.Key)
		places = append(places, at)
	}
	if len(places) > n {
		return places, nil
	}
	return places, failed
}

// Damaged returns the objects that are known to be damaged in volume i. Patches of them
// in the volume are read by means of copies in other volumes.
func (w *View) Damaged(i int) []object.Key {
	v := w.volumes[i].v
	v.badMu.Lock()
	defer v.badMu.Unlock()
	return slices.SortedFunc(maps.Keys(v.bad), object.Key.Compare)
}

// Dropped returns the number of dropped objects in volume i.
func (w *View) Dropped(i int) int {
	if dropped := w.volumes[i].v.dropped.Load(); dropped != nil {
		return len(*dropped)
	}
	return 0
}

// Keys yields the records of one kind in volume i.
func (w *View) Keys(i int, kind object.Kind) iter.Seq2[keys.Record, error] {
	o := w.volumes[i].o
	return o.present(o.index.Prefix(kind, nil, 0))
}

// Leftovers describes the volumes of dead writers that were not salvaged.
func (w *View) Leftovers(ctx context.Context) ([]Leftover, error) {
	return deadWriters{w.store}.leftovers(ctx)
}

// TrashSize returns the number of bytes that [Sweep.EmptyTrash] would free.
func (w *View) TrashSize() (int64, error) { return trashBin{w.store}.size() }

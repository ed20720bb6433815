package volume

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/object/keys"
)

// SweepOptions say how a Sweep works.
type SweepOptions struct {
	MaintainOptions

	// LookOnly makes a sweep that changes nothing: what dead writers have left
	// is not taken over.
	LookOnly bool
}

// Sweep removes volumes from a store. Until it is closed, no other process
// removes any; readers and writers go on. It numbers the volumes from 0, and
// volumes that appear later, or that it writes, get the next numbers. It is not
// safe for concurrent use.
type Sweep struct {
	Salvaged int // interrupted writes that were taken over

	// Stays, if not nil, says of a copy in a volume that is not to be stored anew
	// whether it stays, so that no other one is needed. nil: all stay.
	Stays func(Place) bool

	store   *Store
	lock    *disk.FileLock
	volumes []*swept
	names   map[string]bool
	trash   []string // folders of removed volumes, with KEYS
}

// swept is a volume of a sweep.
type swept struct {
	v    *sealed
	o    *openVolume
	gone bool
}

// SweepVolume describes a volume of a sweep.
type SweepVolume struct {
	Info
	InUse bool // the session that wrote it is still at work: it cannot be removed
	Gone  bool // the sweep has removed it
}

// Place is where a copy of an object is.
type Place struct {
	Volume int   // number of the volume
	Index  int   // of the object, counted from 0 in the order of the volume's keys
	Stored int64 // bytes it takes
	Gone   bool  // the sweep has removed the volume
}

// Sweep begins a sweep. Close it. The error is [disk.ErrBusy] if another process
// removes volumes, or maintains the store.
func (s *Store) Sweep(ctx context.Context, o SweepOptions) (*Sweep, error) {
	lock, err := s.lockMaintenance(ctx, o.MaintainOptions)
	if err != nil {
		return nil, err
	}
	w := &Sweep{store: s, lock: lock, names: map[string]bool{}}
	if !o.LookOnly {
		w.Salvaged = s.salvage(ctx)
	}
	if err := w.Refresh(ctx); err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

// Look begins a sweep that can look for objects and remove none. It does not
// mind others that remove volumes, or maintain the store: what they remove is
// still found. It need not be closed.
func (s *Store) Look(ctx context.Context) (*Sweep, error) {
	w := &Sweep{store: s, names: map[string]bool{}}
	return w, w.Refresh(ctx)
}

// lockMaintenance takes the lock of whoever removes volumes.
func (s *Store) lockMaintenance(ctx context.Context, o MaintainOptions) (*disk.FileLock, error) {
	if fs := networkFS(s.dir); fs != "" && !o.SingleHost {
		return nil, fmt.Errorf("maintain object store: it is on a network file system (%s): %w", fs, errors.ErrUnsupported)
	}
	lock, err := disk.Lock(ctx, filepath.Join(s.dir, maintenanceFile), disk.Exclusive, 0)
	if err != nil {
		return nil, fmt.Errorf("maintain object store: %w", err)
	}
	return lock, nil
}

// Close ends the sweep. A second call does nothing.
func (w *Sweep) Close() {
	for _, path := range w.trash {
		disk.RemoveAll(path) // or the next one does
	}
	w.trash = nil
	if w.lock != nil {
		w.lock.Unlock()
	}
}

// Refresh takes up volumes that have appeared. It fails if one cannot be
// searched, with a [*DamageError] if it is damaged.
func (w *Sweep) Refresh(ctx context.Context) error {
	for {
		err := w.takeUp(ctx)
		if _, damaged := err.(*DamageError); err == nil || damaged || w.lock != nil || !isGone(err) {
			return err
		}
		// Somebody else has removed a volume after it was listed.
	}
}

func (w *Sweep) takeUp(ctx context.Context) error {
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
			err = &DamageError{Volume: v.name, File: keysFile, Err: errors.New("not as many objects as the seal tells")}
		}
		if err != nil {
			return err
		}
		w.names[v.name] = true
		w.volumes = append(w.volumes, &swept{v: v, o: o})
	}
	return nil
}

// Len returns how many volumes there are, with those that are gone.
func (w *Sweep) Len() int { return len(w.volumes) }

// Volume describes volume i.
func (w *Sweep) Volume(i int) SweepVolume {
	e := w.volumes[i]
	info := *e.v.info.Load()
	return SweepVolume{Info: info, Gone: e.gone, InUse: !e.gone && disk.IsLocked(w.store.lockPath(info.Session))}
}

// Find appends the places of all copies of an object to places. A copy that is
// known to be damaged does not count. If there are only such, they are read once
// more: a patch is whole again once what it is made from is. If none can be read,
// the error is an [*object.CorruptError]. If there is none, nothing is appended.
func (w *Sweep) Find(key object.Key, places []Place) ([]Place, error) {
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

// reread appends those of bad to places that can be read.
func (w *Sweep) reread(bad, places []Place) ([]Place, error) {
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

// Damaged returns the objects of volume i that are known to be damaged in it. What
// is made from them there is read with the help of copies in other volumes.
func (w *Sweep) Damaged(i int) []object.Key {
	v := w.volumes[i].v
	v.badMu.Lock()
	defer v.badMu.Unlock()
	return slices.SortedFunc(maps.Keys(v.bad), object.Key.Compare)
}

// Dropped returns how many objects volume i has that it is not to have any more.
func (w *Sweep) Dropped(i int) int {
	if dropped := w.volumes[i].v.dropped.Load(); dropped != nil {
		return len(*dropped)
	}
	return 0
}

// Keys yields the objects of one kind in volume i, and their positions.
func (w *Sweep) Keys(i int, kind object.Kind) iter.Seq2[keys.Record, error] {
	e := w.volumes[i]
	return func(yield func(keys.Record, error) bool) {
		for rec, err := range e.o.index.Prefix(kind, nil, 0) {
			if err != nil {
				err = e.v.indexError(err)
			} else if e.v.isDropped(rec.Key) {
				continue
			}
			if !yield(rec, err) || err != nil {
				return
			}
		}
	}
}

// Removal is what [Sweep.Remove] is to do.
type Removal struct {
	Volumes []int                // numbers of those to be removed
	Drop    map[int][]object.Key // by number: objects that volumes which stay are no longer to have
}

// Remove takes volumes out of the store. Decide is called while nobody can
// publish, and says which: everything in them that is needed must be in another
// volume, see [Sweep.Rewrite]. It has to be quick. Then their files are deleted.
// Processes that have such a volume open can go on to read it, or find what was
// copied from it elsewhere. The sweep itself goes on to look into KEYS, which
// stays until it is closed.
func (w *Sweep) Remove(ctx context.Context, decide func(context.Context) (Removal, error)) error {
	removed, err := w.take(ctx, decide)
	if err != nil {
		return fmt.Errorf("remove volumes: %w", err)
	}
	for _, e := range removed {
		path := w.store.inVolumes(trashPrefix + e.v.name)
		w.trash = append(w.trash, path)
		if err := deleteAllBut(path, keysFile); err != nil {
			return fmt.Errorf("remove volumes: %w", err)
		}
	}
	return nil
}

// take has decide say which volumes go, and renames these.
func (w *Sweep) take(ctx context.Context, decide func(context.Context) (Removal, error)) (removed []*swept, err error) {
	lock, err := disk.Lock(ctx, filepath.Join(w.store.dir, gcLockFile), disk.Exclusive, gcLockWait)
	if err != nil {
		return nil, err
	}
	defer lock.Unlock()
	r, err := decide(ctx)
	if err != nil {
		return nil, err
	}
	if err := w.drop(r.Drop); err != nil {
		return nil, err
	}
	var volumes []*sealed
	for _, i := range r.Volumes {
		volumes = append(volumes, w.volumes[i].v)
	}
	if err := w.store.takeOut(volumes); err != nil {
		return nil, err
	}
	for _, i := range r.Volumes {
		e := w.volumes[i]
		e.gone = true
		e.o.closeLogs() // so that the disk is free again
		removed = append(removed, e)
	}
	return removed, w.drop(nil) // what was dropped in volumes that are gone need not be known
}

// EmptyTrash deletes the files of all volumes that were removed earlier, and
// returns how many bytes they had.
func (w *Sweep) EmptyTrash(ctx context.Context) (freed int64, err error) {
	list, err := w.store.trash()
	for _, t := range list {
		if err == nil {
			err = ctx.Err()
		}
		size := int64(0)
		if err == nil {
			size = folderSize(t.path)
			err = deleteTrash(t.path)
		}
		if err != nil {
			return freed, fmt.Errorf("remove volumes: %w", err)
		}
		freed += size
	}
	return freed, err
}

// Leftovers describes what dead writers left and this sweep has not taken over.
func (w *Sweep) Leftovers(ctx context.Context) ([]Leftover, error) { return w.store.leftovers(ctx) }

// TrashSize returns how many bytes EmptyTrash would free.
func (w *Sweep) TrashSize() (int64, error) { return w.store.trashSize() }

// deleteTrash deletes a removed volume's files. The mark goes first, so that an
// interrupted deletion is seen.
func deleteTrash(path string) error {
	if err := deleteAllBut(path, ""); err != nil {
		return err
	}
	return disk.RemoveAll(path)
}

// deleteAllBut is deleteTrash that leaves a file and the folder.
func deleteAllBut(path, name string) error {
	if err := disk.Remove(filepath.Join(path, trashFile)); err != nil && !os.IsNotExist(err) {
		return err
	}
	entries, err := disk.ReadDir(path)
	if os.IsNotExist(err) {
		return nil
	}
	for _, e := range entries {
		if e.Name() != name {
			err = errors.Join(err, disk.RemoveAll(filepath.Join(path, e.Name())))
		}
	}
	return err
}

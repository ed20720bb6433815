package volume

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/object/keys"
)

// SweepOptions configure a [Sweep].
type SweepOptions struct {
	MaintainOptions

	// DryRun makes a sweep that does not salvage the volumes of dead writers. Its
	// caller removes and writes no volumes.
	DryRun bool
}

// Sweep removes volumes from a store. Until it is closed, no other process removes
// any; readers and writers go on. Volumes that it writes get the next numbers of its
// Inventory. It is not safe for concurrent use.
type Sweep struct {
	Inventory
	Salvaged int // number of interrupted writes that were salvaged

	// MayBeOnly, if not nil, reports whether a copy in a volume that is not rewritten may
	// serve as the only copy of its object. If nil, every copy may.
	MayBeOnly func(Place) bool

	lock *disk.FileLock
}

// Sweep begins a sweep. The caller closes it. The error is [disk.ErrBusy] if another
// process sweeps, repairs or maintains the store.
func (s *Store) Sweep(ctx context.Context, o SweepOptions) (*Sweep, error) {
	lock, err := s.lockMaintenance(ctx, o.MaintainOptions)
	if err != nil {
		return nil, err
	}
	w := &Sweep{Inventory: Inventory{store: s, locked: true, names: map[string]bool{}}, lock: lock}
	if !o.DryRun {
		w.Salvaged = deadWriters{s}.salvageAll(ctx)
	}
	if err := w.Refresh(ctx); err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

// lockMaintenance takes the lock under which volumes are removed.
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
	for _, e := range w.volumes {
		if e.gone { // it still has KEYS; after an error, the next sweep deletes it
			disk.RemoveAll(w.store.inVolumes(trashPrefix + e.v.name))
		}
	}
	if w.lock != nil {
		w.lock.Unlock()
	}
}

// Removal lists the volumes and objects that [Sweep.Remove] removes.
type Removal struct {
	Volumes []int                // numbers of the volumes to remove
	Drop    map[int][]object.Key // by number: objects to drop in volumes that stay
}

// Remove removes volumes from the store and deletes their files. It calls decide while no
// process can publish; decide must be quick. Every reachable object of a removed volume
// must be in another one: see [Sweep.Rewrite].
//
// Processes that have a removed volume open can go on reading it, or find the copies of
// its objects. The sweep keeps KEYS of the volume until it is closed.
func (w *Sweep) Remove(ctx context.Context, decide func(context.Context) (Removal, error)) error {
	removed, err := w.moveToTrash(ctx, decide)
	if err != nil {
		return fmt.Errorf("remove volumes: %w", err)
	}
	for _, e := range removed {
		if err := deleteAllBut(w.store.inVolumes(trashPrefix+e.v.name), keysFile); err != nil {
			return fmt.Errorf("remove volumes: %w", err)
		}
	}
	return nil
}

// moveToTrash calls decide, drops objects, and renames the removed volumes.
func (w *Sweep) moveToTrash(ctx context.Context, decide func(context.Context) (Removal, error)) (removed []*listedVolume, err error) {
	lock, err := disk.Lock(ctx, filepath.Join(w.store.dir, gcLockFile), disk.Exclusive, gcLockWait)
	if err != nil {
		return nil, err
	}
	defer lock.Unlock()

	r, err := decide(ctx)
	if err != nil {
		return nil, err
	}
	if err := w.markDropped(r.Drop); err != nil {
		return nil, err
	}

	var volumes []*sealedVolume
	for _, i := range r.Volumes {
		volumes = append(volumes, w.volumes[i].v)
	}
	if err := (trashBin{w.store}).takeOut(volumes); err != nil {
		return nil, err
	}

	for _, i := range r.Volumes {
		e := w.volumes[i]
		e.gone = true
		e.o.eachLog((*volumeFile).closeUntilRead) // closes the logs: an open file keeps its disk space after its deletion
		removed = append(removed, e)
	}
	return removed, w.markDropped(nil) // removes the lines of removed volumes from the file dropped
}

// EmptyTrash deletes the files of all removed volumes, and returns their size in bytes.
func (w *Sweep) EmptyTrash(ctx context.Context) (freed int64, err error) {
	if _, freed, err = (trashBin{w.store}).deleteOlder(ctx, 0, 0); err != nil {
		err = fmt.Errorf("remove volumes: %w", err)
	}
	return freed, err
}

// Rewrite copies the objects for which keep returns true into new volumes, and reads back
// and hashes all of them. It copies no object that another volume has, if that copy may
// serve as the only one (see [Sweep]) and can be read without any other volume.
//
// The rewritten volumes can be removed afterwards. If an object can be read nowhere,
// Rewrite returns an [*object.CorruptError], and no volume must be removed. It calls
// copied, if not nil, with the stored bytes of each object, and returns the number of
// volumes that it wrote.
func (w *Sweep) Rewrite(ctx context.Context, volumes []int, keep func(Place) bool, copied func(int64)) (written int, err error) {
	r := w.newRewriter(volumes, keep)
	err = r.copyKept(ctx, volumes, func(rec keys.Record) {
		if copied != nil {
			copied(int64(rec.Stored))
		}
	})
	r.abandon()
	if err != nil {
		err = fmt.Errorf("rewrite volumes: %w", err)
	}
	return len(r.written), err
}

func (w *Sweep) newRewriter(volumes []int, keep func(Place) bool) *rewriter {
	r := &rewriter{Sweep: w, keep: keep, from: map[int]bool{}, copier: copier{store: w.store, allRepacked: true}}
	for _, i := range volumes {
		r.from[i] = true
		r.addSource(w.volumes[i].v.info.Load())
	}
	return r
}

// rewriter is one call of Rewrite.
type rewriter struct {
	*Sweep
	copier
	keep func(Place) bool
	from map[int]bool
}

func (r *rewriter) copyKept(ctx context.Context, volumes []int, copied func(keys.Record)) error {
	for _, i := range volumes {
		c := &volumeCopier{copier: &r.copier, from: r.volumes[i].v, copied: copied}
		c.wants = func(rec keys.Record) (bool, error) {
			if !r.isKept(i, rec) {
				return false, nil
			}
			has, err := r.inOthers(rec.Key, true)
			return !has, err
		}
		err := r.inLogOrder(ctx, i, func(rec keys.Record) error { return c.copyObject(ctx, rec, 0) })
		if err != nil {
			return err
		}
	}
	return r.sealAndCheck(ctx, volumes)
}

// sealAndCheck seals the last new volume, and checks that every kept object has a copy.
func (r *rewriter) sealAndCheck(ctx context.Context, volumes []int) error {
	if err := r.sealAndReadBack(ctx); err != nil {
		return err
	}
	for _, i := range volumes {
		err := r.volumes[i].v.checkCopied(func(rec keys.Record) (bool, error) {
			if !r.isKept(i, rec) {
				return true, nil
			}
			if has, err := r.hasCopied(rec.Key); has || err != nil {
				return has, err
			}
			return r.inOthers(rec.Key, false)
		})
		if err != nil {
			return err
		}
	}
	return r.Refresh(ctx)
}

// inLogOrder calls each for the kept objects of volume i, in the order of the value logs.
func (r *rewriter) inLogOrder(ctx context.Context, i int, each func(keys.Record) error) error {
	type place struct{ file, offset, index uint32 }
	var places []place
	e := r.volumes[i]
	for rec, err := range e.o.withoutDropped(e.o.index.All()) {
		if err != nil {
			return err
		}
		if r.isKept(i, rec) {
			places = append(places, place{rec.File, rec.Offset, uint32(rec.Index)})
		}
	}
	slices.SortFunc(places, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.offset, b.offset))
	})

	for _, p := range places {
		if err := ctx.Err(); err != nil {
			return err
		}
		rec, err := e.o.index.At(int(p.index))
		if err != nil {
			return e.v.indexError(err)
		}
		if err := each(rec); err != nil {
			return err
		}
	}
	return nil
}

func (r *rewriter) isKept(i int, rec keys.Record) bool {
	return !r.volumes[i].v.isDropped(rec.Key) && r.keep(Place{i, rec.Index, int64(rec.Stored), false})
}

// inOthers reports whether a volume that is not rewritten has an object. With read, it
// reads and hashes the copy.
func (r *rewriter) inOthers(key object.Key, read bool) (bool, error) {
	for i, e := range r.volumes {
		if r.from[i] || e.gone {
			continue
		}
		rec, ok, err := e.v.findRecord(key)
		if err != nil {
			return false, err
		}
		if !ok || rec.File == notHere || e.v.isBad(key) || r.MayBeOnly != nil && !r.MayBeOnly(Place{i, rec.Index, int64(rec.Stored), false}) {
			continue
		}
		if read {
			if err := r.readable(e.v, rec); err != nil {
				r.Sweep.store.warn("%v", err)
				continue
			}
		}
		return true, nil
	}
	return false, nil
}

package volume

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
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
// View. It is not safe for concurrent use.
type Sweep struct {
	View
	Salvaged int // number of interrupted writes that were salvaged

	// Stays, if not nil, reports whether a copy in a volume that is not rewritten may
	// serve as the only copy of its object. If nil, every copy may.
	Stays func(Place) bool

	lock  *disk.FileLock
	trash []string // paths of removed volumes, which still have KEYS
}

// Sweep begins a sweep. The caller closes it. The error is [disk.ErrBusy] if another
// process sweeps, repairs or maintains the store.
func (s *Store) Sweep(ctx context.Context, o SweepOptions) (*Sweep, error) {
	lock, err := s.lockMaintenance(ctx, o.MaintainOptions)
	if err != nil {
		return nil, err
	}
	w := &Sweep{View: View{store: s, locked: true, names: map[string]bool{}}, lock: lock}
	if !o.DryRun {
		w.Salvaged = deadWriters{s}.salvage(ctx)
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
	for _, path := range w.trash {
		disk.RemoveAll(path) // after an error, the next sweep does
	}
	w.trash = nil
	if w.lock != nil {
		w.lock.Unlock()
	}
}

// Removal is the decision about a [Sweep.Remove].
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

// take calls decide, drops objects, and renames the removed volumes.
func (w *Sweep) take(ctx context.Context, decide func(context.Context) (Removal, error)) (removed []*viewed, err error) {
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
	if err := (trashBin{w.store}).takeOut(volumes); err != nil {
		return nil, err
	}
	for _, i := range r.Volumes {
		e := w.volumes[i]
		e.gone = true
		e.o.closeLogs() // this frees their disk space
		removed = append(removed, e)
	}
	return removed, w.drop(nil) // removes the lines of removed volumes
}

// EmptyTrash deletes the files of all removed volumes, and returns their size in bytes.
func (w *Sweep) EmptyTrash(ctx context.Context) (freed int64, err error) {
	list, err := trashBin{w.store}.list()
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

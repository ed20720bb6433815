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

// Sweep begins a sweep. Close it. The error is [disk.ErrBusy] if another process
// removes volumes, or maintains the store.
func (s *Store) Sweep(ctx context.Context, o SweepOptions) (*Sweep, error) {
	lock, err := s.lockMaintenance(ctx, o.MaintainOptions)
	if err != nil {
		return nil, err
	}
	w := &Sweep{View: View{store: s, locked: true, names: map[string]bool{}}, lock: lock}
	if !o.DryRun {
		w.Salvaged = s.salvage(ctx)
	}
	if err := w.Refresh(ctx); err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
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

package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/object/keys"
	"github.com/kist-vcs/kist/object/volume/ingest"
)

// QuarantineDir is the directory in .kist for damaged volumes. Nothing reads or removes
// its content.
const QuarantineDir = "quarantine"

// Repair replaces damaged volumes. Until it is closed, no other process removes volumes;
// readers and writers go on. It is not safe for concurrent use.
type Repair struct {
	store   *Store
	lock    *disk.FileLock
	rebuilt map[string]bool         // volumes whose intact objects are all in other volumes
	found   map[object.Key]struct{} // objects that a dry run would copy; else nil
}

// RepairOptions configure a [Repair].
type RepairOptions struct {
	MaintainOptions

	// DryRun makes a repair that changes nothing. [Repair.Found] has the objects that it
	// would copy.
	DryRun bool
}

// Rebuilt is the result of [Repair.Rebuild] for a volume.
type Rebuilt struct {
	Volume string
	Copied int          // objects that were copied from it
	Lost   []object.Key // objects without an intact copy, if the index of the volume is readable

	// Err is the reason why the volume was not rebuilt: a [*disk.BusyError] if its
	// session is not closed; it matches [object.ErrNewerFormat] if this program does not
	// know the format of the volume.
	Err error
}

// Repair begins a repair. It salvages interrupted writes first, because they may have
// copies of damaged objects. The error is [disk.ErrBusy] if another process sweeps,
// repairs or maintains the store. The caller closes the repair.
func (s *Store) Repair(ctx context.Context, o RepairOptions) (*Repair, error) {
	lock, err := s.lockMaintenance(ctx, o.MaintainOptions)
	if err != nil {
		return nil, err
	}
	r := &Repair{store: s, lock: lock, rebuilt: map[string]bool{}}
	if o.DryRun {
		r.found = map[object.Key]struct{}{}
	} else {
		deadWriters{s}.salvageAll(ctx)
	}
	return r, nil
}

// Close ends the repair.
func (r *Repair) Close() { r.lock.Unlock() }

// Found reports whether a dry run of Rebuild would have copied an object.
func (r *Repair) Found(key object.Key) bool {
	_, ok := r.found[key]
	return ok
}

// Rebuild copies the intact objects of volumes into new ones, except objects that another
// volume has. It reads and hashes the copies in both places. If the index of a volume is
// damaged, Rebuild finds the objects in its value logs. The volumes stay until Quarantine.
func (r *Repair) Rebuild(ctx context.Context, volumes []string) ([]Rebuilt, error) {
	l, err := r.store.listVolumes()
	if err != nil {
		return nil, fmt.Errorf("rebuild volumes: %w", err)
	}
	b := &rebuilder{copier: copier{store: r.store, found: r.found}, from: map[*sealedVolume]bool{}}
	defer b.abandon()

	list := make([]Rebuilt, len(volumes))
	for i, name := range volumes {
		list[i].Volume = name
		if v := l.byName[name]; v != nil { // or it was removed before the repair began
			if list[i].Err = r.reasonToRefuse(v); list[i].Err == nil {
				b.from[v] = true
			}
		}
	}

	for v := range b.from {
		info, err := v.describe()
		if err != nil { // the seal is damaged, so the time is unknown
			b.created = time.Time{}
			break
		}
		b.addSource(info)
	}

	for i, name := range volumes {
		if v := l.byName[name]; v != nil && list[i].Err == nil {
			if err := b.rebuildVolume(ctx, v, &list[i]); err != nil {
				return nil, fmt.Errorf("rebuild volume %s: %w", name, err)
			}
		}
	}
	if err := b.sealAndReadBack(ctx); err != nil {
		return nil, fmt.Errorf("rebuild volumes: %w", err)
	}

	for i := range list {
		if err := b.keepOnlyLost(&list[i]); err != nil {
			return nil, fmt.Errorf("rebuild volumes: %w", err)
		}
		if list[i].Err == nil {
			r.rebuilt[list[i].Volume] = true
		}
	}
	return list, nil
}

// reasonToRefuse returns the reason why a volume cannot be rebuilt, or nil.
func (r *Repair) reasonToRefuse(v *sealedVolume) error {
	info, err := v.describe()
	if errors.Is(err, object.ErrNewerFormat) {
		return err
	}
	if err != nil {
		if _, err := v.ensureOpen(); errors.Is(err, object.ErrNewerFormat) {
			return err
		}
		return r.openSession()
	}
	return r.inUse(r.store.lockPath(info.Session))
}

// openSession returns a [*disk.BusyError] if any session is not closed.
func (r *Repair) openSession() error {
	entries, err := disk.ReadDir(r.store.path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ingest.DirPrefix) && strings.HasSuffix(e.Name(), lockSuffix) {
			if err := r.inUse(r.store.inVolumes(e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *Repair) inUse(lock string) error {
	if disk.IsLocked(lock) {
		return &disk.BusyError{File: lock}
	}
	return nil
}

// Quarantine moves volumes that were rebuilt into the directory quarantine, and returns
// their new paths below .kist. Processes that have such a volume open can go on reading
// it.
func (r *Repair) Quarantine(ctx context.Context, volumes []string) (moved []string, err error) {
	if moved, err = r.quarantine(ctx, volumes); err != nil {
		err = fmt.Errorf("move damaged volumes away: %w", err)
	}
	return moved, err
}

func (r *Repair) quarantine(ctx context.Context, volumes []string) (moved []string, err error) {
	lock, err := disk.Lock(ctx, filepath.Join(r.store.dir, gcLockFile), disk.Exclusive, gcLockWait)
	if err != nil {
		return nil, err
	}
	defer lock.Unlock()

	dir := filepath.Join(r.store.dir, QuarantineDir)
	if err := disk.Mkdir(dir, 0o777); err != nil && !os.IsExist(err) {
		return nil, err
	}
	if err := disk.SyncDir(r.store.dir); err != nil {
		return nil, err
	}

	for _, name := range volumes {
		if !r.rebuilt[name] {
			return moved, fmt.Errorf("volume %s was not rebuilt", name)
		}
		err := renameNew(r.store.inVolumes(name), filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was removed before
		}
		if err != nil {
			return moved, err
		}
		moved = append(moved, QuarantineDir+"/"+name)
	}

	if err := errors.Join(disk.SyncDir(dir), disk.SyncDir(r.store.path)); err != nil {
		return moved, err
	}
	_, err = r.store.listVolumes()
	return moved, err
}

// rebuilder is one call of Rebuild.
type rebuilder struct {
	copier
	from map[*sealedVolume]bool
}

// rebuildVolume copies the intact objects of a volume.
func (b *rebuilder) rebuildVolume(ctx context.Context, v *sealedVolume, res *Rebuilt) error {
	// Read the files as they are now, not as they were when v was opened.
	fresh := &sealedVolume{name: v.name, path: v.path, store: b.store}
	defer fresh.closeFiles()

	c := &volumeCopier{copier: &b.copier, from: fresh}
	c.wants = func(rec keys.Record) (bool, error) { return !v.isDropped(rec.Key) && !b.elsewhere(rec.Key), nil }
	c.lost = func(rec keys.Record, err error) error {
		res.Lost = append(res.Lost, rec.Key)
		return systemError(err)
	}
	c.copied = func(keys.Record) { res.Copied++ }

	o, err := fresh.ensureOpen()
	if err == nil {
		if err := c.copyIndexed(ctx, o.index); err != nil {
			return err
		}
		if o.index.Verify() == nil {
			return nil
		}
	}

	found, err := fresh.openLogs(ctx)
	if err != nil {
		return systemError(err)
	}
	defer found.closeFiles()
	c.from = found
	lost := len(res.Lost) // an unreadable object outside the index may never have been complete
	err = c.copyIndexed(ctx, found.open.Load().index)
	res.Lost = res.Lost[:lost]
	return err
}

// copyIndexed copies the objects of an index up to the first damage of the index.
func (c *volumeCopier) copyIndexed(ctx context.Context, index *keys.Reader) error {
	for rec, err := range index.All() {
		if err != nil {
			break
		}
		if err := c.copyObject(ctx, rec, 0); err != nil {
			return err
		}
	}
	return nil
}

// systemError returns err if it comes from the system (permissions, memory, open files), and
// nil if it means damaged or missing data.
func systemError(err error) error {
	for _, other := range []error{fs.ErrPermission, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM} {
		if errors.Is(err, other) {
			return err
		}
	}
	return nil
}

// elsewhere reports whether a volume that is not rebuilt has an intact copy.
func (b *rebuilder) elsewhere(key object.Key) bool {
	l, err := b.store.lastListing()
	if err != nil {
		return false
	}
	for other, rec := range l.usableCopies(key) {
		if !b.from[other] && b.readable(other, rec) == nil {
			return true
		}
	}
	return false
}

// keepOnlyLost removes from res.Lost the objects that another volume has.
func (b *rebuilder) keepOnlyLost(res *Rebuilt) error {
	lost := res.Lost[:0]
	for _, key := range res.Lost {
		has, err := b.hasCopied(key)
		if err != nil {
			return err
		}
		if !has && !b.elsewhere(key) {
			lost = append(lost, key)
		}
	}
	res.Lost = lost
	return nil
}

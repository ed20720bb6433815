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
)

// QuarantineDir is the folder in .kist for what was damaged. Nothing reads what
// is in it, or removes it.
const QuarantineDir = "quarantine"

// Repair replaces volumes that are damaged. Until it is closed, no other process
// removes volumes; readers and writers go on. It is not safe for concurrent use.
type Repair struct {
	store   *Store
	lock    *disk.FileLock
	rebuilt map[string]bool         // volumes of which all that is whole is elsewhere
	found   map[object.Key]struct{} // what would be copied; nil: it is
}

// RepairOptions say how a Repair works.
type RepairOptions struct {
	MaintainOptions

	// DryRun makes a repair that changes nothing. [Repair.Found] tells what
	// would be copied.
	DryRun bool
}

// Rebuilt tells what [Repair.Rebuild] did with a volume.
type Rebuilt struct {
	Volume string
	Copied int          // objects that were copied from it
	Lost   []object.Key // that are whole nowhere, as far as the index of the volume can be read

	// Err says why the volume was left alone: a [*disk.BusyError] if the session
	// that wrote it is still at work; it matches [object.ErrNewerFormat] if
	// the volume is none that this program knows.
	Err error
}

// Repair begins a repair. Interrupted writes are taken over first: they may have
// what is damaged elsewhere. The error is [disk.ErrBusy] if another process
// removes volumes, or maintains the store. Close it.
func (s *Store) Repair(ctx context.Context, o RepairOptions) (*Repair, error) {
	lock, err := s.lockMaintenance(ctx, o.MaintainOptions)
	if err != nil {
		return nil, err
	}
	r := &Repair{store: s, lock: lock, rebuilt: map[string]bool{}}
	if o.DryRun {
		r.found = map[object.Key]struct{}{}
	} else {
		s.salvage(ctx)
	}
	return r, nil
}

// Close ends the repair.
func (r *Repair) Close() { r.lock.Unlock() }

// Found reports whether Rebuild would have copied an object.
func (r *Repair) Found(key object.Key) bool {
	_, ok := r.found[key]
	return ok
}

// Rebuild copies all that is whole in volumes, of which some may be damaged, into
// new ones, unless a volume that is not among them has it; both are read and
// hashed. Where the index of a volume is damaged, its value logs tell what is in
// them. The volumes stay, until [Repair.Quarantine].
func (r *Repair) Rebuild(ctx context.Context, volumes []string) ([]Rebuilt, error) {
	l, err := r.store.refresh()
	if err != nil {
		return nil, fmt.Errorf("rebuild volumes: %w", err)
	}
	b := &rebuilder{copier: copier{store: r.store}, from: map[*sealed]bool{}, found: r.found}
	defer b.abandon()
	list := make([]Rebuilt, len(volumes))
	for i, name := range volumes {
		list[i].Volume = name
		if v := l.byName[name]; v != nil { // or it was removed before the repair began
			if list[i].Err = r.refuses(v); list[i].Err == nil {
				b.from[v] = true
			}
		}
	}
	b.created = b.youngest()
	for i, name := range volumes {
		if v := l.byName[name]; v != nil && list[i].Err == nil {
			if err := b.volume(ctx, v, &list[i]); err != nil {
				return nil, fmt.Errorf("rebuild volume %s: %w", name, err)
			}
		}
	}
	if err := b.seal(ctx); err != nil {
		return nil, fmt.Errorf("rebuild volumes: %w", err)
	}
	for i := range list {
		if err := b.settle(&list[i]); err != nil {
			return nil, fmt.Errorf("rebuild volumes: %w", err)
		}
		if list[i].Err == nil {
			r.rebuilt[list[i].Volume] = true
		}
	}
	return list, nil
}

// refuses says why a volume is to be left alone, or nil.
func (r *Repair) refuses(v *sealed) error {
	info, err := v.describe()
	if errors.Is(err, object.ErrNewerFormat) {
		return err
	}
	if err != nil {
		if _, err := v.opened(); errors.Is(err, object.ErrNewerFormat) {
			return err
		}
		return r.sessionAtWork()
	}
	return r.inUse(r.store.lockPath(info.Session))
}

// sessionAtWork returns an error if any session is.
func (r *Repair) sessionAtWork() error {
	entries, err := disk.ReadDir(r.store.path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), tmpPrefix) && strings.HasSuffix(e.Name(), lockSuffix) {
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

// Quarantine moves volumes out of the store, into the folder quarantine. All
// that is whole in them is elsewhere: they were rebuilt. It returns where they
// are, as paths below .kist. Processes that have such a volume open can go on to
// read it.
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
	if err := syncDir(r.store.dir); err != nil {
		return nil, err
	}
	for _, name := range volumes {
		if !r.rebuilt[name] {
			return moved, fmt.Errorf("volume %s was not rebuilt", name)
		}
		err := renameNew(r.store.inVolumes(name), filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was gone before
		}
		if err != nil {
			return moved, err
		}
		moved = append(moved, QuarantineDir+"/"+name)
	}
	if err := errors.Join(syncDir(dir), syncDir(r.store.path)); err != nil {
		return moved, err
	}
	_, err = r.store.refresh()
	return moved, err
}

// rebuilder is one call of Rebuild.
type rebuilder struct {
	copier
	from  map[*sealed]bool
	found map[object.Key]struct{} // not nil: nothing is copied
	other []byte                  // a stored value
}

// youngest returns when the youngest volume was sealed; zero: that is not known
// of all.
func (b *rebuilder) youngest() (t time.Time) {
	for v := range b.from {
		info, err := v.describe()
		if err != nil {
			return time.Time{}
		}
		if info.Created.After(t) {
			t = info.Created
		}
	}
	return t
}

// volume copies what is whole in a volume.
func (b *rebuilder) volume(ctx context.Context, v *sealed, res *Rebuilt) error {
	// As it is on disk now, not as it was when it was opened.
	fresh := &sealed{name: v.name, path: v.path, store: b.store}
	defer fresh.close()
	o, err := fresh.opened()
	whole := err == nil && o.index.Verify() == nil
	if err == nil {
		for rec, err := range o.index.All() {
			if err != nil {
				break // the logs tell the rest
			}
			if err := b.record(ctx, v, fresh, rec, res, 0); err != nil {
				return err
			}
		}
	}
	if whole {
		return nil
	}
	found, err := fresh.openLogs(ctx)
	if err != nil {
		return trouble(err)
	}
	defer found.close()
	lost := len(res.Lost) // what the logs have beside may never have been an object here
	for rec, err := range found.open.Load().index.All() {
		if err == nil {
			err = b.record(ctx, v, found, rec, res, 0)
		}
		if err != nil {
			return err
		}
	}
	res.Lost = res.Lost[:lost]
	return nil
}

// trouble returns err if it says nothing about what is on the disk, so that a
// volume is not to be taken for damaged, and nil if it does.
func trouble(err error) error {
	for _, other := range []error{fs.ErrPermission, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM} {
		if errors.Is(err, other) {
			return err
		}
	}
	return nil
}

// record copies the object of a record, if it is whole, after what it is a patch
// of. From is v as it is on disk now. Above patches hang on the object.
func (b *rebuilder) record(ctx context.Context, v, from *sealed, rec keys.Record, res *Rebuilt, above int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if has, err := b.copied(rec.Key); has || err != nil || v.isDropped(rec.Key) || b.elsewhere(rec.Key) {
		return err
	}
	value, failed, err := b.value(ctx, v, from, rec, res, above)
	if failed == nil {
		failed = trouble(err)
	}
	if failed != nil {
		return failed
	}
	if err != nil {
		res.Lost = append(res.Lost, rec.Key)
		return nil
	}
	if has, err := b.copied(rec.Key); has || err != nil { // patches of each other
		value.free()
		return err
	}
	res.Copied++
	if b.found != nil {
		b.found[rec.Key] = struct{}{}
		value.free()
		return nil
	}
	return b.add(ctx, rec.Key, value, int(rec.Raw))
}

// value returns the value of an object that is to be copied, verified, after it
// copied what that is a patch of. Failed is what went wrong with that; err says
// that the object is not whole.
func (b *rebuilder) value(ctx context.Context, v, from *sealed, rec keys.Record, res *Rebuilt, above int) (value *buffer, failed, err error) {
	o := from.open.Load()
	value, err = b.store.carry(ctx, from, o, rec, func(base object.Key) (bool, error) {
		if at, ok, err := o.index.Find(base); ok && err == nil && above < maxChain {
			failed = b.record(ctx, v, from, at, res, above+1)
		}
		return b.found != nil || b.w != nil && b.w.takesPatch(base), failed
	})
	return value, failed, err
}

// copied reports whether an object was copied, or would have been.
func (b *rebuilder) copied(key object.Key) (bool, error) {
	if _, ok := b.found[key]; ok {
		return true, nil
	}
	return b.has(key)
}

// elsewhere reports whether a volume that is not rebuilt has an object, whole.
func (b *rebuilder) elsewhere(key object.Key) bool {
	l, err := b.store.current()
	if err != nil {
		return false
	}
	for _, other := range l.volumes {
		if b.from[other] {
			continue
		}
		rec, ok, err := other.find(key)
		if err != nil || !ok || other.isBad(key) {
			continue
		}
		if value, err := other.readAlone(rec, b.other); err == nil {
			b.other = value
			return true
		}
	}
	return false
}

// settle drops from the list of what is lost what was found in another volume.
func (b *rebuilder) settle(res *Rebuilt) error {
	lost := res.Lost[:0]
	for _, key := range res.Lost {
		has, err := b.copied(key)
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

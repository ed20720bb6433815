// Package volume is the local object store: a directory of sealed volumes.
//
// A volume is one Badger database, or if it is small only a value log. One process writes
// it once and seals it. After that, its files are never opened for writing, and are read
// without Badger. So an error of Badger, a damaged file or a full disk cannot harm older
// objects. Package ingest is the only one that imports Badger.
//
// A [Store] reads, and a [Session] writes. Any number of processes can have sessions
// at the same time, each with volumes of its own, and readers wait for none of them.
// A ref or an index that makes objects reachable is written inside [Session.Publish].
//
// docs/format/volume.md describes the format.
package volume

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/object/keys"
	"github.com/kist-vcs/kist/object/volume/ingest"
)

// listing is the sealed volumes of one moment, newest first. It never changes.
type listing struct {
	volumes []*sealedVolume
	byName  map[string]*sealedVolume
}

// usableCopies yields the records of an object, except copies that are known to be damaged. It
// skips unreadable volumes.
func (l *listing) usableCopies(key object.Key) iter.Seq2[*sealedVolume, keys.Record] {
	return func(yield func(*sealedVolume, keys.Record) bool) {
		for _, v := range l.volumes {
			if rec, ok, err := v.findRecord(key); err == nil && ok && !v.isBad(key) && !yield(v, rec) {
				return
			}
		}
	}
}

// lastListing returns the last listing, and makes one if there is none.
func (s *Store) lastListing() (*listing, error) {
	if l := s.list.Load(); l != nil {
		return l, nil
	}
	return s.listVolumes()
}

// listVolumes lists the volumes. If none came or went, it returns the listing that was
// current, so that equal listings are the same pointer.
func (s *Store) listVolumes() (*listing, error) {
	s.refreshing.Lock()
	defer s.refreshing.Unlock()
	if s.closed {
		return nil, errClosed
	}
	entries, err := disk.ReadDir(s.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}

	old := s.list.Load()
	next := &listing{byName: map[string]*sealedVolume{}}
	var added []*sealedVolume
	for _, e := range slices.Backward(entries) {
		name := e.Name()
		if !isName(name) {
			continue
		}
		var v *sealedVolume
		if old != nil {
			v = old.byName[name]
		}
		if v == nil {
			v = &sealedVolume{name: name, path: filepath.Join(s.path, name), store: s}
			added = append(added, v)
		}
		next.volumes = append(next.volumes, v)
		next.byName[name] = v
	}

	if err := s.loadDropped(next.volumes, added); err != nil {
		return nil, err
	}
	if old != nil && len(added) == 0 && len(next.volumes) == len(old.volumes) {
		return old, nil
	}

	loadDamaged(s.inVolumes(damagedFile), added)
	s.list.Store(next)
	return next, nil
}

// Relist lists the volumes, as a search for a missing object does. The
// garbage collector later closes files of removed volumes, which frees their disk space.
func Relist(s *Store) error {
	_, err := s.listVolumes()
	return err
}

// Info describes a volume.
type Info struct {
	Name    string
	Session string    // the session that wrote it
	Created time.Time // when it was sealed, to the second
	Objects int
	Raw     int64 // bytes of its objects
	Stored  int64 // bytes of the stored values
	Bytes   int64 // bytes of its files

	// Evicted is true if the objects are on a remote: see [Sweep.Evict].
	Evicted bool

	// Repacked is true if [Sweep.Repack] wrote the volume, or if it was copied from
	// such volumes.
	Repacked bool
}

// Volumes describes all volumes, newest first. If it cannot describe one, it returns an
// error together with the others.
func (s *Store) Volumes(ctx context.Context) ([]Info, error) {
	var infos []Info
	err := s.searchVolumes(ctx, func() { infos = nil }, func(v *sealedVolume) (bool, error) {
		info, err := v.describe()
		if err == nil {
			infos = append(infos, *info)
		}
		return false, err
	})
	if err != nil {
		err = fmt.Errorf("list volumes: %w", err)
	}
	return infos, err
}

// Size returns the number of bytes of all volumes, of removed volumes whose files still
// exist, and of the volumes of dead writers.
func (s *Store) Size(ctx context.Context) (int64, error) {
	infos, err := s.Volumes(ctx)
	if err != nil {
		return 0, err
	}
	trash, err := trashBin{s}.trashSize()
	if err != nil {
		return 0, err
	}
	size, err := deadWriters{s}.leftSize()
	size += trash
	for _, info := range infos {
		size += info.Bytes
	}
	return size, err
}

// Oldest returns the time when the oldest volume was begun, or zero.
func (s *Store) Oldest() time.Time {
	l, err := s.lastListing()
	if err != nil || len(l.volumes) == 0 {
		return time.Time{}
	}
	return nameTime(l.volumes[len(l.volumes)-1].name)
}

// describe returns the content of SEAL. It reads the file once.
func (v *sealedVolume) describe() (*Info, error) {
	if info := v.info.Load(); info != nil {
		return info, nil
	}
	dir, err := disk.OpenRoot(v.path)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	s, n, err := readSeal(dir)
	if err != nil {
		if systemError(err) == nil && (!isGone(err) || v.dirExists()) {
			err = damageError(v.name, sealName, err)
		}
		return nil, err
	}
	info := &Info{Name: v.name, Session: s.Session, Created: s.Created,
		Objects: int(s.Objects), Raw: int64(s.Raw), Stored: int64(s.Stored), Bytes: n, Repacked: s.Repacked}
	for _, f := range s.Files {
		info.Bytes += f.Size
	}
	info.Evicted = !slices.ContainsFunc(s.Files, func(f sealFile) bool { _, log := ingest.LogNumber(f.Name); return log })
	v.info.Store(info)
	return info, nil
}

// readSeal decodes the SEAL in dir. It also returns its size.
func readSeal(dir *os.Root) (*seal, int64, error) {
	f, err := openFile(dir, sealName)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSealSize+1))
	if err != nil {
		return nil, 0, err
	}
	s, err := decodeSeal(data)
	return s, int64(len(data)), err
}

// Names below .kist.
const (
	volumesDir      = "volumes"
	gcLockFile      = "gc.lock"
	maintenanceFile = "maintenance.lock"
)

// gcLockWait is the longest wait for the lock on publishing and removing. Every process
// holds it for moments only. A process that gives up has to start over.
const gcLockWait = time.Hour

// Names below volumes/, beside [ingest.DirPrefix]. Each is followed by a ULID, and a sealed
// volume is a ULID alone. The lock of a volume that is written or salvaged is tmp-<ulid>.lock,
// even while its folder has the salvage prefix.
const (
	salvagePrefix = "salvage-"
	trashPrefix   = "trash-"
	lockSuffix    = ".lock"
)

// Names in a volume, beside the files of package ingest.
const (
	keysFile  = "KEYS"
	sealName  = "SEAL"
	trashFile = "TRASH"
)

// makeVolumesDir makes volumes/, durably, if it does not exist.
func makeVolumesDir(kistDir string) error {
	err := disk.Mkdir(filepath.Join(kistDir, volumesDir), 0o777)
	if os.IsExist(err) {
		return nil
	}
	if err == nil {
		err = disk.SyncDir(kistDir)
	}
	return err
}

// renameChecked renames a directory to a name that must not exist, on systems that cannot
// do both in one step. A rename never replaces a directory with content.
func renameChecked(from, to string) error {
	if _, err := disk.Lstat(to); !os.IsNotExist(err) {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: os.ErrExist}
	}
	return disk.Rename(from, to)
}

// The default limits of a volume.
const (
	DefaultMaxBytes   = 4 << 30
	DefaultMaxObjects = 1_000_000
)

// Options configure a [Store] and give it its environment.
type Options struct {
	Now  func() time.Time // the clock; must be set
	Rand io.Reader        // for names; nil stands for the system's source
	Warn func(string)     // called with problems that do not stop an operation; may be nil

	// ReadOnly makes Close write nothing, because this process only copies from the store.
	ReadOnly bool

	// Lazy means that trees, manifests and chunks may be away: remotes have promised to keep them, and
	// [Store.Elsewhere] fetches them.
	Lazy bool

	// A session seals a volume, and begins the next, when it has this many bytes or
	// objects. Zero stands for DefaultMaxBytes and DefaultMaxObjects.
	MaxBytes   int64
	MaxObjects int

	ingest ingest.Options // only tests set it
}

func (o *Options) setDefaults() error {
	if o.Now == nil {
		return errors.New("open object store: Options.Now is not set")
	}
	if o.Rand == nil {
		o.Rand = rand.Reader
	}
	if o.Warn == nil {
		o.Warn = func(string) {}
	}
	if o.ingest.SetDefaults() {
		o.MaxBytes = min(cmp.Or(o.MaxBytes, ingest.LimitedBytes), ingest.LimitedBytes)
	}
	o.MaxBytes = cmp.Or(o.MaxBytes, DefaultMaxBytes)
	o.MaxObjects = cmp.Or(o.MaxObjects, DefaultMaxObjects)
	return nil
}

// damageError returns the error for a file of a volume that is damaged or unreadable. File ""
// stands for the volume's directory.
func damageError(volume, file string, err error) error {
	return &object.DamageError{Name: filepath.Join(volumesDir, volume, file), Err: err}
}

// StaleError lists the objects that a session found in the store and that gc removed
// since. The caller puts them and retries Publish. If Keys is empty, the objects are
// unknown, and the caller needs a new session.
type StaleError struct{ Keys []object.Key }

func (e *StaleError) Error() string {
	if len(e.Keys) == 0 {
		return "objects were removed meanwhile"
	}
	if len(e.Keys) == 1 {
		return fmt.Sprintf("%s was removed meanwhile", e.Keys[0])
	}
	return fmt.Sprintf("%d objects were removed meanwhile", len(e.Keys))
}

// isGone reports whether a file or directory does not exist, or was closed because its
// volume was removed.
func isGone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, os.ErrClosed)
}

package volume

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/frame"
	"github.com/kist-vcs/kist/object/keys"
)

// Store reads the objects of a repository. It is an [object.Reader], and safe for
// concurrent use.
type Store struct {
	// Elsewhere, if not nil, has the evicted objects. The store verifies the bytes that Get
	// returns. Elsewhere must be safe for concurrent use. The caller sets it before the first use
	// of the store, whose Close closes it. Room returns the number of bytes of fetched
	// objects that may be stored here.
	//
	// FindUnkept returns the objects that no remote has now, and the ones that a remote has and none promises to keep. With
	// an error, a remote that could not be asked may keep them. See [CheckAway].
	Elsewhere interface {
		object.BatchReader
		io.Closer
		Room() int64
		FindUnkept(ctx context.Context, keys []object.Key) (gone, unkept []object.Key, err error)
	}

	// Published, if not nil, is called each time that a session has published, or failed to
	// after it may have changed names. No lock of the store is held then.
	Published func(ctx context.Context)

	dir   string // .kist
	path  string // .kist/volumes
	o     Options
	frame *frame.Encoder
	bases *frame.BaseCache[basePlace]
	readBefore
	files *files

	fetched

	lost atomic.Pointer[map[object.Key]struct{}] // see SetLost; nil: none

	list        atomic.Pointer[listing]
	refreshing  sync.Mutex // guards the following
	closed      bool
	droppedInfo fs.FileInfo // of the file dropped at its last read, or nil
}

var errClosed = errors.New("object store is closed")

// Open returns the store in kistDir, the path of a .kist directory. It opens no volume
// and writes nothing. A store without volumes is empty.
func Open(kistDir string, o Options) (*Store, error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(kistDir)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("open object store: %w", err)
	}

	s := &Store{dir: dir, path: filepath.Join(dir, volumesDir), o: o, frame: frame.NewEncoder(frame.Fastest), bases: frame.NewBaseCache[basePlace](maxBaseBytes), files: newFiles(), fetched: fetched{lazy: o.Lazy}}
	s.fetched.store = s
	if _, err := s.listVolumes(); err != nil {
		return nil, fmt.Errorf("open object store: %w", err)
	}

	if kind := networkFS(dir); kind != "" {
		s.warn("the repository is on a network file system (%s): do not use it from two machines at once", kind)
	}
	return s, nil
}

// Close saves the list of damaged copies and closes the files of the store. Calls that
// are under way may fail.
func (s *Store) Close() (err error) {
	s.fetched.close()
	s.refreshing.Lock()
	defer s.refreshing.Unlock()
	if s.Elsewhere != nil && !s.closed {
		err = s.Elsewhere.Close()
	}
	s.closed = true
	if l := s.list.Swap(nil); l != nil {
		if !s.o.ReadOnly {
			l.saveDamaged(s)
		}
		for _, v := range l.volumes {
			v.closeFiles()
		}
	}
	return err
}

// searchVolumes calls try for each volume, newest first, until try is done. If it is never
// done, and volumes came or went meanwhile, it calls reset and tries all volumes
// once more: an object is missing only if two equal listings agree. The error of a
// removed volume counts only if the volume is still listed.
func (s *Store) searchVolumes(ctx context.Context, reset func(), try func(*sealedVolume) (done bool, err error)) error {
	if err := ctx.Err(); err != nil {
		return err
	}

	l, err := s.lastListing()
	for {
		if err != nil {
			return fmt.Errorf("list volumes: %w", err)
		}
		reset()
		var failed []error
		for _, v := range l.volumes {
			if err := ctx.Err(); err != nil {
				return err
			}
			done, err := try(v)
			if done {
				return nil
			}
			if err != nil && isGone(err) {
				err = damageError(v.name, "", err)
			}
			failed = append(failed, err)
		}

		var next *listing
		if next, err = s.listVolumes(); next == l && err == nil {
			return errors.Join(failed...)
		}
		l = next
	}
}

// searchKey calls try for each copy of an object, in the newest volume first, until try
// succeeds. It returns an [*object.AbsentError] if no volume has the object.
func (s *Store) searchKey(ctx context.Context, key object.Key, try func(*sealedVolume, keys.Record) error) error {
	found := false
	err := s.searchVolumes(ctx, func() {}, func(v *sealedVolume) (bool, error) {
		rec, ok, err := v.findRecord(key)
		if !ok || err != nil {
			return false, err
		}
		err = try(v, rec)
		found = err == nil
		return found, err
	})
	switch {
	case err != nil:
		return corruptOf(key, err)
	case !found:
		return &object.AbsentError{Key: key}
	}
	return nil
}

// Get implements [object.Reader]. It verifies the hash of the object. If a copy is
// damaged, it tries the copies in other volumes. It fetches an object that is away. If it cannot, the error is an
// [*object.AwayError].
func (s *Store) Get(ctx context.Context, key object.Key) (data []byte, err error) {
	err = s.searchKey(ctx, key, func(v *sealedVolume, rec keys.Record) (err error) {
		if rec.File == notHere {
			data, err = v.readAway(ctx, rec)
		} else {
			data, err = v.readObject(rec)
		}
		return err
	})
	if errors.Is(err, object.ErrNotFound) && mayBeAway(s, key) {
		return fetchAway(ctx, s, key)
	}
	return data, err
}

// corruptOf turns an error of search into one about key: if a damaged volume may have the
// object, the object counts as damaged.
func corruptOf(key object.Key, err error) error {
	var damage *object.CorruptError
	var volume *object.DamageError
	switch {
	case errors.As(err, &damage):
		return damage
	case errors.As(err, &volume):
		return &object.CorruptError{Key: key, Where: volume.Name, Err: volume.Err}
	}
	return err
}

// Missing implements [object.Reader]. It does not read the objects. An evicted object that no
// remote had at the last look is missing (see [CheckAway]). In a lazy store, no object is missing that may be away: see
// [Absent]. It returns an
// [*object.CorruptError] if no readable volume has a key and some volume is unreadable.
func (s *Store) Missing(ctx context.Context, wanted []object.Key) ([]object.Key, error) {
	var missing []object.Key
	err := s.searchVolumes(ctx, func() { missing = slices.Clone(wanted) }, func(v *sealedVolume) (bool, error) {
		var failed error
		missing = slices.DeleteFunc(missing, func(key object.Key) bool {
			rec, ok, err := v.findRecord(key)
			if err != nil {
				failed = err
			}
			return ok && (rec.File != notHere || !v.isBad(key))
		})
		return len(missing) == 0, failed
	})
	if len(missing) == 0 {
		return nil, err
	}
	if err != nil {
		return nil, corruptOf(missing[0], err)
	}
	if !s.o.Lazy {
		return missing, nil
	}
	l, err := s.lastListing()
	return slices.DeleteFunc(missing, func(key object.Key) bool { return mayBeAway(s, key) && l.evictedCopies(key) == nil }), err
}

// findObject returns a volume that has key, and the number of its record there, or nil. It
// skips copies that are known to be damaged, and unreadable volumes. An evicted copy counts
// only if there is no other.
func (s *Store) findObject(key object.Key) (v *sealedVolume, index int, err error) {
	v, index, _, err = findCopy(s, key)
	return v, index, err
}

// findHere is findObject without evicted copies: a caller that has the bytes must not rely on
// those.
func findHere(s *Store, key object.Key) (*sealedVolume, int, error) {
	v, index, away, err := findCopy(s, key)
	if away {
		return nil, 0, err
	}
	return v, index, err
}

// findCopy returns the results of findObject. Away means that the copy is evicted.
func findCopy(s *Store, key object.Key) (at *sealedVolume, index int, away bool, err error) {
	l, err := s.lastListing()
	if err != nil {
		return nil, 0, false, err
	}
	for v, rec := range l.usableCopies(key) {
		if rec.File != notHere {
			return v, rec.Index, false, nil
		}
		if at == nil {
			at, index, away = v, rec.Index, true
		}
	}
	return at, index, away, nil
}

// Has reports whether the store has an object, without reading it.
func (s *Store) Has(ctx context.Context, key object.Key) (bool, error) {
	missing, err := s.Missing(ctx, []object.Key{key})
	return err == nil && len(missing) == 0, err
}

// StoredSize returns the size of an object and of its stored value, in bytes. The stored
// value of an evicted object counts as large as the object. It returns an
// [*object.AbsentError] if no volume has the object, or an [*object.AwayError] if it may be away: then its size is unknown.
func (s *Store) StoredSize(ctx context.Context, key object.Key) (raw, stored int64, err error) {
	err = s.searchKey(ctx, key, func(_ *sealedVolume, rec keys.Record) error {
		raw, stored = int64(rec.Raw), int64(rec.Stored)
		if rec.File == notHere {
			stored = raw // the real size is unknown
		}
		return nil
	})
	if errors.Is(err, object.ErrNotFound) && mayBeAway(s, key) {
		err = &object.AwayError{Key: key}
	}
	return raw, stored, err
}

// Prefix returns the IDs of one kind that begin with the hexadecimal digits of hexPrefix,
// sorted: at most limit of them, or all if limit is 0.
func (s *Store) Prefix(ctx context.Context, kind object.Kind, hexPrefix string, limit int) ([]object.ID, error) {
	n := len(hexPrefix)
	prefix, err := hex.DecodeString(hexPrefix + "0"[:n%2])
	if err != nil || n > 2*len(object.ID{}) {
		return nil, fmt.Errorf("prefix %q: not hexadecimal digits of an ID", hexPrefix)
	}

	var ids []object.ID
	err = s.searchVolumes(ctx, func() { ids = nil }, func(v *sealedVolume) (bool, error) {
		o, err := v.ensureOpen()
		if err != nil {
			return false, err
		}
		found := 0
		for rec, err := range o.withoutDropped(o.index.Prefix(kind, prefix, 4*n)) {
			if err != nil {
				return false, err
			}
			ids = append(ids, rec.Key.ID)
			if found++; found == limit {
				break
			}
		}
		return false, nil
	})
	if err != nil {
		return nil, fmt.Errorf("look for prefix %s: %w", hexPrefix, err)
	}

	slices.SortFunc(ids, object.ID.Compare)
	ids = slices.Compact(ids)
	if limit > 0 && len(ids) > limit {
		ids = ids[:limit]
	}
	return ids, nil
}

// Keys yields every key of every volume. A key comes once for each volume that has it.
// The first error ends the sequence.
func (s *Store) Keys(ctx context.Context) iter.Seq2[object.Key, error] {
	return func(yield func(object.Key, error) bool) {
		seen := map[*sealedVolume]bool{}
		stop := false
		err := s.searchVolumes(ctx, func() {}, func(v *sealedVolume) (bool, error) {
			if seen[v] {
				return false, nil
			}
			o, err := v.ensureOpen()
			if err != nil {
				return false, err
			}
			for rec, err := range o.withoutDropped(o.index.All()) {
				if err == nil {
					err = ctx.Err()
				}
				if err != nil {
					return false, err
				}
				if !yield(rec.Key, nil) {
					stop = true
					return true, nil
				}
			}
			seen[v] = true
			return false, nil
		})
		if err != nil && !stop {
			yield(object.Key{}, fmt.Errorf("list objects: %w", err))
		}
	}
}

// inVolumes returns the path of a name in the directory of the volumes.
func (s *Store) inVolumes(name string) string { return filepath.Join(s.path, name) }

// warn reports a problem that does not stop the operation.
func (s *Store) warn(format string, args ...any) { s.o.Warn(fmt.Sprintf(format, args...)) }

var _ object.Reader = (*Store)(nil)

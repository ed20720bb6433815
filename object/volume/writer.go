package volume

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
)

// Objects are written in transactions of at most this many bytes or entries;
// a larger object has one of its own.
const (
	batchBytes   = 1 << 20
	batchEntries = 128
)

// writer is a volume being written, in the folder tmp-<ulid>. It is safe for
// concurrent use, but for seal and abandon.
type writer struct {
	store   *Store
	name    string // its ULID
	session string
	dir     string // tmp-<ulid>
	lock    *disk.FileLock
	keep    bool      // the lock is kept when the volume is sealed
	created time.Time // what the seal tells; zero: when it is sealed

	optimised bool // what the seal tells

	mu      sync.Mutex // guards the following
	table   *table
	stored  int64
	raw     int64
	batches []*batch // by number; nil once all places are known
	filling *batch
	err     error // the first; nothing is written after it

	committing sync.Mutex // guards the following
	db         *database
	space      *space
	walks      []*logWalker // through each value log, up to where places are noted
	placed     int          // objects whose place is noted
}

// batch is the objects of one transaction.
type batch struct {
	number  uint32
	keys    []object.Key
	entries []*badger.Entry // Badger's while they are committed
	values  []*buffer
	size    int64 // of the entries in the value log

	file *os.File // the value log it was written to, once it was; guarded by the writer's mu
}

// newWriter begins a volume for a session, which is the new volume itself if
// session is "". The lock is held from before its folder is made.
func (s *Store) newWriter(session string) (w *writer, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("begin a volume: %w", err)
		}
	}()
	if err := makeVolumesDir(s.dir); err != nil {
		return nil, err
	}
	name, lock, err := s.lockNew()
	if err != nil {
		return nil, err
	}
	w = &writer{store: s, name: name, session: session, dir: s.inVolumes(tmpPrefix + name), lock: lock, table: newTable()}
	if session == "" {
		w.session = name
	}
	if err := disk.Mkdir(w.dir, 0o777); err != nil {
		w.lock.Remove()
		return nil, err
	}
	if err = checkFree(w.dir, opening); err == nil {
		w.db, err = openDatabase(w.dir, &s.o)
	}
	if err == nil {
		w.space, err = newSpace(w.dir, &s.o)
	}
	if err != nil {
		w.abandon()
		return nil, err
	}
	return w, nil
}

// lockNew makes up a new volume's name and takes its lock.
func (s *Store) lockNew() (name string, lock *disk.FileLock, err error) {
	for {
		if name, err = newName(s.o.Now(), s.o.Rand); err != nil {
			return "", nil, err
		}
		// Who looks for dead writers may be quicker to take the lock.
		if lock, err = disk.Lock(context.Background(), s.lockPath(name), disk.Exclusive, 0); !errors.Is(err, disk.ErrBusy) {
			return name, lock, err
		}
	}
}

// lockPath returns the path of the lock of a volume that is written or
// salvaged.
func (s *Store) lockPath(name string) string { return s.inVolumes(tmpPrefix + name + lockSuffix) }

// add puts a stored value into the volume, and takes value over. The key must
// not be there yet; what a patch is made from must be, see takesPatch. The value
// may be written only by a later call, or by seal.
func (w *writer) add(key object.Key, value *buffer, raw int) error {
	stored := len(value.b)
	pad := padding(stored)
	value.b = append(value.b, make([]byte, pad)...)
	size := entrySize(stored + pad)
	entry := &badger.Entry{Key: encodeKey(key), Value: value.b, UserMeta: byte(pad)}

	w.mu.Lock()
	if w.err != nil {
		w.mu.Unlock()
		return w.err
	}
	var full []*batch
	if b := w.filling; b != nil && b.size+size > batchBytes {
		full, w.filling = append(full, b), nil
	}
	if w.filling == nil {
		w.filling = &batch{number: uint32(len(w.batches))}
		w.batches = append(w.batches, w.filling)
	}
	b := w.filling
	b.keys, b.entries, b.values = append(b.keys, key), append(b.entries, entry), append(b.values, value)
	b.size += size
	w.table.add(written{id: key.ID, kind: key.Kind, depth: w.depth(key, value.b), batch: b.number, stored: uint32(stored), raw: uint32(raw)})
	w.stored += int64(stored)
	w.raw += int64(raw)
	if b.size >= batchBytes || len(b.entries) == batchEntries {
		full, w.filling = append(full, b), nil
	}
	w.mu.Unlock()

	for _, b := range full {
		if err := w.commit(b); err != nil {
			return err
		}
	}
	return nil
}

// flush commits what is not committed yet. No call of add may be under way.
func (w *writer) flush() error {
	w.mu.Lock()
	b, err := w.filling, w.err
	w.filling = nil
	w.mu.Unlock()
	if b != nil && err == nil {
		err = w.commit(b)
	}
	return err
}

// commit writes a batch, and gives its buffers back. Batches are written one
// after the other.
func (w *writer) commit(b *batch) error {
	w.committing.Lock()
	defer w.committing.Unlock()
	if err := w.failed(); err != nil {
		return err
	}
	n := len(b.entries)
	err := w.space.reserve(n, b.size)
	if err == nil {
		err = w.db.commit(b.entries)
	}
	if err == nil {
		err = w.space.wrote(n, b.size)
	}
	if err != nil {
		return w.fail(err)
	}
	w.mu.Lock()
	b.file = w.space.log()
	values := b.values
	b.keys, b.entries, b.values = nil, nil, nil
	w.mu.Unlock()
	for _, v := range values {
		v.free()
	}
	if err := w.writeBack(); err != nil {
		return w.fail(err)
	}
	return nil
}

// writeBack has what was written go to disk, and out of memory, every now and
// then. Where it is has to be known before. w.committing is held.
func (w *writer) writeBack() error {
	full := w.space.off > w.store.o.logFileSize
	if !full && w.space.off-w.space.begun < window {
		if w.space.off-w.space.started < startStep {
			return nil
		}
		return w.space.startWriting()
	}
	if err := w.locate(); err != nil {
		return err
	}
	if err := w.space.writeBack(); err != nil {
		return err
	}
	if !full {
		return nil
	}
	return w.space.nextLog()
}

// fail makes err the writer's error, unless it has one, and returns it.
func (w *writer) fail(err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = fmt.Errorf("write volume: %w", err)
	}
	return w.err
}

func (w *writer) failed() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// full reports whether the volume is to be sealed.
func (w *writer) full() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stored >= w.store.o.MaxBytes || w.table.n >= w.store.o.MaxObjects
}

// has reports whether key was put into the volume.
func (w *writer) has(key object.Key) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.table.find(key) != nil
}

// get returns an object that was put into the volume; ok is false if it was
// not.
func (w *writer) get(key object.Key) (data []byte, ok bool, err error) {
	w.mu.Lock()
	r := w.table.find(key)
	if r == nil {
		w.mu.Unlock()
		return nil, false, nil
	}
	raw, b := int(r.raw), w.batches[r.batch]
	if b.file == nil {
		var value []byte
		if i := slices.Index(b.keys, key); i >= 0 {
			value = append(value, b.values[i].b[:r.stored]...)
		}
		w.mu.Unlock()
		data, err = decode(key, value, raw)
	} else {
		w.mu.Unlock()
		data, err = w.read(key, b, raw)
	}
	if err != nil {
		err = &object.CorruptError{Key: key, Where: filepath.Base(w.dir), Err: err}
	}
	return data, true, err
}

// read reads an object of a batch that was committed.
func (w *writer) read(key object.Key, b *batch, raw int) ([]byte, error) {
	r := w.record(key)
	if !r.placed {
		if err := w.locateAll(); err != nil {
			return nil, err
		}
		r = w.record(key)
	}
	if !r.placed {
		return nil, errors.New("not where it was written")
	}
	value := make([]byte, r.stored)
	if n, err := b.file.ReadAt(value, int64(r.offset)); n < len(value) {
		return nil, err
	}
	return decode(key, value, raw)
}

// record returns what is known of an object that was put into the volume.
func (w *writer) record(key object.Key) written {
	w.mu.Lock()
	defer w.mu.Unlock()
	return *w.table.find(key)
}

// locate notes where the objects are that were committed since it last did:
// Badger does not keep the order of a batch. w.committing is held.
func (w *writer) locate() error { return w.walk(len(w.space.logs)-1, w.space.off) }

// locateAll is locate, for who does not hold w.committing.
func (w *writer) locateAll() error {
	w.committing.Lock()
	defer w.committing.Unlock()
	return w.locate()
}

// walk goes on through value log number i, which has so many bytes now, and
// notes where the objects in it are. Anything else there is an error.
// w.committing is held.
func (w *writer) walk(i int, size int64) error {
	if i == len(w.walks) {
		walk := newLogWalker(w.space.logs[i], size, logHeaderSize)
		walk.hash = sha256.New()
		if err := walk.start(); err != nil {
			return fmt.Errorf("%s: %w", logName(uint32(i)+1), err)
		}
		w.walks = append(w.walks, walk)
	}
	walk := w.walks[i]
	walk.size = size
	for {
		e, err := walk.next()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = w.place(uint16(i)+1, e)
		}
		if err != nil {
			return fmt.Errorf("%s at %d: %w", logName(uint32(i)+1), walk.pos, err)
		}
	}
}

// place notes where an object is.
func (w *writer) place(log uint16, e logEntry) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch r := w.table.find(e.key); {
	case r == nil:
		return fmt.Errorf("%s was never put", e.key)
	case r.placed:
		return fmt.Errorf("%s is there twice", e.key)
	case int(r.stored) != e.stored():
		return fmt.Errorf("%s has %d stored bytes, want %d", e.key, e.stored(), r.stored)
	default:
		r.placed, r.file, r.offset = true, log, uint32(e.value)
	}
	w.placed++
	return nil
}

// abandon removes the volume. If Badger does not let go of it, its files go
// nevertheless. A volume that has got its name stays: the error was one of
// making that durable, and its files are everybody's.
func (w *writer) abandon() {
	if _, err := disk.Lstat(w.dir); w.space != nil && err == nil {
		w.space.forget()
	}
	if w.db != nil {
		w.db.close()
	}
	if w.space != nil {
		w.space.close()
	}
	disk.RemoveAll(w.dir)
	if !w.keep {
		w.lock.Remove()
	}
}

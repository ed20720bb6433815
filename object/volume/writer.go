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

// The limits of a transaction. A larger object has a transaction of its own.
const (
	batchBytes          = 1 << 20
	defaultBatchEntries = 128
)

// writer writes a volume in the directory tmp-<ulid>. It is safe for concurrent use,
// except for seal and abandon. The lock of output is taken before that of intake.
type writer struct {
	store   *Store
	name    string // its ULID
	session string
	dir     string // tmp-<ulid>
	lock    *disk.FileLock
	keep    bool      // seal and abandon do not release the lock
	created time.Time // time in the seal; zero stands for the time of sealing

	optimised bool // the seal marks the volume as optimised

	intake
	output
}

// intake has the objects that were added to a volume.
type intake struct {
	mu      sync.Mutex // guards the following
	table   *table
	stored  int64
	raw     int64
	batches []*batch // by number
	filling *batch
	err     error // the first error; nothing is written after it
}

// output has the files of a volume that is being written.
type output struct {
	committing sync.Mutex // guards the following
	db         *database
	space      *space
	walks      []*logWalker // one for each value log, after its last object with a known place
	placed     int          // number of objects whose place is known
}

// batch has the objects of one transaction.
type batch struct {
	number  uint32
	keys    []object.Key
	entries []*badger.Entry // Badger owns them while they are committed
	values  []*buffer
	size    int64 // of the entries in the value log

	file *os.File // the value log with the batch, or nil before; guarded by the mu of the writer
}

// newWriter begins a volume of a session. If session is "", the volume is the first of
// its session and names it. The lock is taken before the directory is made.
func (s *Store) newWriter(session string) (_ *writer, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("begin a volume: %w", err)
		}
	}()
	if err := makeVolumesDir(s.dir); err != nil {
		return nil, err
	}
	w := &writer{store: s, session: session, intake: intake{table: newTable()}}
	for {
		if w.name, err = newName(s.o.Now(), s.o.Rand); err != nil {
			return nil, err
		}
		w.lock, err = disk.Lock(context.Background(), s.lockPath(w.name), disk.Exclusive, 0)
		if err == nil {
			break
		}
		// A process that looks for dead writers may have taken the lock first.
		if !errors.Is(err, disk.ErrBusy) {
			return nil, err
		}
	}
	if session == "" {
		w.session = w.name
	}

	w.dir = s.inVolumes(tmpPrefix + w.name)
	if err := disk.Mkdir(w.dir, 0o777); err != nil {
		w.lock.Remove()
		return nil, err
	}
	return w, nil
}

// openDatabase begins the database, if there is none. The caller holds w.committing.
func (w *writer) openDatabase() error {
	if w.db != nil {
		return nil
	}
	err := checkFree(w.dir, opening)
	if err != nil {
		return err
	}
	if w.db, err = openDatabase(w.dir, &w.store.o); err == nil {
		w.space, err = newSpace(w.dir, &w.store.o)
	}
	return err
}

// lockPath returns the path of the lock for writing or salvaging a volume.
func (s *Store) lockPath(name string) string { return s.inVolumes(tmpPrefix + name + lockSuffix) }

// add adds a stored value to the volume, and owns value afterwards. The volume must not
// have the key, and must have the base of a patch: see takesPatch. A later call, or seal,
// may be the one that writes the value.
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
	w.count(written{id: key.ID, kind: key.Kind, depth: w.depth(key, value.b), batch: b.number, stored: uint32(stored), raw: uint32(raw)})
	if b.size >= batchBytes || len(b.entries) >= w.store.o.batchEntries {
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

// count adds a record to the table. The caller holds w.mu.
func (w *intake) count(r written) {
	w.table.add(r)
	w.stored += int64(r.stored)
	w.raw += int64(r.raw)
}

// flush commits the rest. No call of add may be under way.
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

// commit writes a batch and frees its buffers. Batches are written one after the other.
func (w *writer) commit(b *batch) error {
	w.committing.Lock()
	defer w.committing.Unlock()
	if err := w.failed(); err != nil {
		return err
	}

	n := len(b.entries)
	err := w.openDatabase()
	if err == nil {
		err = w.space.reserve(n, b.size)
	}
	if err == nil {
		err = w.db.commit(b.entries)
	}
	if err == nil {
		err = w.space.wrote(n, b.size)
	}
	if err != nil {
		return w.fail(err)
	}
	w.wrote(b, w.space.log())
	if err := w.writeBack(); err != nil {
		return w.fail(err)
	}
	return nil
}

// wrote records the value log to which a batch was written, and frees its buffers.
func (w *intake) wrote(b *batch, log *os.File) {
	w.mu.Lock()
	b.file = log
	values := b.values
	b.keys, b.entries, b.values = nil, nil, nil
	w.mu.Unlock()
	for _, v := range values {
		v.free()
	}
}

// writeBack writes the log to disk, and drops it from memory, after each window. Before
// that, it determines the places of the objects. The caller holds w.committing.
func (w *writer) writeBack() error {
	full := w.space.off > w.store.o.logFileSize
	if !full && w.space.off-w.space.freed < window {
		if w.space.off-w.space.started < startStep {
			return nil
		}
		return w.space.startWriting()
	}

	if err := w.findPlaces(); err != nil {
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

// fail makes err the error of the writer, unless it has one. It returns the error of the
// writer.
func (w *intake) fail(err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = fmt.Errorf("write volume: %w", err)
	}
	return w.err
}

// fail is [intake.fail]. It explains an error of the database.
func (w *writer) fail(err error) error { return w.intake.fail(disk.Explain(w.dir, err)) }

// failed returns the error of the writer.
func (w *intake) failed() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// full reports whether the volume has reached a limit, so that it must be sealed.
func (w *writer) full() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stored >= w.store.o.MaxBytes || w.table.n >= w.store.o.MaxObjects
}

// size returns the stored bytes of the volume.
func (w *intake) size() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stored
}

// has reports whether key was added.
func (w *intake) has(key object.Key) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.table.find(key) != nil
}

// get returns an object that was added. Ok is false if it was not.
func (w *writer) get(key object.Key) (data []byte, ok bool, err error) {
	w.mu.Lock()
	r := w.table.find(key)
	if r == nil {
		w.mu.Unlock()
		return nil, false, nil
	}
	raw, b := int(r.raw), w.batches[r.batch]
	var value []byte
	if i := slices.Index(b.keys, key); i >= 0 { // it was not written yet
		value = slices.Clone(b.values[i].b[:r.stored])
	}
	w.mu.Unlock()

	if value == nil {
		value, err = w.read(key, b.file)
	}
	if err == nil {
		data, err = decode(key, value, raw)
	}
	if err != nil {
		err = &object.CorruptError{Key: key, Where: filepath.Base(w.dir), Err: err}
	}
	return data, true, err
}

// read reads the stored value of an object in a value log.
func (w *writer) read(key object.Key, log *os.File) ([]byte, error) {
	r := w.record(key)
	if !r.placed {
		if err := w.findAllPlaces(); err != nil {
			return nil, err
		}
		r = w.record(key)
	}
	if !r.placed {
		return nil, errors.New("not in the value log")
	}

	value := make([]byte, r.stored)
	if n, err := log.ReadAt(value, int64(r.offset)); n < len(value) {
		return nil, err
	}
	return value, nil
}

// record returns the record of an object that was added.
func (w *intake) record(key object.Key) written {
	w.mu.Lock()
	defer w.mu.Unlock()
	return *w.table.find(key)
}

// findPlaces determines the places of objects that were committed since its last call: Badger
// does not keep the order of a batch. The caller holds w.committing.
func (w *writer) findPlaces() error { return w.walk(len(w.space.logs)-1, w.space.off) }

// findAllPlaces is findPlaces for a caller that does not hold w.committing.
func (w *writer) findAllPlaces() error {
	w.committing.Lock()
	defer w.committing.Unlock()
	return w.findPlaces()
}

// walk continues through value log number i, which has size bytes now, and records the
// places of its objects. It returns an error for any other content. The caller holds
// w.committing.
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

// place records the place of an object.
func (w *writer) place(log uint16, e logEntry) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch r := w.table.find(e.key); {
	case r == nil:
		return fmt.Errorf("%s was never put", e.key)
	case r.placed:
		return fmt.Errorf("%s was written twice", e.key)
	case int(r.stored) != e.stored():
		return fmt.Errorf("%s has %d stored bytes, want %d", e.key, e.stored(), r.stored)
	default:
		r.placed, r.file, r.offset = true, log, uint32(e.value)
	}
	w.placed++
	return nil
}

// abandon removes the volume, even if Badger cannot close it. A volume that was renamed
// already stays: only making that durable failed, and other processes may use it.
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

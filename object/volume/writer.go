package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/object/volume/ingest"
)

// writer writes a volume in the directory tmp-<ulid>. It is safe for concurrent use,
// except for sealVolume and abandon. The lock of the logs is taken before that of intake.
type writer struct {
	store   *Store
	name    string // its ULID
	session string
	dir     string // tmp-<ulid>
	lock    *disk.FileLock
	keep    bool      // sealVolume and abandon do not release the lock
	created time.Time // time in the seal; zero stands for the time of sealing

	repacked bool // the seal marks the volume as repacked

	logs *ingest.Writer
	intake
}

// intake records the objects that were added to a volume.
type intake struct {
	mu      sync.Mutex // guards the following
	table   *table
	stored  int64
	raw     int64
	batches []*batch // by number
	filling *batch
	placed  int   // number of objects whose place is known
	err     error // the first error; nothing is written after it
}

// batch is a number of objects that are written together.
type batch struct {
	ingest.Batch
	number uint32
	keys   []object.Key
	values []*buffer

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

	w.dir = s.inVolumes(ingest.DirPrefix + w.name)
	w.logs = ingest.NewWriter(w.dir, &s.o.ingest, w.setPlace)
	if err := disk.Mkdir(w.dir, 0o777); err != nil {
		w.lock.Remove()
		return nil, err
	}
	return w, nil
}

// lockPath returns the path of the lock for writing or salvaging a volume.
func (s *Store) lockPath(name string) string {
	return s.inVolumes(ingest.DirPrefix + name + lockSuffix)
}

// addValue adds a stored value to the volume, and owns value afterwards. The volume must not
// have the key, and must have the base of a patch: see takesPatch. A later call, or sealVolume,
// may be the one that writes the value.
func (w *writer) addValue(key object.Key, value *buffer, raw int) error {
	stored := len(value.b)
	value.b = ingest.Pad(value.b)

	w.mu.Lock()
	if w.err != nil {
		w.mu.Unlock()
		return w.err
	}
	var full []*batch
	if b := w.filling; b != nil && w.store.o.ingest.IsFull(&b.Batch, stored) {
		full, w.filling = append(full, b), nil
	}
	if w.filling == nil {
		w.filling = &batch{number: uint32(len(w.batches))}
		w.batches = append(w.batches, w.filling)
	}
	b := w.filling
	b.keys, b.values = append(b.keys, key), append(b.values, value)
	b.Add(key, value.b, stored)
	w.recordObject(addedObject{id: key.ID, kind: key.Kind, depth: w.patchDepth(key, value.b), batch: b.number, stored: uint32(stored), raw: uint32(raw)})
	if w.store.o.ingest.IsComplete(&b.Batch) {
		full, w.filling = append(full, b), nil
	}
	w.mu.Unlock()

	for _, b := range full {
		if err := w.commitBatch(b); err != nil {
			return err
		}
	}
	return nil
}

// recordObject adds a record to the table, and its bytes to the totals. The caller holds w.mu.
func (w *intake) recordObject(r addedObject) {
	w.table.addRecord(r)
	w.stored += int64(r.stored)
	w.raw += int64(r.raw)
}

// commitRest commits the rest. No call of addValue may be under way.
func (w *writer) commitRest() error {
	w.mu.Lock()
	b, err := w.filling, w.err
	w.filling = nil
	w.mu.Unlock()
	if b != nil && err == nil {
		err = w.commitBatch(b)
	}
	return err
}

// commitBatch writes a batch and frees its buffers.
func (w *writer) commitBatch(b *batch) error {
	log, err := w.logs.WriteBatch(&b.Batch)
	if err != nil {
		return w.failVolume(err)
	}
	w.noteWritten(b, log)
	return nil
}

// noteWritten records the value log to which a batch was written, and frees its buffers.
func (w *intake) noteWritten(b *batch, log *os.File) {
	w.mu.Lock()
	b.file = log
	values := b.values
	b.keys, b.values, b.Batch = nil, nil, ingest.Batch{}
	w.mu.Unlock()
	for _, v := range values {
		v.free()
	}
}

// setError makes err the error of the writer, unless it has one. It returns the error of the
// writer.
func (w *intake) setError(err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = fmt.Errorf("write volume: %w", err)
	}
	return w.err
}

// failVolume is [intake.setError]. It explains an error of the database.
func (w *writer) failVolume(err error) error { return w.intake.setError(disk.Explain(w.dir, err)) }

// firstError returns the error of the writer.
func (w *intake) firstError() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// isFull reports whether the volume has reached a limit, so that it must be sealed.
func (w *writer) isFull() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stored >= w.store.o.MaxBytes || w.table.n >= w.store.o.MaxObjects
}

// storedSize returns the stored bytes of the volume.
func (w *intake) storedSize() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stored
}

// hasObject reports whether key was added.
func (w *intake) hasObject(key object.Key) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.table.findRecord(key) != nil
}

// getUnsealed returns an object that was added. Ok is false if it was not.
func (w *writer) getUnsealed(key object.Key) (data []byte, ok bool, err error) {
	w.mu.Lock()
	r := w.table.findRecord(key)
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
		value, err = w.readValue(key, b.file)
	}
	if err == nil {
		data, err = decode(key, value, raw)
	}
	if err != nil {
		err = &object.CorruptError{Key: key, Where: filepath.Base(w.dir), Err: err}
	}
	return data, true, err
}

// readValue reads the stored value of an object in a value log.
func (w *writer) readValue(key object.Key, log *os.File) ([]byte, error) {
	r := w.recordOf(key)
	if !r.placed {
		if err := w.logs.FindPlaces(); err != nil {
			return nil, err
		}
		r = w.recordOf(key)
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

// recordOf returns the record of an object that was added.
func (w *intake) recordOf(key object.Key) addedObject {
	w.mu.Lock()
	defer w.mu.Unlock()
	return *w.table.findRecord(key)
}

// setPlace records the place of an object, which must be the one that was added.
func (w *intake) setPlace(log uint16, e ingest.Entry) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch r := w.table.findRecord(e.Key); {
	case r == nil:
		return fmt.Errorf("%s was never put", e.Key)
	case r.placed:
		return fmt.Errorf("%s was written twice", e.Key)
	case int(r.stored) != e.Stored():
		return fmt.Errorf("%s has %d stored bytes, want %d", e.Key, e.Stored(), r.stored)
	default:
		r.placed, r.file, r.offset = true, log, uint32(e.Value)
	}
	w.placed++
	return nil
}

// abandon removes the volume, even if Badger cannot close it. It keeps a volume that was
// renamed already: only making that durable failed, and other processes may use it.
func (w *writer) abandon() {
	w.logs.Abandon()
	disk.RemoveAll(w.dir)
	if !w.keep {
		w.lock.Remove()
	}
}

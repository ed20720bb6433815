package ingest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
)

// Batch collects the stored values of one transaction.
type Batch struct {
	entries []*badger.Entry // Badger owns them while they are committed
	size    int64           // of the entries in the value log
}

// IsFull reports whether b must be written before a value of the given stored bytes is added.
func (o *Options) IsFull(b *Batch, stored int) bool {
	return len(b.entries) > 0 && (b.size+EntrySize(stored) > batchBytes || len(b.entries) >= o.BatchEntries)
}

// IsComplete reports whether b should be written now.
func (o *Options) IsComplete(b *Batch) bool {
	return b.size >= batchBytes || len(b.entries) >= o.BatchEntries
}

// Add adds a stored value of the given length, which [Pad] has padded. The batch uses the
// bytes until it is written.
func (b *Batch) Add(key object.Key, padded []byte, stored int) {
	b.entries = append(b.entries, &badger.Entry{Key: encodeKey(key), Value: padded, UserMeta: byte(len(padded) - stored)})
	b.size += EntrySize(stored)
}

// Writer writes the value logs of a growing volume. It is safe for concurrent use, except
// for WriteSmall, Finish, Abandon and Close. After an error of WriteBatch, each later call of
// it returns that error.
type Writer struct {
	dir   string
	o     *Options
	place func(log uint16, e Entry) error

	mu    sync.Mutex // guards the following
	db    *database
	space *space
	walks []*LogWalker // one for each value log, after its last object with a known place
	err   error
}

// NewWriter returns a writer for the directory of a volume. It calls place once for each
// object that it wrote, with the number of the value log. Calls of place do not overlap; its
// error is that of the method that called it.
func NewWriter(dir string, o *Options, place func(log uint16, e Entry) error) *Writer {
	return &Writer{dir: dir, o: o, place: place}
}

// HasDatabase reports whether a batch was written to Badger, so that Finish must close it.
func (w *Writer) HasDatabase() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.db != nil
}

// openBadger begins the database, if there is none. The caller holds w.mu.
func (w *Writer) openBadger() error {
	if w.db != nil {
		return nil
	}
	err := checkFree(w.dir, opening)
	if err != nil {
		return err
	}
	if w.db, err = openDatabase(w.dir, w.o); err == nil {
		w.space, err = newSpace(w.dir, w.o)
	}
	return err
}

// WriteBatch writes a batch to a value log, which it returns. Batches are written one after
// the other. The caller owns the bytes of the batch after success.
func (w *Writer) WriteBatch(b *Batch) (log *os.File, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return nil, w.err
	}
	if log, err = w.writeBatch(b); err != nil {
		w.err = err
	}
	return log, err
}

func (w *Writer) writeBatch(b *Batch) (log *os.File, err error) {
	n := len(b.entries)
	if err := w.openBadger(); err != nil {
		return nil, err
	}
	if err := w.space.reserveBatch(n, b.size); err != nil {
		return nil, err
	}
	if err := w.db.commitEntries(b.entries); err != nil {
		return nil, err
	}
	if err := w.space.countBatch(n, b.size); err != nil {
		return nil, err
	}
	log = w.space.currentLog()
	return log, w.writeBack()
}

// writeBack writes the log to disk, and drops it from memory, after each window. Before
// that, it determines the places of the objects. The caller holds w.mu.
func (w *Writer) writeBack() error {
	full := w.space.off > w.o.LogFileSize
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
	return w.space.openNextLog()
}

// FindPlaces reports the places of the objects that were written since its last call.
func (w *Writer) FindPlaces() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.findPlaces()
}

// findPlaces is FindPlaces for a caller that holds w.mu.
func (w *Writer) findPlaces() error { return w.walkLog(len(w.space.logs)-1, w.space.off) }

// walkLog continues through value log number i, which has size bytes now, and reports the
// places of its objects. It returns an error for any other content. The caller holds w.mu.
func (w *Writer) walkLog(i int, size int64) error {
	if i == len(w.walks) {
		walk, err := NewHashingWalker(w.space.logs[i], size)
		if err != nil {
			return fmt.Errorf("%s: %w", LogName(uint32(i)+1), err)
		}
		w.walks = append(w.walks, walk)
	}

	walk := w.walks[i]
	walk.size = size
	for {
		e, err := walk.NextEntry()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = w.place(uint16(i)+1, e)
		}
		if err != nil {
			return fmt.Errorf("%s at %d: %w", LogName(uint32(i)+1), walk.pos, err)
		}
	}
}

// ScannedLog describes a complete value log.
type ScannedLog struct {
	Name string
	Size int64
	Sum  [sha256.Size]byte // of everything except the values
}

// ScanLogs reads the rest of all value logs. It reports the places of the objects, and
// returns an error for any other content. A volume without objects has no logs.
func (w *Writer) ScanLogs() (logs []ScannedLog, err error) {
	w.mu.Lock() // objects are read meanwhile
	defer w.mu.Unlock()
	if w.space == nil {
		return nil, nil
	}
	for i, f := range w.space.logs {
		st, err := f.Stat()
		if err != nil {
			return nil, err
		}
		if err := w.walkLog(i, st.Size()); err != nil {
			return nil, err
		}
		logs = append(logs, ScannedLog{Name: LogName(uint32(i) + 1), Size: st.Size(), Sum: w.walks[i].Sum()})
	}
	return logs, nil
}

// Finish closes the database and removes its unused files. It finds the places of all objects
// and then calls meanwhile, both while Badger closes. It returns the names of the remaining
// files except value logs, and the bytes of MANIFEST.
func (w *Writer) Finish(meanwhile func()) (files []string, manifest []byte, err error) {
	db := w.db
	if err := checkFree(w.dir, w.space.closingBytes()); err != nil {
		return nil, nil, err
	}
	if err := w.space.startWriting(); err != nil {
		return nil, nil, err
	}

	// From here on, Badger is closed, or failed and is not used.
	w.db = nil
	closed := make(chan error, 1)
	go func() { closed <- db.closeInTime() }()
	// Closing takes some time, and the value logs are complete already.
	err = w.FindPlaces()
	meanwhile()
	if err := errors.Join(<-closed, err); err != nil {
		return nil, nil, err
	}

	if err := w.space.removeUnused(); err != nil {
		return nil, nil, err
	}
	if files, err = w.leftFiles(); err != nil {
		return nil, nil, err
	}
	manifest, err = disk.ReadFile(filepath.Join(w.dir, ManifestFile))
	return files, manifest, err
}

// leftFiles removes files of Badger that a sealed volume does not have, and returns the
// names of the others, except value logs. It returns an error for an unexpected name,
// above all for a memtable: that would have keys that are in no table.
func (w *Writer) leftFiles() (names []string, err error) {
	for _, name := range []string{"DISCARD", "KEYREGISTRY", "LOCK"} {
		if err := disk.Remove(filepath.Join(w.dir, name)); err != nil && !os.IsNotExist(err) {
			return nil, err
		}
	}

	entries, err := disk.ReadDir(w.dir)
	if err != nil {
		return nil, err
	}
	logs := 0
	for _, e := range entries {
		name := e.Name()
		if _, ok := LogNumber(name); ok {
			logs++
		} else if name == ManifestFile || IsTable(name) {
			names = append(names, name)
		} else if name == claimFile { // until ReleaseClaim
		} else {
			return nil, fmt.Errorf("database left %s behind", name)
		}
	}
	if logs != len(w.space.logs) || !slices.Contains(names, ManifestFile) {
		return nil, fmt.Errorf("database left %d value logs, want %d, and files %s", logs, len(w.space.logs), names)
	}
	return names, nil
}

// ReleaseClaim gives up the disk space that the writer claimed for the rest of the volume.
func (w *Writer) ReleaseClaim() error {
	if err := disk.Remove(filepath.Join(w.dir, claimFile)); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}

// SyncLog syncs a value log, by its number. The descriptors of the value logs are older than
// all writes, so that a sync returns the error of every write. Badger has synced the tables
// and MANIFEST, or its error has failed the volume.
func (w *Writer) SyncLog(number uint32) error { return w.space.logs[number-1].Sync() }

// AdoptLog opens the next value log of a dead writer, so that the volume can be finished. The
// file may be read-only. Reads of log return the data on disk, not that in the page cache:
// perhaps only the dead writer saw the error of a failed write.
func (w *Writer) AdoptLog(root *os.Root, name string) (log *os.File, written time.Time, size int64, err error) {
	st, err := root.Lstat(name)
	if err != nil {
		return nil, time.Time{}, 0, err
	}
	if !st.Mode().IsRegular() {
		return nil, time.Time{}, 0, errors.New("not a regular file")
	}
	if err := root.Chmod(name, 0o644); err != nil {
		return nil, time.Time{}, 0, err
	}
	if log, err = root.OpenFile(name, os.O_RDWR, 0); err != nil {
		return nil, time.Time{}, 0, err
	}

	w.mu.Lock()
	if w.space == nil {
		w.space = &space{dir: w.dir, o: w.o}
	}
	w.space.logs = append(w.space.logs, log)
	w.mu.Unlock()

	if err = log.Sync(); err == nil {
		err = dropWritten(log, 0, st.Size())
	}
	return log, st.ModTime(), st.Size(), err
}

// Abandon closes the database, even if it failed, and frees the disk space of the value logs
// if the volume still has its directory. The caller removes the directory.
func (w *Writer) Abandon() {
	if _, err := disk.Lstat(w.dir); w.space != nil && err == nil {
		w.space.freeBlocks()
	}
	if w.db != nil {
		w.db.closeInTime()
	}
	w.Close()
}

// Close closes the files.
func (w *Writer) Close() {
	if w.space != nil {
		w.space.closeFiles()
	}
}

// KeepLogs removes all files of a dead writer except the value logs: the other files of
// Badger may be incomplete. It returns the number of value logs.
func KeepLogs(root *os.Root) (logs int, err error) {
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		if n, ok := LogNumber(e.Name()); ok && int(n) == logs+1 {
			logs++
		} else if err := root.RemoveAll(e.Name()); err != nil {
			return 0, err
		}
	}
	return logs, nil
}

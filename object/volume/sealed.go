package volume

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/object/frame"
	"github.com/kist-vcs/kist/object/keys"
)

// sealed is a sealed volume. It is opened when it is first used. Once open, it
// stays readable when its folder is renamed, and mostly when it is removed,
// unless its files had to make room for others: see files.
type sealed struct {
	name  string // its ULID
	path  string
	store *Store

	opening sync.Mutex
	open    atomic.Pointer[openVolume]         // nil: not opened yet
	broken  atomic.Pointer[object.DamageError] // why it cannot be
	info    atomic.Pointer[Info]
	keep    atomic.Bool                             // it could not be merged
	dropped atomic.Pointer[map[object.Key]struct{}] // objects it is not to have; nil: none

	badMu sync.Mutex
	bad   map[object.Key]struct{} // known to be damaged here
	good  map[object.Key]struct{} // taken for damaged before, and read since
	nbad  atomic.Int32
}

// openVolume is what there is once a volume is open.
type openVolume struct {
	v     *sealed
	index *keys.Reader
	file  *file // KEYS; nil: the index is in memory

	mu     sync.RWMutex
	logs   map[uint32]*file
	closed bool
}

// opened opens the volume, if need be. An error matches fs.ErrNotExist if the
// folder is gone, and is a *object.DamageError if KEYS is unusable.
func (v *sealed) opened() (*openVolume, error) {
	if o := v.open.Load(); o != nil {
		return o, nil
	}
	if err := v.broken.Load(); err != nil {
		return nil, err
	}
	v.opening.Lock()
	defer v.opening.Unlock()
	if o := v.open.Load(); o != nil {
		return o, nil
	}
	f := v.file(keysFile)
	index, err := openIndex(f)
	if err != nil {
		f.close()
		if !errors.Is(err, object.ErrCorrupt) && (!isGone(err) || !v.exists()) {
			return nil, err // too many open files, or the folder went
		}
		damage := damageError(v.name, keysFile, err)
		v.broken.Store(damage)
		return nil, damage
	}
	o := v.newOpen(index)
	o.file = f
	v.open.Store(o)
	return o, nil
}

func openIndex(f *file) (*keys.Reader, error) {
	size, err := f.size()
	if err != nil {
		return nil, err
	}
	return keys.Open(f, size)
}

// newOpen returns v opened, with an index.
func (v *sealed) newOpen(index *keys.Reader) *openVolume {
	return &openVolume{v: v, index: index, logs: map[uint32]*file{}}
}

// indexError returns what reading KEYS failed with: damage, unless the error
// says nothing about what is on the disk.
func (v *sealed) indexError(err error) error {
	if trouble(err) != nil {
		return err
	}
	return damageError(v.name, keysFile, err)
}

// file returns a file of the volume, which may be in the trash by the time it
// is read.
func (v *sealed) file(name string) *file {
	return &file{files: v.store.files, open: func() (*os.File, error) {
		f, err := openIn(v.path, name)
		if err == nil || !isGone(err) || v.open.Load() == nil {
			return f, err
		}
		if trash, terr := openIn(v.store.inVolumes(trashPrefix+v.name), name); terr == nil {
			return trash, nil
		}
		return nil, err
	}}
}

// openIn opens a file in the folder of a volume.
func openIn(path, name string) (*os.File, error) {
	dir, err := disk.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return openFile(dir, name)
}

// openFile opens a file of a volume for reading: a regular one, so that no
// open hangs.
func openFile(dir *os.Root, name string) (*os.File, error) {
	st, err := dir.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("open %s: not a regular file: %w", name, fs.ErrNotExist)
	}
	return dir.Open(name)
}

func (v *sealed) close() {
	v.opening.Lock()
	defer v.opening.Unlock()
	o := v.open.Load()
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	if o.file != nil {
		o.file.close()
	}
	for _, f := range o.logs {
		f.close()
	}
}

// find returns where key is in the volume, and whether it is there.
func (v *sealed) find(key object.Key) (keys.Record, bool, error) {
	o, err := v.opened()
	if err != nil {
		return keys.Record{}, false, err
	}
	rec, ok, err := o.index.Find(key)
	if err != nil && !isGone(err) {
		err = v.indexError(err)
	}
	return rec, ok && !v.isDropped(key), err
}

// log returns a value log.
func (o *openVolume) log(number uint32) (*file, error) {
	o.mu.RLock()
	f := o.logs[number]
	o.mu.RUnlock()
	if f != nil {
		return f, nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return nil, os.ErrClosed
	}
	if f := o.logs[number]; f != nil {
		return f, nil
	}
	f = o.v.file(logName(number))
	o.logs[number] = f
	return f, nil
}

// closeLogs closes the value logs, which are opened again if they are needed.
func (o *openVolume) closeLogs() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, f := range o.logs {
		f.rest()
	}
}

// storedValue reads the stored value of rec into buf, if that is large enough.
func (o *openVolume) storedValue(rec keys.Record, buf []byte) ([]byte, error) {
	return o.storedValueWith(rec, buf, (*os.File).ReadAt)
}

// storedValueWith is storedValue that reads with the given function.
func (o *openVolume) storedValueWith(rec keys.Record, buf []byte, read readFunc) ([]byte, error) {
	if rec.Raw > object.MaxChunkSize || rec.Stored == 0 || rec.Stored > rec.Raw+frame.MaxOverhead || rec.Offset < logHeaderSize {
		return nil, errors.New("the index gives an impossible place")
	}
	f, err := o.log(rec.File)
	if err != nil {
		return nil, err
	}
	if uint32(cap(buf)) < rec.Stored {
		buf = make([]byte, rec.Stored)
	}
	buf = buf[:rec.Stored]
	if n, err := f.readWith(read, buf, int64(rec.Offset)); n < len(buf) {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	return buf, nil
}

// read returns the object at rec, verified against its ID. What cannot be
// read back is an *object.CorruptError, and remembered; an error that says
// nothing about the disk (too many open files) is returned as it is.
func (v *sealed) read(rec keys.Record) ([]byte, error) {
	o, err := v.opened()
	if err != nil {
		return nil, err
	}
	var value, data []byte
	if rec.Stored == rec.Raw+frame.MaxOverhead {
		if value, err = o.storedValue(rec, nil); err == nil {
			data, err = v.decodeTo(nil, rec.Key, value, int(rec.Raw))
		}
	} else {
		buf := takeBuffer(int(min(rec.Stored, maxStored)))
		if value, err = o.storedValue(rec, buf.b); err == nil {
			data, err = v.decodeTo(nil, rec.Key, value, int(rec.Raw))
		}
		buf.free()
	}
	if err != nil {
		return nil, v.readError(rec, err)
	}
	return data, nil
}

// readError returns what reading the object at rec fails with, for the reason
// err. If that is damage, it is remembered.
func (v *sealed) readError(rec keys.Record, err error) error {
	var open *fs.PathError
	switch {
	case errors.Is(err, os.ErrClosed), isGone(err) && !v.exists():
		return err
	case errors.As(err, &open) && open.Op != "read" && !isGone(err):
		return fmt.Errorf("read %s: %w", rec.Key, err)
	}
	v.setBad(rec.Key)
	return v.damaged(rec, err)
}

// exists reports whether the volume still has its name. It does unless the system
// says that it does not.
func (v *sealed) exists() bool {
	_, err := disk.Lstat(v.path)
	return !errors.Is(err, fs.ErrNotExist)
}

// damaged returns the error for the object at rec.
func (v *sealed) damaged(rec keys.Record, err error) error {
	where := fmt.Sprintf("%s at %d", filepath.Join(volumesDir, v.name, logName(rec.File)), rec.Offset)
	return &object.CorruptError{Key: rec.Key, Where: where, Err: err}
}

// setBad remembers that key is damaged here, so that it is stored again when
// it is put.
func (v *sealed) setBad(key object.Key) {
	v.badMu.Lock()
	defer v.badMu.Unlock()
	if v.bad == nil {
		v.bad = map[object.Key]struct{}{}
	}
	v.bad[key] = struct{}{}
	delete(v.good, key)
	v.nbad.Store(int32(len(v.bad)))
}

// clearBad forgets that key is damaged here: it was read since.
func (v *sealed) clearBad(key object.Key) {
	if v.nbad.Load() == 0 {
		return
	}
	v.badMu.Lock()
	defer v.badMu.Unlock()
	if _, ok := v.bad[key]; !ok {
		return
	}
	delete(v.bad, key)
	v.nbad.Store(int32(len(v.bad)))
	if v.good == nil {
		v.good = map[object.Key]struct{}{}
	}
	v.good[key] = struct{}{}
}

func (v *sealed) isBad(key object.Key) bool {
	if v.nbad.Load() == 0 {
		return false
	}
	v.badMu.Lock()
	defer v.badMu.Unlock()
	_, ok := v.bad[key]
	return ok
}

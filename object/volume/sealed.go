package volume

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/object/frame"
	"github.com/kist-vcs/kist/object/keys"
	"github.com/kist-vcs/kist/object/volume/ingest"
)

// sealedVolume is a sealed volume. It is opened at its first use. While open, it is
// readable after its directory was renamed. It is mostly readable after the directory was
// removed, unless its files were closed to make room for others: see files.
type sealedVolume struct {
	name  string // its ULID
	path  string
	store *Store

	opening sync.Mutex
	open    atomic.Pointer[openVolume] // nil: not opened yet
	broken  atomic.Pointer[error]      // the reason why it cannot be opened
	info    atomic.Pointer[Info]
	noMerge atomic.Bool                             // a merge failed to read it; later ones skip it
	dropped atomic.Pointer[map[object.Key]struct{}] // its dropped objects; nil stands for none

	badMu  sync.Mutex
	bad    map[object.Key]bool // true: known to be damaged here; false: was damaged, and is readable now
	hasBad atomic.Bool         // bad is not empty
}

// openVolume is the open files of a volume.
type openVolume struct {
	v     *sealedVolume
	index *keys.Reader
	file  *volumeFile // KEYS; nil: the index is in memory
	logs  sync.Map    // *file of each value log that was read, by number
}

// ensureOpen opens the volume at its first use. The error matches fs.ErrNotExist if the
// directory does not exist, and is a *object.DamageError if KEYS is unusable.
func (v *sealedVolume) ensureOpen() (*openVolume, error) {
	if o := v.open.Load(); o != nil {
		return o, nil
	}
	if err := v.broken.Load(); err != nil {
		return nil, *err
	}
	v.opening.Lock()
	defer v.opening.Unlock()
	if o := v.open.Load(); o != nil {
		return o, nil
	}

	f := v.volumeFile(keysFile)
	index, err := openIndex(f)
	if err != nil {
		f.closeForGood()
		if !errors.Is(err, object.ErrCorrupt) && (!isGone(err) || !v.dirExists()) {
			return nil, err // too many open files, or the volume was removed
		}
		damage := damageError(v.name, keysFile, err)
		v.broken.Store(&damage)
		return nil, damage
	}

	o := &openVolume{v: v, index: index, file: f}
	v.open.Store(o)
	return o, nil
}

func openIndex(f *volumeFile) (*keys.Reader, error) {
	size, err := f.fileSize()
	if err != nil {
		return nil, err
	}
	return keys.Open(f, size)
}

// indexError returns the error for a failed read of KEYS: damage, unless the error does
// not concern the data on disk.
func (v *sealedVolume) indexError(err error) error {
	if systemError(err) != nil {
		return err
	}
	return damageError(v.name, keysFile, err)
}

// volumeFile returns a file of the volume. The volume may be in the trash when it is read.
func (v *sealedVolume) volumeFile(name string) *volumeFile {
	return &volumeFile{files: v.store.files, open: func() (*os.File, error) {
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

// openIn opens a file in the directory of a volume.
func openIn(path, name string) (*os.File, error) {
	dir, err := disk.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return openFile(dir, name)
}

// openFile opens a regular file of a volume for reading. Opening another kind of file
// could hang.
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

func (v *sealedVolume) closeFiles() {
	v.opening.Lock()
	defer v.opening.Unlock()
	o := v.open.Load()
	if o == nil {
		return
	}
	if o.file != nil {
		o.file.closeForGood()
	}
	o.eachLog((*volumeFile).closeForGood)
}

// findRecord returns the record of key, and whether the volume has the object.
func (v *sealedVolume) findRecord(key object.Key) (keys.Record, bool, error) {
	o, err := v.ensureOpen()
	if err != nil {
		return keys.Record{}, false, err
	}
	rec, ok, err := o.index.Find(key)
	if err != nil && !isGone(err) {
		err = v.indexError(err)
	}
	return rec, ok && !v.isDropped(key), err
}

// withoutDropped yields the records of the volume that are not dropped. An error becomes that of
// the volume and ends the sequence.
func (o *openVolume) withoutDropped(records iter.Seq2[keys.Record, error]) iter.Seq2[keys.Record, error] {
	return func(yield func(keys.Record, error) bool) {
		for rec, err := range records {
			if err != nil {
				yield(rec, o.v.indexError(err))
				return
			}
			if !o.v.isDropped(rec.Key) && !yield(rec, nil) {
				return
			}
		}
	}
}

// valueLog returns a value log.
func (o *openVolume) valueLog(number uint32) *volumeFile {
	f, ok := o.logs.Load(number)
	if !ok {
		f, _ = o.logs.LoadOrStore(number, o.v.volumeFile(ingest.LogName(number)))
	}
	return f.(*volumeFile)
}

// eachLog calls do for the value logs that were read.
func (o *openVolume) eachLog(do func(*volumeFile)) {
	o.logs.Range(func(_, f any) bool {
		do(f.(*volumeFile))
		return true
	})
}

// storedValue returns the stored value of rec, in buf if that is large enough.
func (o *openVolume) storedValue(rec keys.Record, buf []byte) ([]byte, error) {
	return o.storedValueWith(rec, buf, (*os.File).ReadAt)
}

// storedValueWith is storedValue with another function to read.
func (o *openVolume) storedValueWith(rec keys.Record, buf []byte, read readFunc) ([]byte, error) {
	if rec.File == notHere {
		return o.v.fetchValue(context.Background(), rec)
	}
	if rec.Raw > object.MaxChunkSize || rec.Stored == 0 || rec.Stored > rec.Raw+frame.MaxOverhead || rec.Offset < ingest.LogHeaderSize {
		return nil, errors.New("the index gives an impossible place")
	}
	if uint32(cap(buf)) < rec.Stored {
		buf = make([]byte, rec.Stored)
	}
	buf = buf[:rec.Stored]
	if n, err := o.valueLog(rec.File).readWith(read, buf, int64(rec.Offset)); n < len(buf) {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	return buf, nil
}

// readObject returns the object at rec, and verifies its hash. If it is damaged, readObject records
// that and returns an *object.CorruptError. It returns errors that do not concern the
// data on disk (too many open files) unchanged.
func (v *sealedVolume) readObject(rec keys.Record) ([]byte, error) {
	o, err := v.ensureOpen()
	if err != nil {
		return nil, err
	}

	var buf []byte
	if rec.Stored != rec.Raw+frame.MaxOverhead { // otherwise, the object is a part of the value
		storage := takeBuffer(int(min(rec.Stored, ingest.MaxStored)))
		defer storage.free()
		buf = storage.b
	}
	var data []byte
	value, err := o.storedValue(rec, buf)
	if err == nil {
		data, err = v.decodeValue(nil, rec, value, nil)
	}
	if err != nil {
		return nil, v.readError(rec, err)
	}
	return data, nil
}

// readError returns the error of reading the object at rec. Err is the cause. If that is
// damage, readError records it.
func (v *sealedVolume) readError(rec keys.Record, err error) error {
	var open *fs.PathError
	switch {
	case rec.File == notHere, errors.Is(err, os.ErrClosed), isGone(err) && !v.dirExists():
		return err
	case errors.As(err, &open) && open.Op != "read" && !isGone(err):
		return fmt.Errorf("read %s: %w", rec.Key, err)
	}
	v.setBad(rec.Key)
	return v.corruptError(rec, err)
}

// dirExists reports whether the directory of the volume exists. An error other than
// fs.ErrNotExist counts as existing.
func (v *sealedVolume) dirExists() bool {
	_, err := disk.Lstat(v.path)
	return !errors.Is(err, fs.ErrNotExist)
}

// corruptError returns the error for a damaged object.
func (v *sealedVolume) corruptError(rec keys.Record, err error) error {
	where := fmt.Sprintf("%s at %d", filepath.Join(volumesDir, v.name, ingest.LogName(rec.File)), rec.Offset)
	return &object.CorruptError{Key: rec.Key, Where: where, Err: err}
}

// setBad records that key is damaged here, so that the next Put stores it elsewhere.
func (v *sealedVolume) setBad(key object.Key) {
	v.badMu.Lock()
	defer v.badMu.Unlock()
	if v.bad == nil {
		v.bad = map[object.Key]bool{}
	}
	v.bad[key] = true
	v.hasBad.Store(true)
}

// clearBad records that key was read and is not damaged here.
func (v *sealedVolume) clearBad(key object.Key) {
	if v.isBad(key) {
		v.badMu.Lock()
		defer v.badMu.Unlock()
		v.bad[key] = false
	}
}

// isBad reports whether key is known to be damaged here.
func (v *sealedVolume) isBad(key object.Key) bool {
	if !v.hasBad.Load() {
		return false
	}
	v.badMu.Lock()
	defer v.badMu.Unlock()
	return v.bad[key]
}

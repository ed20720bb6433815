package volume

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/object/frame"
	"github.com/kist-vcs/kist/object/keys"
	"github.com/kist-vcs/kist/object/volume/ingest"
)

// openLogs returns v with an index of the intact objects in its value logs, without use of
// KEYS. Patches are in it if their bytes are intact. The caller closes it. It takes 130
// bytes of memory for each object.
func (v *sealedVolume) openLogs(ctx context.Context) (*sealedVolume, error) {
	dir, err := disk.OpenRoot(v.path)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	index, err := indexLogs(ctx, dir, v.path)
	if err != nil {
		return nil, err
	}
	found := &sealedVolume{name: v.name, path: v.path, store: v.store}
	found.open.Store(&openVolume{v: found, index: index})
	return found, nil
}

// indexLogs returns an index of the intact objects in the value logs at path. Of several
// copies of an object, it takes one that is no patch, if there is one.
func indexLogs(ctx context.Context, dir *os.Root, path string) (*keys.Reader, error) {
	entries, err := disk.ReadDir(path)
	if err != nil {
		return nil, err
	}

	var complete, patches []keys.Record
	for _, e := range entries {
		number, ok := ingest.LogNumber(e.Name())
		if !ok {
			continue
		}
		err := eachIntactObject(dir, e.Name(), func(e ingest.Entry, value []byte, raw int) error {
			rec := keys.Record{Key: e.Key, File: number, Offset: uint32(e.Value), Stored: uint32(len(value)), Raw: uint32(raw)}
			if _, patched := frame.Base(value); patched {
				patches = append(patches, rec)
			} else {
				complete = append(complete, rec)
			}
			return ctx.Err()
		})
		if err != nil {
			return nil, err
		}
	}

	records := append(complete, patches...)
	slices.SortStableFunc(records, func(a, b keys.Record) int { return a.Key.Compare(b.Key) })
	records = slices.CompactFunc(records, func(a, b keys.Record) bool { return a.Key == b.Key })

	var index bytes.Buffer
	if err := keys.Write(&index, len(records), slices.Values(records)); err != nil {
		return nil, err
	}
	return keys.Open(bytes.NewReader(index.Bytes()), int64(index.Len()))
}

// eachIntactObject calls each for every intact object in a value log. After damage, it looks
// for the next entry. It does not read the bases of patches. The value is valid until each
// returns. It returns the error of each, or an error that does not concern the data on disk.
func eachIntactObject(dir *os.Root, name string, each func(e ingest.Entry, value []byte, raw int) error) error {
	f, err := openFile(dir, name)
	if err != nil {
		return systemError(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}

	walk := ingest.NewLogWalker(f, min(st.Size(), math.MaxUint32))
	for buf := []byte(nil); ; {
		start := walk.Pos()
		e, err := walk.NextEntry()
		if err == io.EOF {
			return nil
		}
		var value []byte
		var raw int
		if err == nil {
			value, raw, buf, err = readLogObject(f, e, buf)
		}
		if err != nil {
			walk.Resync(start)
			continue
		}
		if object.CheckSize(e.Key.Kind, raw) != nil {
			continue // it never was an object
		}
		if err := each(e, value, raw); err != nil {
			return err
		}
	}
}

// readLogObject reads the stored value of an entry, and verifies the object of raw bytes,
// unless the value is a patch. The value is in buf if that is large enough. The error
// matches ingest.ErrEntry or ingest.ErrSum if the object is damaged.
func readLogObject(f *os.File, e ingest.Entry, buf []byte) (value []byte, raw int, newBuf []byte, err error) {
	if value, buf, err = ingest.ReadEntry(f, e, buf); err != nil {
		return nil, 0, buf, err
	}
	raw, err = frame.Size(value)
	if _, patched := frame.Base(value); err == nil && !patched {
		err = verify(e.Key, value, raw, nil)
	}
	if err != nil {
		err = ingest.ErrEntry
	}
	return value, raw, buf, err
}

// deadWriters salvages the volumes of processes that ended before they sealed them.
type deadWriters struct{ store *Store }

// salvageAll seals the volumes of dead writers, and returns their number. It seals a volume in
// place, which takes no space, and the next writer finds its objects. It removes a volume
// without new objects. After an error it warns, and the next call retries.
func (d deadWriters) salvageAll(ctx context.Context) (n int) {
	names, err := d.unsealed()
	if err != nil {
		d.store.warn("look for interrupted writes: %v", err)
	}
	for _, name := range names {
		did, err := d.salvageOne(ctx, name)
		if err != nil && ctx.Err() == nil {
			d.store.warn("recover interrupted write %s: %v", name, err)
		}
		if did {
			n++
		}
	}
	return n
}

// unsealed returns the sorted names of volumes that are not sealed. Some may only have a
// lock, and their writers may be alive.
func (d deadWriters) unsealed() (names []string, err error) {
	entries, err := disk.ReadDir(d.store.path)
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	for _, e := range entries {
		name, ok := strings.CutPrefix(e.Name(), salvagePrefix)
		if !ok {
			name, ok = strings.CutPrefix(strings.TrimSuffix(e.Name(), lockSuffix), ingest.DirPrefix)
		}
		if ok && isName(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// salvageOne salvages a volume, if its writer is dead and its directory exists.
func (d deadWriters) salvageOne(ctx context.Context, name string) (did bool, err error) {
	lock, err := disk.Lock(ctx, d.store.lockPath(name), disk.Exclusive, 0)
	if err != nil {
		if errors.Is(err, disk.ErrBusy) || errors.Is(err, os.ErrPermission) {
			err = nil
		}
		return false, err
	}

	dir := d.store.inVolumes(salvagePrefix + name)
	if err = disk.Rename(d.store.inVolumes(ingest.DirPrefix+name), dir); err == nil {
		err = disk.SyncDir(d.store.path)
	} else if os.IsNotExist(err) {
		err = nil
	} else if os.IsPermission(err) { // another user's volume, which only that user can salvage
		lock.Unlock()
		return false, nil
	}

	if err == nil {
		if _, serr := disk.Lstat(dir); os.IsNotExist(serr) {
			lock.Remove()
			return false, nil
		}
		err = d.adoptVolume(ctx, name, dir)
	}
	if err != nil {
		lock.Unlock()
		return false, err
	}
	lock.Remove()
	return true, nil
}

// Leftover is the volume of a dead writer that was not salvaged.
type Leftover struct {
	Bytes   int64     // of its files on disk
	Written time.Time // time of the last write

	// The approximate number of objects and bytes after salvaging. Both are zero if
	// other volumes have all its objects.
	Objects, Sealed int64
}

// leftFolders returns the directories of dead writers.
func (d deadWriters) leftFolders() (dirs []string, err error) {
	names, err := d.unsealed()
	for _, name := range names {
		for _, prefix := range []string{ingest.DirPrefix, salvagePrefix} {
			dir := d.store.inVolumes(prefix + name)
			if st, err := disk.Lstat(dir); err == nil && st.IsDir() && !disk.IsLocked(d.store.lockPath(name)) {
				dirs = append(dirs, dir)
			}
		}
	}
	return dirs, err
}

// leftSize returns the number of bytes on disk of the files of dead writers.
func (d deadWriters) leftSize() (size int64, err error) {
	dirs, err := d.leftFolders()
	for _, dir := range dirs {
		size += usedSize(dir)
	}
	return size, err
}

// usedSize returns the number of bytes on disk of the files in a directory. Value logs that
// are not sealed are much longer than their content.
func usedSize(dir string) int64 {
	return sumFiles(dir, func(info fs.FileInfo) int64 {
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			return st.Blocks * 512
		}
		return 0
	})
}

// leftovers describes the volumes of dead writers. It trusts the headers of the entries,
// and changes nothing.
func (d deadWriters) leftovers(ctx context.Context) (list []Leftover, err error) {
	dirs, err := d.leftFolders()
	for _, dir := range dirs {
		l := Leftover{Bytes: usedSize(dir)}
		if err := d.lookAtLeft(ctx, dir, &l); err != nil && !isGone(err) {
			return nil, err
		}
		list = append(list, l)
	}
	return list, err
}

// lookAtLeft describes the volume in dir.
func (d deadWriters) lookAtLeft(ctx context.Context, dir string, l *Leftover) error {
	root, err := disk.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()

	isNew := false
	for n := uint32(1); ; n++ {
		f, err := openFile(root, ingest.LogName(n))
		if err != nil && !isGone(err) {
			return err
		}
		if err != nil {
			break
		}
		err = lookAtLog(ctx, f, l, func(key object.Key) error {
			v, _, err := findHere(d.store, key)
			isNew = isNew || v == nil
			return err
		})
		f.Close()
		if err != nil {
			return err
		}
	}

	if !isNew {
		l.Objects, l.Sealed = 0, 0
	}
	return nil
}

// lookAtLog adds a value log to l, and calls each for its keys.
func lookAtLog(ctx context.Context, f *os.File, l *Leftover, each func(object.Key) error) error {
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if st.ModTime().After(l.Written) {
		l.Written = st.ModTime()
	}
	before := l.Objects
	end, err := ingest.WalkIntact(ctx, f, st.Size(), func(e ingest.Entry) error {
		l.Objects++
		return each(e.Key)
	})
	l.Sealed += end + (l.Objects-before)*recordSize
	return err
}

// recordSize is the approximate number of bytes of an object in KEYS.
const recordSize = 50

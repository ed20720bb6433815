package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"syscall"

	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/object/frame"
)

// adopt seals the volume of a dead writer in dir, or removes it if the store has all its
// objects here. After a kill at any moment, it can be called again. The caller holds the lock of
// the volume.
func (d deadWriters) adopt(ctx context.Context, name, dir string) error {
	root, err := disk.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	logs, err := keepLogs(root)
	if err == nil {
		_, err = d.store.refresh()
	}
	if err != nil {
		return err
	}

	w := &writer{store: d.store, name: name, session: name, dir: dir, intake: intake{table: newTable()}}
	w.space = &space{dir: dir, o: &d.store.o}
	defer w.space.close()
	isNew := false
	for i := range logs {
		more, err := w.adoptLog(ctx, root, logName(uint32(i)+1))
		if errors.Is(err, errPatched) {
			isNew = false // only copiers write patches, so other volumes have all objects
			break
		}
		if err != nil {
			return fmt.Errorf("%s: %w", logName(uint32(i)+1), err)
		}
		isNew = isNew || more
	}
	if !isNew {
		return disk.RemoveAll(dir)
	}

	if now := d.store.o.Now(); w.created.After(now) {
		w.created = now
	}
	if err := w.complete(nil, nil, w.table.sorted()); err != nil {
		return err
	}
	_, err = d.store.refresh()
	return err
}

// keepLogs removes all files of a dead writer except the value logs: the other files of
// Badger may be incomplete. That also makes room for KEYS. It returns the number of value
// logs.
func keepLogs(root *os.Root) (logs int, err error) {
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		if n, ok := logNumber(e.Name()); ok && int(n) == logs+1 {
			logs++
		} else if err := root.RemoveAll(e.Name()); err != nil {
			return 0, err
		}
	}
	return logs, nil
}

var errPatched = errors.New("a patch")

// adoptLog adds the next value log to the volume. It truncates the log at the first entry
// that is not intact, and reports whether the log has an object that no volume has.
func (w *writer) adoptLog(ctx context.Context, root *os.Root, name string) (isNew bool, err error) {
	f, size, err := openLeft(root, name)
	if err != nil {
		return false, err
	}
	w.space.logs = append(w.space.logs, f)
	st, err := f.Stat()
	if err != nil {
		return false, err
	}
	if st.ModTime().After(w.created) {
		w.created = st.ModTime()
	}

	// Read the objects from the disk and not from the page cache: perhaps only the dead
	// writer saw the error of a failed write.
	if err := f.Sync(); err != nil {
		return false, err
	}
	if err := dropWritten(f, 0, size); err != nil {
		return false, err
	}
	var buf []byte
	end, err := intact(ctx, f, size, func(e logEntry) (err error) {
		if buf, err = w.adoptObject(f, e, buf); err == nil && !isNew {
			var v *sealed
			v, _, err = locateHere(w.store, e.key)
			isNew = v == nil
		}
		return err
	})
	if err != nil {
		return false, err
	}
	return isNew, f.Truncate(end)
}

// openLeft opens a value log of a dead writer. The file may be read-only.
func openLeft(root *os.Root, name string) (f *os.File, size int64, err error) {
	st, err := root.Lstat(name)
	if err != nil {
		return nil, 0, err
	}
	if !st.Mode().IsRegular() {
		return nil, 0, errors.New("not a regular file")
	}
	if err := root.Chmod(name, 0o644); err != nil {
		return nil, 0, err
	}
	f, err = root.OpenFile(name, os.O_RDWR, 0)
	return f, st.Size(), err
}

// intact calls each for the entries of a value log up to the first torn or unreadable
// one, and returns the offset of that.
func intact(ctx context.Context, f *os.File, size int64, each func(logEntry) error) (end int64, err error) {
	walk := newLogWalker(f, min(size, math.MaxUint32), logHeaderSize)
	for {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		end := walk.pos
		e, err := walk.next()
		if err == nil {
			err = each(e)
		}
		if isTorn(err) || errors.Is(err, syscall.EIO) {
			return end, nil
		}
		if err != nil {
			return 0, err
		}
	}
}

// adoptObject adds an object of a dead writer to the volume. The error matches errEntry if
// the object is damaged.
func (w *writer) adoptObject(f *os.File, e logEntry, buf []byte) ([]byte, error) {
	value, raw, buf, err := readObject(f, e, buf)
	if _, patched := frame.Base(value); patched {
		return buf, errPatched
	}
	if err == nil && (checkSize(e.key.Kind, raw) != nil || w.table.find(e.key) != nil) {
		err = errEntry
	}
	if err != nil {
		return buf, err
	}
	w.count(written{id: e.key.ID, kind: e.key.Kind, stored: uint32(len(value)), raw: uint32(raw)})
	return buf, nil
}

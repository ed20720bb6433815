package volume

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/kist-vcs/kist/object/disk"
)

// trashBin has the removed volumes whose files still exist.
type trashBin struct{ store *Store }

// mayHaveOld reports whether a removed volume may be older than trashAge. The mark
// was the last change of its directory.
func (b trashBin) mayHaveOld() bool {
	entries, err := disk.ReadDir(b.store.path)
	if err != nil {
		return false
	}
	for _, e := range entries {
		if name, ok := strings.CutPrefix(e.Name(), trashPrefix); !ok || !isName(name) {
			continue
		}
		if info, err := e.Info(); err == nil && b.store.o.Now().Sub(info.ModTime()) > trashAge {
			return true
		}
	}
	return false
}

// trashed is a removed volume whose files still exist.
type trashed struct {
	path    string
	removed time.Time // zero if its deletion was interrupted
}

// list returns the removed volumes whose files still exist, the last removed first.
func (b trashBin) list() ([]trashed, error) {
	entries, err := disk.ReadDir(b.store.path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list []trashed
	for _, e := range entries {
		name, ok := strings.CutPrefix(e.Name(), trashPrefix)
		if !ok || !isName(name) {
			continue
		}
		t := trashed{path: b.store.inVolumes(e.Name())}
		if t.removed, err = readMark(t.path); err != nil && !errors.Is(err, os.ErrNotExist) {
			if info, err := e.Info(); err == nil {
				t.removed = info.ModTime()
			}
		}
		list = append(list, t)
	}
	slices.SortStableFunc(list, func(a, b trashed) int { return b.removed.Compare(a.removed) })
	return list, nil
}

// size returns the size of the files of removed volumes, in bytes.
func (b trashBin) size() (size int64, err error) {
	list, err := b.list()
	for _, t := range list {
		size += folderSize(t.path)
	}
	return size, err
}

// folderSize returns the size of the files in a directory, in bytes.
func folderSize(path string) (size int64) {
	entries, _ := disk.ReadDir(path)
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			size += info.Size()
		}
	}
	return size
}

// empty deletes the files of volumes that were removed more than trashAge ago, and
// keeps at most manyTrash others, because every listing of the volumes reads their names.
func (b trashBin) empty(ctx context.Context, st *MaintainStats) error {
	list, err := b.list()
	for i, t := range list {
		if i < manyTrash && b.store.o.Now().Sub(t.removed) <= trashAge {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		size := folderSize(t.path)
		if err := deleteTrash(t.path); err != nil {
			return err
		}
		st.Deleted++
		st.Freed += size
	}
	return err
}

// remove marks and renames volumes. All their objects must have been read, hashed and
// found in other volumes. The caller holds the maintenance lock. Remove takes the gc
// lock, so that no process publishes meanwhile.
func (b trashBin) remove(ctx context.Context, volumes []*sealed) error {
	lock, err := disk.Lock(ctx, filepath.Join(b.store.dir, gcLockFile), disk.Exclusive, gcLockWait)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	return b.takeOut(volumes)
}

// takeOut is remove for a caller that holds the gc lock.
func (b trashBin) takeOut(volumes []*sealed) error {
	for _, v := range volumes {
		// Without room for a mark, its files are deleted earlier.
		if err := b.mark(v.path); errors.Is(err, syscall.ENOSPC) {
			disk.Remove(filepath.Join(v.path, trashFile))
		} else if err != nil {
			return err
		}
		if err := renameNew(v.path, b.store.inVolumes(trashPrefix+v.name)); err != nil {
			return err
		}
	}
	if len(volumes) == 0 {
		return nil
	}
	if err := syncDir(b.store.path); err != nil {
		return err
	}
	_, err := b.store.refresh()
	return err
}

// mark writes the time of removal into a volume.
func (b trashBin) mark(path string) error {
	mark := filepath.Join(path, trashFile)
	if err := disk.Remove(mark); err != nil && !os.IsNotExist(err) {
		return err
	}
	err := writeFile(mark, func(f io.Writer) error {
		_, err := fmt.Fprintf(f, "removed %s\n", b.store.o.Now().UTC().Format(time.RFC3339))
		return err
	})
	if err == nil {
		err = syncDir(path)
	}
	return err
}

// readMark returns the time of removal of a volume.
func readMark(path string) (time.Time, error) {
	data, err := disk.ReadFile(filepath.Join(path, trashFile))
	if err != nil {
		return time.Time{}, err
	}
	text, ok := strings.CutPrefix(strings.TrimSuffix(string(data), "\n"), "removed ")
	if !ok {
		return time.Time{}, errors.New("not a mark")
	}
	return time.Parse(time.RFC3339, text)
}

// deleteTrash deletes the files of a removed volume. It deletes the mark first, so that
// an interrupted deletion is recognised.
func deleteTrash(path string) error {
	if err := deleteAllBut(path, ""); err != nil {
		return err
	}
	return disk.RemoveAll(path)
}

// deleteAllBut is deleteTrash, except that it keeps one file and the directory.
func deleteAllBut(path, name string) error {
	if err := disk.Remove(filepath.Join(path, trashFile)); err != nil && !os.IsNotExist(err) {
		return err
	}
	entries, err := disk.ReadDir(path)
	if os.IsNotExist(err) {
		return nil
	}
	for _, e := range entries {
		if e.Name() != name {
			err = errors.Join(err, disk.RemoveAll(filepath.Join(path, e.Name())))
		}
	}
	return err
}

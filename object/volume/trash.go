package volume

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/kist-vcs/kist/object/disk"
)

// trashBin manages the removed volumes whose files still exist.
type trashBin struct{ store *Store }

// trashDirs returns the directories of the removed volumes.
func (b trashBin) trashDirs() ([]fs.DirEntry, error) {
	entries, err := disk.ReadDir(b.store.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return slices.DeleteFunc(entries, func(e fs.DirEntry) bool {
		name, ok := strings.CutPrefix(e.Name(), trashPrefix)
		return !ok || !isName(name)
	}), err
}

// mayHaveOld reports whether a volume may have been removed longer than trashAge ago. The
// mark was the last change of its directory.
func (b trashBin) mayHaveOld() bool {
	entries, err := b.trashDirs()
	return err == nil && slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		info, err := e.Info()
		return err == nil && b.store.o.Now().Sub(info.ModTime()) > trashAge
	})
}

// trashedVolume is a removed volume whose files still exist.
type trashedVolume struct {
	path    string
	removed time.Time // zero without a mark: the disk was full, or its deletion was interrupted
}

// listTrash returns the removed volumes whose files still exist, the last removed first.
func (b trashBin) listTrash() ([]trashedVolume, error) {
	entries, err := b.trashDirs()
	if err != nil {
		return nil, err
	}
	var list []trashedVolume
	for _, e := range entries {
		t := trashedVolume{path: b.store.inVolumes(e.Name())}
		if t.removed, err = readMark(t.path); err != nil && !errors.Is(err, os.ErrNotExist) {
			if info, err := e.Info(); err == nil {
				t.removed = info.ModTime()
			}
		}
		list = append(list, t)
	}
	slices.SortStableFunc(list, func(a, b trashedVolume) int { return b.removed.Compare(a.removed) })
	return list, nil
}

// trashSize returns the size of the files of removed volumes, in bytes.
func (b trashBin) trashSize() (size int64, err error) {
	entries, err := b.trashDirs()
	for _, e := range entries {
		size += folderSize(b.store.inVolumes(e.Name()))
	}
	return size, err
}

// folderSize returns the size of the files in a directory, in bytes.
func folderSize(path string) (size int64) { return sumFiles(path, fs.FileInfo.Size) }

// sumFiles returns the sum of a size of the files in a directory.
func sumFiles(path string, size func(fs.FileInfo) int64) (sum int64) {
	entries, _ := disk.ReadDir(path)
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			sum += size(info)
		}
	}
	return sum
}

// deleteOlder deletes the files of removed volumes, and returns their number and size in bytes.
// It keeps volumes that are younger than age, but only the last most of them, because every
// listing of the volumes reads their names.
func (b trashBin) deleteOlder(ctx context.Context, most int, age time.Duration) (deleted int, freed int64, err error) {
	list, err := b.listTrash()
	for i, t := range list {
		if i < most && b.store.o.Now().Sub(t.removed) <= age {
			continue
		}
		if err := ctx.Err(); err != nil {
			return deleted, freed, err
		}
		size := folderSize(t.path)
		if err := deleteTrash(t.path); err != nil {
			return deleted, freed, err
		}
		deleted++
		freed += size
	}
	return deleted, freed, err
}

// removeVolumes marks and renames volumes. All their objects must have been read, hashed and
// found in other volumes. The caller holds the maintenance lock. removeVolumes takes the gc
// lock, so that no process publishes meanwhile.
func (b trashBin) removeVolumes(ctx context.Context, volumes []*sealedVolume) error {
	lock, err := disk.Lock(ctx, filepath.Join(b.store.dir, gcLockFile), disk.Exclusive, gcLockWait)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	return b.takeOut(volumes)
}

// takeOut is removeVolumes for a caller that holds the gc lock.
func (b trashBin) takeOut(volumes []*sealedVolume) error {
	for _, v := range volumes {
		// If the disk has no room for a mark, deleteOlder deletes the files earlier.
		if err := b.markRemoved(v.path); errors.Is(err, syscall.ENOSPC) {
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
	if err := disk.SyncDir(b.store.path); err != nil {
		return err
	}
	_, err := b.store.listVolumes()
	return err
}

// markRemoved writes the time of removal into a volume.
func (b trashBin) markRemoved(path string) error {
	mark := filepath.Join(path, trashFile)
	if err := disk.Remove(mark); err != nil && !os.IsNotExist(err) {
		return err
	}
	err := disk.CreateSynced(mark, 0o444, func(f io.Writer) error {
		_, err := fmt.Fprintf(f, "removed %s\n", b.store.o.Now().UTC().Format(time.RFC3339))
		return err
	})
	if err == nil {
		err = disk.SyncDir(path)
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

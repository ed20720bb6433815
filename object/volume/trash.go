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

// mayHaveOldTrash reports whether files of a removed volume may have to be
// deleted. Its folder was changed last when it was marked.
func (s *Store) mayHaveOldTrash() bool {
	entries, err := disk.ReadDir(s.path)
	if err != nil {
		return false
	}
	for _, e := range entries {
		if name, ok := strings.CutPrefix(e.Name(), trashPrefix); !ok || !isName(name) {
			continue
		}
		if info, err := e.Info(); err == nil && s.o.Now().Sub(info.ModTime()) > trashAge {
			return true
		}
	}
	return false
}

// trashed is a removed volume whose files are still there.
type trashed struct {
	path    string
	removed time.Time // zero if deleting it was interrupted
}

// trash returns the removed volumes, the last removed first.
func (s *Store) trash() ([]trashed, error) {
	entries, err := disk.ReadDir(s.path)
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
		t := trashed{path: s.inVolumes(e.Name())}
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

// trashSize returns how many bytes the files of removed volumes have.
func (s *Store) trashSize() (size int64, err error) {
	list, err := s.trash()
	for _, t := range list {
		size += folderSize(t.path)
	}
	return size, err
}

func folderSize(path string) (size int64) {
	entries, _ := disk.ReadDir(path)
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			size += info.Size()
		}
	}
	return size
}

// emptyTrash deletes the files of volumes that were removed long enough ago, and
// of those beyond the last manyTrash: whoever lists the volumes comes by all.
func (s *Store) emptyTrash(ctx context.Context, st *MaintainStats) error {
	list, err := s.trash()
	for i, t := range list {
		if i < manyTrash && s.o.Now().Sub(t.removed) <= trashAge {
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

// remove takes volumes out of the store: each is marked, then renamed. All
// that is in them must have been read, hashed and found elsewhere. The
// maintenance lock is held; the gc lock is taken, so that no one publishes
// meanwhile.
func (s *Store) remove(ctx context.Context, volumes []*sealed) error {
	lock, err := disk.Lock(ctx, filepath.Join(s.dir, gcLockFile), disk.Exclusive, gcLockWait)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	return s.takeOut(volumes)
}

// takeOut is remove with the gc lock held.
func (s *Store) takeOut(volumes []*sealed) error {
	for _, v := range volumes {
		// Where there is no room for a mark, its files are deleted the sooner.
		if err := s.mark(v.path); errors.Is(err, syscall.ENOSPC) {
			disk.Remove(filepath.Join(v.path, trashFile))
		} else if err != nil {
			return err
		}
		if err := renameNew(v.path, s.inVolumes(trashPrefix+v.name)); err != nil {
			return err
		}
	}
	if len(volumes) == 0 {
		return nil
	}
	if err := syncDir(s.path); err != nil {
		return err
	}
	_, err := s.refresh()
	return err
}

// mark notes in a volume that it is being removed, and when.
func (s *Store) mark(path string) error {
	mark := filepath.Join(path, trashFile)
	if err := disk.Remove(mark); err != nil && !os.IsNotExist(err) {
		return err
	}
	err := writeFile(mark, func(f io.Writer) error {
		_, err := fmt.Fprintf(f, "removed %s\n", s.o.Now().UTC().Format(time.RFC3339))
		return err
	})
	if err == nil {
		err = syncDir(path)
	}
	return err
}

// readMark returns when a volume was marked as removed.
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

// deleteTrash deletes a removed volume's files. The mark goes first, so that an
// interrupted deletion is seen.
func deleteTrash(path string) error {
	if err := deleteAllBut(path, ""); err != nil {
		return err
	}
	return disk.RemoveAll(path)
}

// deleteAllBut is deleteTrash that leaves a file and the folder.
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

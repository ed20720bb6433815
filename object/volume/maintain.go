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

const (
	smallVolume = 64 << 20 // bytes below which a volume is small
	manySmall   = 32       // small volumes that are left alone
	fanIn       = 8        // volumes merged into one at a time
	manyTrash   = 64       // removed volumes whose files are left for trashAge
	trashAge    = time.Hour
)

// MaintainOptions say how Maintain works.
type MaintainOptions struct {
	// SingleHost says that no other machine uses the repository. Without it,
	// Maintain refuses to work on a network file system, where locks may not
	// reach other machines.
	SingleHost bool
}

// MaintainStats count what Maintain did.
type MaintainStats struct {
	Salvaged int   // interrupted writes taken over
	Merged   int   // volumes merged into others, and removed
	Written  int   // volumes they were merged into
	Deleted  int   // volumes removed earlier whose files were deleted
	Freed    int64 // bytes of those files
}

// Maintain merges small volumes if there are many, takes over what dead
// writers left, and deletes the files of volumes that were removed more than
// an hour ago, or when many have been since. Readers and writers go on
// meanwhile. It returns [disk.ErrBusy] if another process maintains the store or
// collects its garbage.
func (s *Store) Maintain(ctx context.Context, o MaintainOptions) (MaintainStats, error) {
	var st MaintainStats
	lock, err := s.lockMaintenance(ctx, o)
	if err != nil {
		return st, err
	}
	defer lock.Unlock()
	st.Salvaged = s.salvage(ctx)
	err = s.emptyTrash(ctx, &st)
	for err == nil {
		var group []*sealed
		if group, err = s.nextGroup(ctx); err != nil || len(group) < 2 {
			break
		}
		var merged int
		if merged, err = s.merge(ctx, group); merged == 0 {
			break
		}
		st.Merged += merged
		st.Written++
	}
	if err != nil {
		return st, fmt.Errorf("maintain object store: %w", err)
	}
	return st, nil
}

// NeedsMaintenance reports whether Maintain has something to do. It reads next
// to nothing.
func (s *Store) NeedsMaintenance() bool {
	l, err := s.refresh()
	if err != nil {
		return false
	}
	if len(l.volumes) > manySmall {
		small := 0
		for _, v := range l.volumes {
			if info, err := v.describe(); err == nil && info.Bytes < smallVolume {
				small++
			}
		}
		if small > manySmall {
			return true
		}
	}
	return s.mayHaveOldTrash()
}

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

// nextGroup returns the volumes to be merged next: the smallest ones, if too
// many are small. Those of sessions still at work are left alone.
func (s *Store) nextGroup(ctx context.Context) ([]*sealed, error) {
	l, err := s.refresh()
	if err != nil {
		return nil, err
	}
	var small []*sealed
	for _, v := range l.volumes {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		info, err := v.describe()
		if err != nil {
			s.warn("not merged: %v", err)
			continue
		}
		if info.Bytes < smallVolume && !v.keep.Load() && !disk.IsLocked(s.lockPath(info.Session)) {
			small = append(small, v)
		}
	}
	if len(small) <= manySmall {
		return nil, nil
	}
	slices.SortStableFunc(small, func(a, b *sealed) int {
		return int(a.info.Load().Bytes - b.info.Load().Bytes)
	})
	objects := 0
	for i, v := range small[:fanIn] {
		if objects += v.info.Load().Objects; objects > s.o.MaxObjects && i >= 2 {
			return small[:i], nil
		}
	}
	return small[:fanIn], nil
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

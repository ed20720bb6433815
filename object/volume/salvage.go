package volume

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
)

// salvage takes over the volumes of dead writers: of processes that ended
// before they sealed them. It seals a volume where it lies, so that this takes
// no room and the next writer finds everything stored already. It removes a
// volume that has nothing new. After an error it warns, and tries again the
// next time. It returns how many volumes it took over.
func (s *Store) salvage(ctx context.Context) (n int) {
	names, err := s.unsealed()
	if err != nil {
		s.warn("look for interrupted writes: %v", err)
	}
	for _, name := range names {
		did, err := s.salvageOne(ctx, name)
		if err != nil && ctx.Err() == nil {
			s.warn("recover interrupted write %s: %v", name, err)
		}
		if did {
			n++
		}
	}
	return n
}

// unsealed returns the names of volumes that are not sealed, or of which only
// the lock is left, sorted. Their writers may be alive.
func (s *Store) unsealed() (names []string, err error) {
	entries, err := disk.ReadDir(s.path)
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	for _, e := range entries {
		name, ok := strings.CutPrefix(e.Name(), salvagePrefix)
		if !ok {
			name, ok = strings.CutPrefix(strings.TrimSuffix(e.Name(), lockSuffix), tmpPrefix)
		}
		if ok && isName(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// salvageOne takes over volume name, if its writer is dead, and if there is
// something left of it except its lock.
func (s *Store) salvageOne(ctx context.Context, name string) (did bool, err error) {
	lock, err := disk.Lock(ctx, s.lockPath(name), disk.Exclusive, 0)
	if err != nil {
		if errors.Is(err, disk.ErrBusy) || errors.Is(err, os.ErrPermission) {
			err = nil
		}
		return false, err
	}
	dir := s.inVolumes(salvagePrefix + name)
	if err = disk.Rename(s.inVolumes(tmpPrefix+name), dir); err == nil {
		err = syncDir(s.path)
	} else if os.IsNotExist(err) {
		err = nil
	} else if os.IsPermission(err) { // another user's, who will see to it
		lock.Unlock()
		return false, nil
	}
	if err == nil {
		if _, serr := disk.Lstat(dir); os.IsNotExist(serr) {
			lock.Remove()
			return false, nil
		}
		err = s.adopt(ctx, name, dir)
	}
	if err != nil {
		lock.Unlock()
		return false, err
	}
	lock.Remove()
	return true, nil
}

// Leftover is the volume of a dead writer, which nobody has taken over yet.
type Leftover struct {
	Bytes   int64     // that the files take on the disk
	Written time.Time // when something was written to it last

	// What stays once the volume is taken over, about: nothing if other volumes
	// have all its objects.
	Objects, Sealed int64
}

// leftFolders returns the folders of dead writers.
func (s *Store) leftFolders() (dirs []string, err error) {
	names, err := s.unsealed()
	for _, name := range names {
		for _, prefix := range []string{tmpPrefix, salvagePrefix} {
			dir := s.inVolumes(prefix + name)
			if st, err := disk.Lstat(dir); err == nil && st.IsDir() && !disk.IsLocked(s.lockPath(name)) {
				dirs = append(dirs, dir)
			}
		}
	}
	return dirs, err
}

// leftSize returns how many bytes the files of dead writers take on the disk.
func (s *Store) leftSize() (size int64, err error) {
	dirs, err := s.leftFolders()
	for _, dir := range dirs {
		size += usedSize(dir)
	}
	return size, err
}

// usedSize returns how many bytes the files of a folder take on the disk. It is
// for value logs that are not sealed: they are much longer than their content.
func usedSize(dir string) (size int64) {
	entries, _ := disk.ReadDir(dir)
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			if st, ok := info.Sys().(*syscall.Stat_t); ok {
				size += st.Blocks * 512
			}
		}
	}
	return size
}

// leftovers describes the volumes of dead writers. It trusts the entries'
// headers, and changes nothing.
func (s *Store) leftovers(ctx context.Context) (list []Leftover, err error) {
	dirs, err := s.leftFolders()
	for _, dir := range dirs {
		l := Leftover{Bytes: usedSize(dir)}
		if err := s.lookAtLeft(ctx, dir, &l); err != nil && !isGone(err) {
			return nil, err
		}
		list = append(list, l)
	}
	return list, err
}

func (s *Store) lookAtLeft(ctx context.Context, dir string, l *Leftover) error {
	root, err := disk.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	isNew := false
	for n := uint32(1); ; n++ {
		f, err := openFile(root, logName(n))
		if err != nil && !isGone(err) {
			return err
		}
		if err != nil {
			break
		}
		err = s.lookAtLog(ctx, f, l, func(key object.Key) error {
			v, _, err := s.locate(key)
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

func (s *Store) lookAtLog(ctx context.Context, f *os.File, l *Leftover, each func(object.Key) error) error {
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if st.ModTime().After(l.Written) {
		l.Written = st.ModTime()
	}
	before := l.Objects
	end, err := intact(ctx, f, st.Size(), func(e logEntry) error {
		l.Objects++
		return each(e.key)
	})
	l.Sealed += end + (l.Objects-before)*recordSize
	return err
}

// recordSize is about what an object takes in KEYS.
const recordSize = 50

package volume

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"

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

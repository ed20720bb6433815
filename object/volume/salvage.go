package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/object/frame"
)

// salvage takes over what dead writers have left: volumes that were being
// written when their process ended. What is whole in them is stored anew;
// then they are removed. What goes wrong is warned of and tried again the next
// time. It returns how many it took over.
func (s *Store) salvage(ctx context.Context) (n int) {
	entries, err := os.ReadDir(s.path)
	if err != nil {
		if !os.IsNotExist(err) {
			s.warn("look for interrupted writes: %v", err)
		}
		return 0
	}
	var names []string
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
	for _, name := range slices.Compact(names) {
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

// salvageOne takes over volume name, if its writer is dead, and if there is
// something left of it but its lock.
func (s *Store) salvageOne(ctx context.Context, name string) (did bool, err error) {
	lock, err := disk.Lock(ctx, s.lockPath(name), disk.Exclusive, 0)
	if err != nil {
		if errors.Is(err, disk.ErrBusy) || errors.Is(err, os.ErrPermission) {
			err = nil
		}
		return false, err
	}
	dir := s.inVolumes(salvagePrefix + name)
	if err = os.Rename(s.inVolumes(tmpPrefix+name), dir); err == nil {
		err = syncDir(s.path)
	} else if os.IsNotExist(err) {
		err = nil
	} else if os.IsPermission(err) { // another user's, who will see to it
		lock.Unlock()
		return false, nil
	}
	if err == nil {
		if _, serr := os.Lstat(dir); os.IsNotExist(serr) {
			lock.Remove()
			return false, nil
		}
		if err = s.restore(ctx, dir); err == nil {
			err = os.RemoveAll(dir)
		}
	}
	if err != nil {
		lock.Unlock()
		return false, err
	}
	lock.Remove()
	return true, nil
}

// restore stores what is whole in dir anew. It does not open the database in
// there, which would change it: it reads the value logs.
func (s *Store) restore(ctx context.Context, dir string) (err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	ss := s.Begin(SessionOptions{})
	ss.salvage.Do(func() {})
	defer func() { err = errors.Join(err, ss.Close()) }()
	for _, e := range entries {
		if _, ok := logNumber(e.Name()); !ok {
			continue
		}
		f, err := openFile(root, e.Name())
		if err != nil {
			return err
		}
		err = restoreLog(ctx, ss, f)
		f.Close()
		if err != nil {
			return fmt.Errorf("%s: %w", e.Name(), err)
		}
	}
	return nil
}

// restoreLog puts the objects of a value log into ss, up to the first entry
// that is not whole.
func restoreLog(ctx context.Context, ss *Session, f *os.File) error {
	st, err := f.Stat()
	if err != nil {
		return err
	}
	walk := newLogWalker(f, st.Size(), logHeaderSize)
	for buf := []byte(nil); ; {
		e, err := walk.next()
		var value []byte
		if err == nil {
			value, buf, err = readEntry(f, e, buf)
		}
		if isTorn(err) {
			return nil // the rest was not written
		}
		if err != nil {
			return err
		}
		if _, patched := frame.Base(value); patched {
			continue // what has patches was copied from volumes that are still there
		}
		raw, err := frame.Size(value)
		if err == nil {
			err = verify(e.key, value, raw, nil)
		}
		if err != nil {
			return nil
		}
		if checkSize(e.key.Kind, raw) != nil {
			continue // it never was an object
		}
		err = ss.put(ctx, e.key, raw, func() (*buffer, error) { return copyValue(value), nil })
		if err != nil {
			return err
		}
	}
}

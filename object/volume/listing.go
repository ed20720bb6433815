package volume

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/kist-vcs/kist/object/disk"
)

// listing is the sealed volumes that were there at some moment, newest first.
// It does not change.
type listing struct {
	volumes []*sealed
	byName  map[string]*sealed
}

// current returns the listing last made; the first call makes it.
func (s *Store) current() (*listing, error) {
	if l := s.list.Load(); l != nil {
		return l, nil
	}
	return s.refresh()
}

// refresh lists the volumes again. If none came or went, it returns the
// listing that was current, so that two listings are equal if they are
// identical.
func (s *Store) refresh() (*listing, error) {
	s.refreshing.Lock()
	defer s.refreshing.Unlock()
	if s.closed {
		return nil, errClosed
	}
	entries, err := disk.ReadDir(s.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	old := s.list.Load()
	next := &listing{byName: map[string]*sealed{}}
	var added []*sealed
	for _, e := range slices.Backward(entries) {
		name := e.Name()
		if !isName(name) {
			continue
		}
		var v *sealed
		if old != nil {
			v = old.byName[name]
		}
		if v == nil {
			v = &sealed{name: name, path: filepath.Join(s.path, name), store: s}
			added = append(added, v)
		}
		next.volumes = append(next.volumes, v)
		next.byName[name] = v
	}
	if err := s.loadDropped(next.volumes, added); err != nil {
		return nil, err
	}
	if old != nil && len(added) == 0 && len(next.volumes) == len(old.volumes) {
		return old, nil
	}
	s.loadDamaged(added)
	s.list.Store(next)
	return next, nil
}

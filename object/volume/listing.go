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
	"time"

	"github.com/kist-vcs/kist/object/disk"
)

// listing has the sealed volumes of one moment, newest first. It never changes.
type listing struct {
	volumes []*sealed
	byName  map[string]*sealed
}

// current returns the last listing, and makes one if there is none.
func (s *Store) current() (*listing, error) {
	if l := s.list.Load(); l != nil {
		return l, nil
	}
	return s.refresh()
}

// refresh lists the volumes. If none came or went, it returns the listing that was
// current, so that equal listings are the same pointer.
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
	loadDamaged(s.inVolumes(damagedFile), added)
	s.list.Store(next)
	return next, nil
}

// Info describes a volume.
type Info struct {
	Name    string
	Session string    // the session that wrote it
	Created time.Time // when it was sealed, to the second
	Objects int
	Raw     int64 // bytes of its objects
	Stored  int64 // bytes of the stored values
	Bytes   int64 // bytes of its files

	// Optimised is true if [Sweep.Optimise] wrote the volume, or if it was copied from
	// such volumes.
	Optimised bool
}

// Volumes describes all volumes, newest first. If it cannot describe one, it returns an
// error together with the others.
func (s *Store) Volumes(ctx context.Context) ([]Info, error) {
	var infos []Info
	err := s.search(ctx, func() { infos = nil }, func(v *sealed) (bool, error) {
		info, err := v.describe()
		if err == nil {
			infos = append(infos, *info)
		}
		return false, err
	})
	if err != nil {
		err = fmt.Errorf("list volumes: %w", err)
	}
	return infos, err
}

// Size returns the number of bytes of all volumes, of removed volumes whose files still
// exist, and of the volumes of dead writers.
func (s *Store) Size(ctx context.Context) (int64, error) {
	infos, err := s.Volumes(ctx)
	if err != nil {
		return 0, err
	}
	trash, err := trashBin{s}.size()
	if err != nil {
		return 0, err
	}
	size, err := deadWriters{s}.leftSize()
	size += trash
	for _, info := range infos {
		size += info.Bytes
	}
	return size, err
}

// Oldest returns the time when the oldest volume was begun, or zero.
func (s *Store) Oldest() time.Time {
	l, err := s.current()
	if err != nil || len(l.volumes) == 0 {
		return time.Time{}
	}
	return nameTime(l.volumes[len(l.volumes)-1].name)
}

// describe returns the content of SEAL. It reads the file once.
func (v *sealed) describe() (*Info, error) {
	if info := v.info.Load(); info != nil {
		return info, nil
	}
	dir, err := disk.OpenRoot(v.path)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	s, n, err := readSeal(dir)
	if err != nil {
		if trouble(err) == nil && (!isGone(err) || v.exists()) {
			err = damageError(v.name, sealName, err)
		}
		return nil, err
	}
	info := &Info{Name: v.name, Session: s.Session, Created: s.Created,
		Objects: int(s.Objects), Raw: int64(s.Raw), Stored: int64(s.Stored), Bytes: n, Optimised: s.Optimised}
	for _, f := range s.Files {
		info.Bytes += f.Size
	}
	v.info.Store(info)
	return info, nil
}

// readSeal decodes the SEAL in dir, and returns its size too.
func readSeal(dir *os.Root) (*seal, int64, error) {
	f, err := openFile(dir, sealName)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSealSize+1))
	if err != nil {
		return nil, 0, err
	}
	s, err := decodeSeal(data)
	return s, int64(len(data)), err
}

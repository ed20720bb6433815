package volume

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/kist-vcs/kist/object/disk"
)

// Info describes a volume.
type Info struct {
	Name    string
	Session string    // the session that wrote it
	Created time.Time // when it was sealed, to the second
	Objects int
	Raw     int64 // bytes of its objects
	Stored  int64 // bytes of the stored values
	Bytes   int64 // bytes of its files

	// Optimised says that [Sweep.Optimise] wrote it, or that it was copied from
	// such volumes.
	Optimised bool
}

// Volumes describes all volumes, newest first. It fails if one of them cannot
// be described; the others are returned nevertheless.
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

// Size returns how many bytes the files of all volumes have, including volumes
// that were removed and are not yet deleted, and what dead writers left.
func (s *Store) Size(ctx context.Context) (int64, error) {
	infos, err := s.Volumes(ctx)
	if err != nil {
		return 0, err
	}
	trash, err := s.trashSize()
	if err != nil {
		return 0, err
	}
	size, err := s.leftSize()
	size += trash
	for _, info := range infos {
		size += info.Bytes
	}
	return size, err
}

// Oldest returns when the oldest volume was begun; zero if there is none.
func (s *Store) Oldest() time.Time {
	l, err := s.current()
	if err != nil || len(l.volumes) == 0 {
		return time.Time{}
	}
	return nameTime(l.volumes[len(l.volumes)-1].name)
}

// describe reads what the SEAL tells.
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
			err = &DamageError{Volume: v.name, File: sealName, Err: err}
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

// readSeal reads and decodes the SEAL in dir, and returns its size too.
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

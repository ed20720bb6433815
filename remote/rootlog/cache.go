package rootlog

import (
	"errors"
	"io"
	"path/filepath"
	"strings"

	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/remote/pack"
)

// The cache has state files under their random names, and the newest root as
// root-<number>, each with a checksum at its end. It can be lost, damaged or full without harm: whatever goes wrong with it,
// the file is read from the remote.

const tempPrefix = "tmp-"

// cached returns a state file from the cache; nil: it is not there, or not as
// it should be.
func (l *Log) cached(f File) []byte {
	if l.o.Cache == "" {
		return nil
	}
	file, err := disk.Open(filepath.Join(l.o.Cache, f.Name.String()))
	if err != nil {
		return nil
	}
	defer file.Close()
	data := make([]byte, f.Size)
	if _, err := io.ReadFull(file, data); err != nil || !f.fits(data) {
		return nil
	}
	return data
}

// cache puts a file into the cache.
func (l *Log) cache(name string, data []byte) {
	if l.o.Cache == "" || disk.MkdirAll(l.o.Cache, 0o777) != nil {
		return
	}
	temp, err := disk.CreateTemp(l.o.Cache, tempPrefix)
	if err != nil {
		return
	}
	_, err = temp.Write(disk.WithSum(data))
	if errors.Join(err, temp.Close()) == nil {
		err = disk.Rename(temp.Name(), filepath.Join(l.o.Cache, name))
	}
	if err != nil {
		disk.Remove(temp.Name())
	}
}

// CheckCached checks the bytes of a file in the cache. Earlier versions wrote no
// checksum: then all of it has to be a state file.
func CheckCached(file []byte) error {
	data, summed, err := disk.CutSum(file)
	if err != nil || summed {
		return err // roots always have a checksum
	}
	for _, kind := range []*tableKind{refsTable, indexesTable, condemnedTable, recordsTable} {
		if _, err = decodeState(kind, data); err == nil || errors.Is(err, ErrFormat) {
			return nil
		}
	}
	return err
}

// keep keeps the bases of a head, in memory and in the cache, and no others. The
// cache also gets the root itself, in place of earlier ones.
func (l *Log) keep(s *State) {
	bases := make(map[pack.Name]*base)
	for _, t := range s.tables() {
		if t.base != nil {
			bases[t.base.file.Name] = t.base
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bases = bases
	if l.o.Cache == "" {
		return
	}
	if _, err := disk.Lstat(filepath.Join(l.o.Cache, rootCopy(s.Seq))); err != nil && s.stored != nil {
		l.cache(rootCopy(s.Seq), s.stored)
	}

	entries, _ := disk.ReadDir(l.o.Cache)
	for _, e := range entries {
		name, err := pack.ParseName(e.Name())
		seq, isRoot := parseRootCopy(e.Name())
		if err == nil && bases[name] == nil || isRoot && seq < s.Seq || strings.HasPrefix(e.Name(), tempPrefix) {
			disk.Remove(filepath.Join(l.o.Cache, e.Name()))
		}
	}
}

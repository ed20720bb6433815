// Package lent remembers the files of the worktree that have chunks which are away: for each chunk a path, stat data and an
// offset. So a chunk is read from the file, and not from a remote.
//
// The file .kist/lent is a cache. A chunk that it names is away, so a remote keeps it. Nothing is lost with the file, or if
// it lies: a reader checks the bytes. docs/format/lent.md describes the format.
package lent

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"iter"
	"math"
	"os"
	"path/filepath"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/object/keys"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
)

// FileName is the name of the file in .kist.
const FileName = "lent"

// MinSize is the size in bytes of the smallest files that have lent chunks.
const MinSize = object.MinLentFile

// Version is the version of the format.
const Version = 1

// The layout, see docs/format/lent.md.
const (
	magic      = "kistlent"
	headerSize = 40
	fileSize   = 48
	maxPath    = 1 << 16 // bytes
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrDamaged is matched by the error for a file that is not in the format.
var ErrDamaged = fmt.Errorf("damaged: %w", object.ErrCorrupt)

// File is a file of the worktree, as it was when it had the chunks. Of Stat, the size, the times and the inode count.
type File struct {
	Path string
	Stat index.Stat
}

// plain returns f with only the stat data that counts.
func (f File) plain() File {
	f.Stat = index.Stat{Size: f.Stat.Size, MTime: f.Stat.MTime, CTime: f.Stat.CTime, Inode: f.Stat.Inode}
	return f
}

// place is a chunk in a file.
type place struct {
	id     object.ID
	size   uint32 // bytes
	file   uint32 // number of the file
	offset uint64 // in the file
}

// record returns the record of a place in the key index. An offset has eight bytes, and the field for it only four. So the
// field for the stored size has its lower half.
func (p place) record() keys.Record {
	key := object.Key{Kind: object.KindChunk, ID: p.id}
	return keys.Record{Key: key, File: p.file, Offset: uint32(p.offset >> 32), Stored: uint32(p.offset), Raw: p.size}
}

// placeOf is the reverse of record.
func placeOf(rec keys.Record) place {
	return place{id: rec.Key.ID, size: rec.Raw, file: rec.File, offset: uint64(rec.Offset)<<32 | uint64(rec.Stored)}
}

// Index is an open file. It is safe for concurrent use.
type Index struct {
	f      io.ReaderAt
	closer io.Closer
	files  uint64 // number of files
	paths  uint64 // bytes of all paths
	keys   *keys.Reader
}

// Open opens the file in the directory .kist. The error is [fs.ErrNotExist] if nothing is lent, and otherwise matches
// [ErrDamaged] or [object.ErrNewerFormat].
func Open(kistDir string) (*Index, error) {
	path := filepath.Join(kistDir, FileName)
	info, err := disk.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: no regular file: %w", FileName, ErrDamaged)
	}
	f, err := disk.Open(path)
	if err != nil {
		return nil, err
	}
	x, err := openFile(f)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", FileName, err)
	}
	return x, nil
}

func openFile(f *os.File) (*Index, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	x, err := read(f, info.Size())
	if err == nil {
		x.closer = f
	}
	return x, err
}

// read opens an index of size bytes. It checks everything except the files, their paths, and the blocks of the key index, which are
// checked when they are read.
func read(f io.ReaderAt, size int64) (*Index, error) {
	var h [headerSize]byte
	if _, err := f.ReadAt(h[:], 0); err != nil {
		return nil, fmt.Errorf("header: %w: %w", ErrDamaged, err)
	}
	x := &Index{f: f, files: binary.BigEndian.Uint64(h[16:]), paths: binary.BigEndian.Uint64(h[24:])}
	switch {
	case string(h[:8]) != magic:
		return nil, fmt.Errorf("header: no such file: %w", ErrDamaged)
	case h[8] > Version:
		return nil, fmt.Errorf("version %d: %w", h[8], object.ErrNewerFormat)
	case h[8] != Version || [7]byte(h[9:16]) != [7]byte{} || [4]byte(h[36:]) != [4]byte{}:
		return nil, fmt.Errorf("header: unknown fields: %w", ErrDamaged)
	case crc32.Checksum(h[:32], castagnoli) != binary.BigEndian.Uint32(h[32:]):
		return nil, fmt.Errorf("header: checksum: %w", ErrDamaged)
	case x.files > math.MaxUint32, x.paths > math.MaxInt64/2, x.keysAt() > size:
		return nil, fmt.Errorf("header: %d files and %d bytes of paths: %w", x.files, x.paths, ErrDamaged)
	}

	var err error
	if x.keys, err = keys.Open(io.NewSectionReader(f, x.keysAt(), size-x.keysAt()), size-x.keysAt()); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return x, nil
}

func (x *Index) pathsAt() int64 { return headerSize + int64(x.files)*fileSize }
func (x *Index) keysAt() int64  { return x.pathsAt() + int64(x.paths) }

// Close closes the file.
func (x *Index) Close() error {
	if x.closer == nil {
		return nil
	}
	return x.closer.Close()
}

// Len returns the number of chunks.
func (x *Index) Len() int { return x.keys.Len() }

// readFile returns file i. The error matches [ErrDamaged].
func (x *Index) readFile(i uint32) (File, error) {
	if uint64(i) >= x.files {
		return File{}, fmt.Errorf("file %d of %d: %w", i, x.files, ErrDamaged)
	}
	var b [fileSize]byte
	if _, err := x.f.ReadAt(b[:], headerSize+int64(i)*fileSize); err != nil {
		return File{}, fmt.Errorf("file %d: %w: %w", i, ErrDamaged, err)
	}
	at, n := binary.BigEndian.Uint64(b[0:]), uint64(binary.BigEndian.Uint32(b[8:]))
	if n > maxPath || at > x.paths || n > x.paths-at {
		return File{}, fmt.Errorf("file %d: a path of %d bytes: %w", i, n, ErrDamaged)
	}
	path := make([]byte, n)
	if _, err := x.f.ReadAt(path, x.pathsAt()+int64(at)); err != nil {
		return File{}, fmt.Errorf("file %d: %w: %w", i, ErrDamaged, err)
	}
	if crc32.Update(crc32.Checksum(b[:44], castagnoli), castagnoli, path) != binary.BigEndian.Uint32(b[44:]) {
		return File{}, fmt.Errorf("file %d: checksum: %w", i, ErrDamaged)
	}
	if err := tree.CheckPath(string(path)); err != nil {
		return File{}, fmt.Errorf("file %d: %w: %w", i, ErrDamaged, err)
	}
	return File{Path: string(path), Stat: index.Stat{
		Size:  int64(binary.BigEndian.Uint64(b[12:])),
		MTime: int64(binary.BigEndian.Uint64(b[20:])),
		CTime: int64(binary.BigEndian.Uint64(b[28:])),
		Inode: binary.BigEndian.Uint64(b[36:]),
	}}, nil
}

// appendFile appends the record of a file whose path begins at the offset at.
func appendFile(dst []byte, f *File, at uint64) []byte {
	n := len(dst)
	dst = binary.BigEndian.AppendUint64(dst, at)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(f.Path)))
	for _, v := range []uint64{uint64(f.Stat.Size), uint64(f.Stat.MTime), uint64(f.Stat.CTime), f.Stat.Inode} {
		dst = binary.BigEndian.AppendUint64(dst, v)
	}
	sum := crc32.Update(crc32.Checksum(dst[n:], castagnoli), castagnoli, []byte(f.Path))
	return binary.BigEndian.AppendUint32(dst, sum)
}

// find returns the place of a chunk and its file, and whether there is one. The error matches [ErrDamaged].
func (x *Index) find(id object.ID) (place, File, bool, error) {
	rec, ok, err := x.keys.Find(object.Key{Kind: object.KindChunk, ID: id})
	if err != nil || !ok {
		if err != nil {
			err = fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		return place{}, File{}, false, err
	}
	p := placeOf(rec)
	f, err := x.readFile(p.file)
	if err != nil {
		return place{}, File{}, false, err
	}
	if err := p.check(f); err != nil {
		return place{}, File{}, false, err
	}
	return p, f, true, nil
}

// check returns an error that matches [ErrDamaged] if the place is not in the file.
func (p place) check(f File) error {
	size := f.Stat.Size
	if p.size > object.MaxChunkSize || size < 0 || p.offset > uint64(size) || uint64(p.size) > uint64(size)-p.offset {
		return fmt.Errorf("%d bytes at %d of a file of %d: %w", p.size, p.offset, size, ErrDamaged)
	}
	return nil
}

// all yields the places of all chunks, sorted by ID. The first error ends the sequence.
func (x *Index) all() iter.Seq2[place, error] {
	return func(yield func(place, error) bool) {
		for rec, err := range x.keys.All() {
			if err == nil && rec.Key.Kind != object.KindChunk {
				err = errors.New("an object that is no chunk")
			}
			if err != nil {
				yield(place{}, fmt.Errorf("%w: %w", ErrDamaged, err))
				return
			}
			if !yield(placeOf(rec), nil) {
				return
			}
		}
	}
}

// Verify reads all of it. The error matches [ErrDamaged].
func (x *Index) Verify() error {
	if err := x.keys.Verify(); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	for p, err := range x.all() {
		if err != nil {
			return err
		}
		f, err := x.readFile(p.file)
		if err == nil {
			err = p.check(f)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// isNone reports whether err means that there is no usable file: nothing is lent.
func isNone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrDamaged) || errors.Is(err, object.ErrNewerFormat)
}

// Chunk is a lent chunk.
type Chunk struct {
	Key  object.Key
	Size uint32 // bytes
	Path string // of the file that has it
}

// Chunks yields the chunks in the files that want selects. The first error, which matches [ErrDamaged], ends the sequence.
func (x *Index) Chunks(want func(f File) bool) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		paths := map[uint32]string{}
		for i := range uint32(x.files) {
			f, err := x.readFile(i)
			if err != nil {
				yield(Chunk{}, err)
				return
			}
			if want(f) {
				paths[i] = f.Path
			}
		}
		if len(paths) == 0 {
			return
		}
		for p, err := range x.all() {
			if err != nil {
				yield(Chunk{}, err)
				return
			}
			path, ok := paths[p.file]
			if ok && !yield(Chunk{object.Key{Kind: object.KindChunk, ID: p.id}, p.size, path}, nil) {
				return
			}
		}
	}
}

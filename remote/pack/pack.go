// Package pack reads and writes packs, in which objects lie on a remote, and
// the index files that tell in which pack an object is. A pack holds stored
// values (package object/frame) one after the other, then its own index; an
// index file is that of many packs, and is searched as it lies. Both use the
// codec of package object/keys.
//
// The formats are described in docs/format/pack.md and docs/format/packindex.md.
package pack

import (
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/frame"
	"github.com/kist-vcs/kist/object/keys"
	"github.com/kist-vcs/kist/remote"
)

// Sizes of packs, in bytes, all parts included.
const (
	// TargetSize is the size from which on a pack is full.
	TargetSize = 32 << 20

	// MaxSize is the size of the largest pack.
	MaxSize = 64 << 20
)

// MaxChain is how many patches of a pack hang on each other at most.
const MaxChain = 8

// The layout, see docs/format/pack.md.
const (
	trailerSize = nameSize + 4 + 4 + 4 + magicSize // name, index offset and length, checksum, magic
	magicSize   = 8
	packMagic   = "kistpack"
)

// minSize is less than any pack has.
var minSize = int(remote.HeaderSize + keys.Size(1) + trailerSize)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// SizeOf returns the size of a pack of so many objects, whose stored values have
// so many bytes together.
func SizeOf(objects int, stored int64) int64 {
	return remote.HeaderSize + stored + keys.Size(objects) + trailerSize
}

// Info names a pack.
type Info struct {
	Name Name
	Size uint32 // bytes of the whole pack, at most MaxSize
}

func (i Info) check() error {
	if i.Name.IsZero() {
		return errors.New("a pack without a name")
	}
	if int64(i.Size) < int64(minSize) || i.Size > MaxSize {
		return fmt.Errorf("pack %s of %d bytes", i.Name, i.Size)
	}
	return nil
}

// Entry says where an object lies.
type Entry struct {
	Key    object.Key
	Pack   Info
	Offset uint32 // in the pack, in bytes
	Stored uint32 // bytes of the stored value (package object/frame)
	Raw    uint32 // bytes of the object
}

// check refuses what no entry can be, so that nothing is allocated or read for
// it.
func (e *Entry) check() error {
	if err := e.Pack.check(); err != nil {
		return err
	}
	if err := checkValue(e.Key.Kind, int(e.Stored), int(e.Raw)); err != nil {
		return err
	}
	end := uint64(e.Pack.Size) - trailerSize - uint64(keys.Size(1))
	if e.Offset < remote.HeaderSize || uint64(e.Offset)+uint64(e.Stored) > end {
		return fmt.Errorf("%d bytes at %d are not in a pack of %d", e.Stored, e.Offset, e.Pack.Size)
	}
	return nil
}

// maxRaw returns how many bytes an object of a kind has at most.
func maxRaw(kind object.Kind) int {
	if kind == object.KindChunk {
		return object.MaxChunkSize
	}
	return object.MaxNodeSize
}

// checkValue checks the lengths of an object and of its stored value.
func checkValue(kind object.Kind, stored, raw int) error {
	switch {
	case !kind.Valid():
		return fmt.Errorf("invalid %s", kind)
	case raw <= 0 || raw > maxRaw(kind):
		return fmt.Errorf("%s of %d bytes", kind, raw)
	case stored <= 0 || stored > raw+frame.MaxOverhead:
		return fmt.Errorf("%s of %d bytes stored as %d", kind, raw, stored)
	}
	return nil
}

// Decode returns the object of e, whose stored value was read from the pack.
// It is verified against its ID, and its form is not looked at. The result may
// be part of value. An error is an [*object.CorruptError]. A near patch is refused:
// see [Values].
func Decode(e Entry, value []byte) ([]byte, error) {
	data, err := decode(&e, value)
	if err != nil {
		return nil, e.corrupt(err)
	}
	return data, nil
}

// corrupt says that the object of e is damaged.
func (e *Entry) corrupt(err error) error {
	return &object.CorruptError{Key: e.Key, Where: fmt.Sprintf("pack %s, offset %d", e.Pack.Name, e.Offset), Err: err}
}

func decode(e *Entry, value []byte) ([]byte, error) {
	if err := e.checkStored(value); err != nil {
		return nil, err
	}
	data, err := decodeWhole(value, int(e.Raw))
	if err != nil {
		return nil, err
	}
	return data, e.verify(data)
}

// checkStored checks that value may be that of e.
func (e *Entry) checkStored(value []byte) error {
	if err := checkValue(e.Key.Kind, int(e.Stored), int(e.Raw)); err != nil {
		return err
	}
	if len(value) != int(e.Stored) {
		return fmt.Errorf("%d bytes stored, want %d", len(value), e.Stored)
	}
	return nil
}

// verify checks that data is the object of e.
func (e *Entry) verify(data []byte) error {
	if object.Sum(data) != e.Key.ID {
		return errors.New("the bytes do not have this hash")
	}
	return nil
}

// decodeWhole returns the object of raw bytes that value holds, which is no
// patch. The result may be part of value.
func decodeWhole(value []byte, raw int) ([]byte, error) {
	data, ok := frame.Raw(value)
	switch {
	case !ok:
		return frame.Decode(make([]byte, 0, raw+frame.DecodeSlack), value, raw)
	case len(data) != raw:
		return nil, fmt.Errorf("%d bytes, want %d", len(data), raw)
	}
	return data, nil
}

// CorruptError says that a pack's own index, an index file, or the entries in
// a root are damaged, and where. It matches [object.ErrCorrupt], and
// [remote.ErrNewerFormat] where that is what is wrong.
type CorruptError struct {
	Pack Name   // the zero Name: an index file
	Part string // "size", "header", "trailer", "packs", "index" or "entry"
	Err  error  // what is wrong
}

func (e *CorruptError) Error() string {
	if e.Pack.IsZero() {
		return fmt.Sprintf("pack index: %s: %v", e.Part, e.Err)
	}
	return fmt.Sprintf("pack %s: %s: %v", e.Pack, e.Part, e.Err)
}

// Is makes errors.Is(err, object.ErrCorrupt) true.
func (e *CorruptError) Is(target error) bool { return target == object.ErrCorrupt }

// Unwrap returns the cause.
func (e *CorruptError) Unwrap() error { return e.Err }

var (
	errChecksum = errors.New("checksum does not match")
	errEnd      = errors.New("does not end as it should")
)

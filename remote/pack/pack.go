// Package pack reads and writes packs, which contain objects on a remote, and
// index files, which list the pack of each object. A pack has stored values
// (package object/frame) one after the other, and then its own index. An index
// file covers many packs and is searched without decoding it first. Both use
// the encoding of package object/keys.
//
// docs/format/pack.md and docs/format/packindex.md describe the formats.
package pack

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/frame"
	"github.com/kist-vcs/kist/object/keys"
	"github.com/kist-vcs/kist/remote"
)

// Sizes of packs, in bytes, all parts included.
const (
	// TargetSize is the size at which a pack is full.
	TargetSize = 32 << 20

	// MaxSize is the size of the largest pack.
	MaxSize = 64 << 20
)

// MaxChain is the largest number of patches in a chain.
const MaxChain = 8

// The layout, see docs/format/pack.md.
const (
	trailerSize = nameSize + 4 + 4 + 4 + magicSize // name, index offset and length, checksum, magic
	magicSize   = 8
	packMagic   = "kistpack"
)

// minSize is smaller than any pack, in bytes.
var minSize = int(remote.HeaderSize + keys.Size(1) + trailerSize)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// SizeOf returns the size of a pack with a number of objects and the total
// bytes of their stored values.
func SizeOf(objects int, stored int64) int64 {
	return remote.HeaderSize + stored + keys.Size(objects) + trailerSize
}

// Info is the name and size of a pack.
type Info struct {
	Name Name
	Size uint32 // bytes of the whole pack, at most MaxSize
}

func (i Info) checkInfo() error {
	if i.Name.IsZero() {
		return errors.New("a pack without a name")
	}
	if int64(i.Size) < int64(minSize) || i.Size > MaxSize {
		return fmt.Errorf("pack %s of %d bytes", i.Name, i.Size)
	}
	return nil
}

// Entry is the place of an object.
type Entry struct {
	Key    object.Key
	Pack   Info
	Offset uint32 // in the pack, in bytes
	Stored uint32 // bytes of the stored value (package object/frame)
	Raw    uint32 // bytes of the object
}

// checkEntry refuses impossible entries, so that nothing is allocated or read for
// them.
func (e *Entry) checkEntry() error {
	if err := e.Pack.checkInfo(); err != nil {
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

// maxRaw returns the largest size of an object of a kind, in bytes.
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

// Decode returns the object of e from its stored value. It checks the object's
// ID, but not its form. The result may share memory with value. An error is an
// [*object.CorruptError]. Decode refuses near patches: use [Values] for these.
func Decode(e Entry, value []byte) ([]byte, error) {
	data, err := decodeValue(&e, value)
	if err != nil {
		return nil, e.corruptError(err)
	}
	return data, nil
}

// corruptError returns the error for a damaged object of e.
func (e *Entry) corruptError(err error) error {
	return &object.CorruptError{Key: e.Key, Where: fmt.Sprintf("pack %s, offset %d", e.Pack.Name, e.Offset), Err: err}
}

func decodeValue(e *Entry, value []byte) ([]byte, error) {
	if err := e.checkStored(value); err != nil {
		return nil, err
	}
	data, err := decodePlain(value, int(e.Raw))
	if err != nil {
		return nil, err
	}
	return data, e.verifyObject(data)
}

// checkStored checks that value can be the stored value of e.
func (e *Entry) checkStored(value []byte) error {
	if err := checkValue(e.Key.Kind, int(e.Stored), int(e.Raw)); err != nil {
		return err
	}
	if len(value) != int(e.Stored) {
		return fmt.Errorf("%d bytes stored, want %d", len(value), e.Stored)
	}
	return nil
}

// verifyObject checks that data is the object of e.
func (e *Entry) verifyObject(data []byte) error {
	if object.Sum(data) != e.Key.ID {
		return errors.New("the bytes do not have this hash")
	}
	return nil
}

// decodePlain returns the object of raw bytes in value, which must not be a
// patch. The result may share memory with value.
func decodePlain(value []byte, raw int) ([]byte, error) {
	data, ok := frame.Raw(value)
	switch {
	case !ok:
		return frame.Decode(make([]byte, 0, raw+frame.DecodeSlack), value, raw)
	case len(data) != raw:
		return nil, fmt.Errorf("%d bytes, want %d", len(data), raw)
	}
	return data, nil
}

// ErrDamaged is the kind of [*object.DamageError] for a pack's own index, an index file, or
// the entries in a root. The error also matches [remote.ErrNewerFormat] if that is the cause.
var ErrDamaged = errors.New("damaged pack, or index of packs")

// damageIn returns the error for damage in a part of a pack: its size, header, trailer,
// packs, index or entry. A zero name stands for an index file.
func damageIn(name Name, part string, err error) error {
	what := "pack index"
	if !name.IsZero() {
		what = "pack " + name.String()
	}
	return &object.DamageError{Name: what, Err: fmt.Errorf("%s: %w", part, err), Kind: ErrDamaged}
}

var (
	errChecksum = errors.New("checksum does not match")
	errEnd      = errors.New("does not end as it should")
)

const nameSize = 16

// Name is the random name of a pack or of an index file. The zero Name means
// none.
type Name [nameSize]byte

// NewName returns a random name.
func NewName(rand io.Reader) (Name, error) {
	var n Name
	if _, err := io.ReadFull(rand, n[:]); err != nil {
		return Name{}, fmt.Errorf("make up a name: %w", err)
	}
	return n, nil
}

// ParseName reads a name from its 32 lower-case hexadecimal digits.
func ParseName(s string) (Name, error) {
	var n Name
	if len(s) != hex.EncodedLen(len(n)) {
		return Name{}, fmt.Errorf("parse name %q: want %d hexadecimal digits", s, hex.EncodedLen(len(n)))
	}
	if _, err := hex.Decode(n[:], []byte(s)); err != nil || n.String() != s {
		return Name{}, fmt.Errorf("parse name %q: not lower-case hexadecimal", s)
	}
	return n, nil
}

// String returns the name as 32 lower-case hexadecimal digits.
func (n Name) String() string { return hex.EncodeToString(n[:]) }

// Path returns the name of the blob of a pack.
func (n Name) Path() string {
	s := n.String()
	return "packs/" + s[:2] + "/" + s
}

// ParsePath returns the name of the pack whose blob has the name path. It reports whether
// path is that of a pack.
func ParsePath(path string) (Name, bool) {
	n, err := ParseName(path[strings.LastIndexByte(path, '/')+1:])
	return n, err == nil && n.Path() == path
}

// IndexPath returns the name of the blob of an index file.
func (n Name) IndexPath() string { return "index/" + n.String() }

// IsZero reports whether n is the zero Name.
func (n Name) IsZero() bool { return n == Name{} }

// Compare orders names by their bytes.
func (n Name) Compare(other Name) int { return bytes.Compare(n[:], other[:]) }

// blocks caches the parts of packs with recently read bases.
type blocks struct {
	mu     sync.Mutex
	recent []block // most recently used first
}

type block struct {
	pack Name
	Part
}

// cachedValue returns n bytes of a pack at off, if they are cached.
func (b *blocks) cachedValue(pack Name, off int64, n int) ([]byte, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, kept := range b.recent {
		if kept.pack != pack {
			continue
		}
		if value, ok := kept.heldValue(off, n); ok {
			copy(b.recent[1:i+1], b.recent[:i])
			b.recent[0] = kept
			return value, true
		}
	}

	return nil, false
}

// putPart caches a part of a pack. Its bytes must not change afterwards.
func (b *blocks) putPart(pack Name, p Part) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.recent = slices.Insert(b.recent[:min(len(b.recent), maxBlocks-1)], 0, block{pack, p})
}

// dropPack drops the cached parts of a pack.
func (b *blocks) dropPack(pack Name) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.recent = slices.DeleteFunc(b.recent, func(kept block) bool { return kept.pack == pack })
}

// minInline is the least size of an entry in a root, in bytes: its kind, ID
// and three numbers.
const minInline = 1 + len(object.ID{}) + 3

// AppendEntries appends the entries of one pack, as [Writer.Finish] or
// [ParseEntries] returned them, in the encoding of a root: 38 to 43 bytes for
// each. It does not change entries.
func AppendEntries(dst []byte, entries []Entry) []byte {
	pos := uint32(remote.HeaderSize)
	for _, e := range byOffset(entries) {
		dst = append(dst, byte(e.Key.Kind))
		dst = append(dst, e.Key.ID[:]...)
		for _, n := range [...]uint32{e.Offset - pos, e.Stored, e.Raw} {
			dst = binary.AppendUvarint(dst, uint64(n))
		}
		pos = e.Offset + e.Stored
	}
	return dst
}

// ParseEntries decodes the entries of a pack from AppendEntries, sorted by
// key. The error matches [ErrDamaged] if AppendEntries cannot have written
// data. Memory is bounded by the size of data.
func ParseEntries(info Info, data []byte) ([]Entry, error) {
	if err := info.checkInfo(); err != nil {
		return nil, damageIn(info.Name, "size", err)
	}

	entries := make([]Entry, 0, len(data)/minInline)
	for pos := uint64(remote.HeaderSize); len(data) > 0; {
		e, rest, err := parseEntry(info, data, pos)
		if err != nil {
			return nil, damageIn(info.Name, "entry", err)
		}
		entries, data = append(entries, e), rest
		pos = uint64(e.Offset) + uint64(e.Stored)
	}

	slices.SortFunc(entries, func(a, b Entry) int { return a.Key.Compare(b.Key) })
	for i := 1; i < len(entries); i++ {
		if entries[i].Key == entries[i-1].Key {
			return nil, damageIn(info.Name, "entry", errTwice)
		}
	}

	return entries, nil
}

var (
	errShort = errors.New("ends within an entry")
	errTwice = errors.New("a key occurs twice")
	errPlain = errors.New("a number is not in its shortest form, or too large")
)

// parseEntry decodes one entry. The value before it ends at pos.
func parseEntry(info Info, data []byte, pos uint64) (e Entry, rest []byte, err error) {
	if len(data) < minInline {
		return Entry{}, nil, errShort
	}

	e.Pack = info
	e.Key.Kind = object.Kind(data[0])
	data = data[1+copy(e.Key.ID[:], data[1:]):]
	var numbers [3]uint64 // gap, stored, raw
	for i := range numbers {
		n, size := binary.Uvarint(data)
		switch {
		case size == 0:
			return Entry{}, nil, errShort
		case size < 0, size > 1 && data[size-1] == 0, n > MaxSize:
			return Entry{}, nil, errPlain
		}
		numbers[i], data = n, data[size:]
	}

	e.Offset, e.Stored, e.Raw = uint32(pos+numbers[0]), uint32(numbers[1]), uint32(numbers[2])
	return e, data, e.checkEntry()
}

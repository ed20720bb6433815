package pack

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote"
)

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
// key. The error is a [*CorruptError] if AppendEntries cannot have written
// data. Memory is bounded by the size of data.
func ParseEntries(info Info, data []byte) ([]Entry, error) {
	corrupt := func(part string, err error) error {
		return &CorruptError{Pack: info.Name, Part: part, Err: err}
	}
	if err := info.check(); err != nil {
		return nil, corrupt("size", err)
	}

	entries := make([]Entry, 0, len(data)/minInline)
	for pos := uint64(remote.HeaderSize); len(data) > 0; {
		e, rest, err := parseEntry(info, data, pos)
		if err != nil {
			return nil, corrupt("entry", err)
		}
		entries, data = append(entries, e), rest
		pos = uint64(e.Offset) + uint64(e.Stored)
	}

	slices.SortFunc(entries, func(a, b Entry) int { return a.Key.Compare(b.Key) })
	for i := 1; i < len(entries); i++ {
		if entries[i].Key == entries[i-1].Key {
			return nil, corrupt("entry", errTwice)
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
	return e, data, e.check()
}

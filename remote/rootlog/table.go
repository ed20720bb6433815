package rootlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fxamacker/cbor/v2"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/remote/pack"
)

// tableKind is one of the tables of a root, with the form of its names and values.
type tableKind struct {
	name  string
	check func(name string, value cbor.ByteString) error
}

var (
	refsTable = &tableKind{"refs", func(name string, value cbor.ByteString) error {
		if _, err := decodeKey(value); err != nil {
			return err
		}
		return checkRefName(name)
	}}
	indexesTable = &tableKind{"indexes", func(name string, value cbor.ByteString) error {
		_, err := decodeIndex(name, value)
		return err
	}}
	condemnedTable = &tableKind{"condemned", func(name string, value cbor.ByteString) error {
		if _, err := decodeSeq(value); err != nil {
			return err
		}
		return CheckFileName(name)
	}}
	recordsTable = &tableKind{"records", func(name string, value cbor.ByteString) error {
		_, err := record.Decode(name, string(value))
		return err
	}}
)

// tableKinds are the tables of a root, in the order of [Root.tables] and [State.tables].
var tableKinds = [5]*tableKind{refsTable, indexesTable, condemnedTable, recordsTable, lostTable}

// lostTable has lost objects, with the name of the user who accepted each loss.
var lostTable = &tableKind{"lost", func(name string, value cbor.ByteString) error {
	if _, err := parseLostName(name); err != nil {
		return err
	}
	return checkLine("who", string(value))
}}

func lostName(key object.Key) string { return key.Kind.String() + "/" + key.ID.String() }

func parseLostName(name string) (key object.Key, err error) {
	of, id, _ := strings.Cut(name, "/")
	for key.Kind = object.KindChunk; key.Kind.Valid() && key.Kind.String() != of; key.Kind++ {
	}
	if key.ID, err = object.ParseID(id); err != nil || lostName(key) != name || !key.Kind.Valid() {
		return key, fmt.Errorf("%q is no name of an object", name)
	}
	return key, nil
}

// The values of indexes are the size in eight bytes, and the hash.

func encodeIndex(f File) cbor.ByteString {
	return cbor.ByteString(append(binary.BigEndian.AppendUint64(nil, uint64(f.Size)), f.Sum[:]...))
}

func decodeIndex(name string, value cbor.ByteString) (f File, err error) {
	if f.Name, err = pack.ParseName(name); err != nil {
		return File{}, err
	}
	if len(value) != 8+len(f.Sum) {
		return File{}, errors.New("malformed length and hash of an index file")
	}
	f.Size = int64(binary.BigEndian.Uint64([]byte(value[:8])))
	copy(f.Sum[:], value[8:])
	if f.Size <= 0 {
		return File{}, errors.New("index file without bytes")
	}
	return f, nil
}

// The values of condemned are the numbers of roots in eight bytes.

func encodeSeq(seq uint64) cbor.ByteString {
	return cbor.ByteString(binary.BigEndian.AppendUint64(nil, seq))
}

func decodeSeq(value cbor.ByteString) (uint64, error) {
	if len(value) != 8 {
		return 0, errors.New("malformed number of a root")
	}
	seq := binary.BigEndian.Uint64([]byte(value))
	if seq == 0 || seq > maxSeq {
		return 0, fmt.Errorf("condemned by root %d", seq)
	}
	return seq, nil
}

// base is a table in a state file.
type base struct {
	file    File
	entries map[string]cbor.ByteString
}

// table is a table of a state. Its base may be nil.
type table struct {
	base    *base
	entries map[string]cbor.ByteString // all entries
}

// eachEntry calls f with each entry, until it returns an error.
func (t table) eachEntry(f func(name string, value cbor.ByteString) error) error {
	for name, value := range t.entries {
		if err := f(name, value); err != nil {
			return err
		}
	}
	return nil
}

// clone returns a copy with entries of its own.
func (t table) clone() table {
	entries := maps.Clone(t.entries)
	if entries == nil {
		entries = make(map[string]cbor.ByteString)
	}
	return table{t.base, entries}
}

// encodeTable returns the table in the form of a root; nil stands for an empty one.
func (t table) encodeTable() *tableBody {
	b := &tableBody{Set: t.entries}
	if t.base != nil {
		b.Base, b.Set = encodeFile(t.base.file), make(map[string]cbor.ByteString)
		for name, value := range t.entries {
			if old, ok := t.base.entries[name]; !ok || old != value {
				b.Set[name] = value
			}
		}
		for name := range t.base.entries {
			if _, ok := t.entries[name]; !ok {
				b.Del = append(b.Del, name)
			}
		}
		slices.Sort(b.Del)
	}
	if b.Base == nil && len(b.Set) == 0 {
		return nil
	}
	return b
}

// sizeOfChanges returns the approximate number of bytes of the changes to the base.
func (b *tableBody) sizeOfChanges() int {
	if b == nil {
		return 0
	}
	size := 0
	for name, value := range b.Set {
		size += len(name) + len(value) + 4
	}
	for _, name := range b.Del {
		size += len(name) + 2
	}
	return size
}

// checkTable checks the table as far as that is possible without its base.
func (b *tableBody) checkTable(kind *tableKind) error {
	if b == nil {
		return nil
	}
	err := errCanonical
	switch {
	case b.Base == nil && (len(b.Set) == 0 || len(b.Del) > 0):
	case !isSorted(b.Del, strings.Clone), slices.ContainsFunc(b.Del, func(name string) bool { _, ok := b.Set[name]; return ok }):
	default:
		err = table{entries: b.Set}.eachEntry(kind.check)
	}
	if err == nil && b.Base != nil {
		_, err = decodeFile(b.Base, maxStateSize)
	}
	if err != nil {
		return fmt.Errorf("table %s: %w", kind.name, err)
	}
	return nil
}

// resolveTable returns the table with all its entries. Base is its base, or nil.
func (b *tableBody) resolveTable(kind *tableKind, base *base) (table, error) {
	if b == nil {
		return table{}, nil
	}
	if base == nil {
		return table{nil, b.Set}, nil
	}
	t := table{base, base.entries}.clone()
	for _, name := range b.Del {
		if _, ok := t.entries[name]; !ok {
			return table{}, fmt.Errorf("table %s: %w", kind.name, errCanonical)
		}
		delete(t.entries, name)
	}
	for name, value := range b.Set {
		if old, ok := t.entries[name]; ok && old == value {
			return table{}, fmt.Errorf("table %s: %w", kind.name, errCanonical)
		}
		t.entries[name] = value
	}
	return t, nil
}

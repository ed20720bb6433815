package pack

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/keys"
	"github.com/kist-vcs/kist/remote"
)

// FuzzReadIndex checks that the only error of a hostile pack is damage, and that the
// accepted entries are inside the pack.
func FuzzReadIndex(f *testing.F) {
	for _, n := range []int{1, 3, 40} {
		body, _ := build(f, nameOf(1), items(uint64(n), n))
		f.Add(body, false)
		f.Add(edited(body, -20, 0, 0, 0, 40), true)
	}
	for _, v := range readVectors(f, "pack.json") {
		f.Add(v.data, true)
	}
	f.Fuzz(func(t *testing.T, data []byte, sum bool) {
		if sum && len(data) >= trailerSize {
			data = resummed(edited(data, -trailerSize, bytes.Repeat([]byte{1}, nameSize)...))
		}
		entries, err := readPack(nameOf(1), data)
		if err != nil {
			if !errors.Is(err, object.ErrCorrupt) {
				t.Fatalf("error %v, want ErrCorrupt", err)
			}
			return
		}
		for _, e := range entries {
			if data, err := Decode(e, value(data, e)); err == nil && object.Sum(data) != e.Key.ID {
				t.Fatalf("Decode(%+v) returns other bytes", e)
			}
		}
	})
}

// FuzzOpenIndex checks that the only error of a hostile index file is damage, and that
// Find finds all entries of a verified file.
func FuzzOpenIndex(f *testing.F) {
	entries, _ := packed(f, 1, 70, 3)
	f.Add(writeIndexFile(f, entries))
	f.Add(writeIndexFile(f, entries[:1]))
	for _, v := range readVectors(f, "packindex.json") {
		f.Add(v.data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		x, err := OpenIndex(bytes.NewReader(data), int64(len(data)))
		if err == nil {
			err = x.Verify()
		}
		if err != nil {
			if !errors.Is(err, object.ErrCorrupt) {
				t.Fatalf("error %v, want ErrCorrupt", err)
			}
			if x == nil {
				return
			}
		}

		intact := err == nil
		packs := x.Packs()
		for e, err := range x.All() {
			if err != nil {
				break
			}
			got, ok, err := x.Find(e.Key)
			if intact && (err != nil || !ok || got != e || !slices.Contains(packs, e.Pack)) {
				t.Fatalf("Find(%s) = %+v, %t, %v; want %+v", e.Key, got, ok, err, e)
			}
		}
	})
}

// FuzzRecords makes packs and index files with correct checksums and arbitrary records.
// An accepted file is equal to the file that a writer makes of its entries.
func FuzzRecords(f *testing.F) {
	const size = 1 + 1 + 4*4
	f.Add([]byte{}, uint32(100))
	f.Add([]byte("\x01\x01\x00\x00\x00\x00\x00\x00\x00\x20\x00\x00\x00\x05\x00\x00\x00\x04"), uint32(5))
	f.Add([]byte("\x01\x01\x00\x00\x00\x00\x00\x00\x00\x25\x00\x00\x00\x05\x00\x00\x00\x04"+
		"\x02\x01\x00\x00\x00\x00\x00\x00\x00\x20\x00\x00\x00\x05\x00\x00\x00\x04"), uint32(10))
	f.Fuzz(func(t *testing.T, data []byte, values uint32) {
		var records []keys.Record
		for ; len(data) >= size && len(records) < 100; data = data[size:] {
			n := func(i int) uint32 { return binary.BigEndian.Uint32(data[i:]) }
			kind := object.Kind(1 + data[0]%5)
			records = append(records, record(kind, data[1], n(2), n(6), n(10), n(14)))
		}
		slices.SortFunc(records, func(a, b keys.Record) int { return a.Key.Compare(b.Key) })
		records = slices.CompactFunc(records, func(a, b keys.Record) bool { return a.Key == b.Key })

		body := madeUpPack(t, nameOf(1), make([]byte, values%10_000), records...)
		if entries, err := readPack(nameOf(1), body); err == nil && len(entries) > 0 {
			wantWritten(t, body, entries)
		} else if err != nil && !errors.Is(err, object.ErrCorrupt) {
			t.Fatal(err)
		}
		packs := []Info{{nameOf(1), 5000}, {nameOf(2), 1 << 20}}
		index := madeUpIndex(t, packs, records...)
		if entries, err := readIndexFile(index); err == nil && len(records) > 0 {
			again := writeIndexFile(t, entries)
			if x := openIndexFile(t, again); len(x.Packs()) == len(packs) && !bytes.Equal(again, index) {
				t.Fatal("WriteIndex makes another file of the same entries")
			}
		} else if err != nil && !errors.Is(err, object.ErrCorrupt) {
			t.Fatal(err)
		}
	})
}

// wantWritten checks that a Writer makes the same pack of its entries.
func wantWritten(t *testing.T, body []byte, entries []Entry) {
	t.Helper()
	w := NewWriter(nil)
	for _, e := range byOffset(entries) {
		if err := w.Add(e.Key, value(body, e), int(e.Raw)); err != nil {
			t.Fatal(err)
		}
	}
	again, _, err := w.Finish(entries[0].Pack.Name)
	if err != nil || !bytes.Equal(again, body) {
		t.Fatalf("a Writer makes another pack of the same entries, error %v", err)
	}
}

// FuzzParseEntries checks that AppendEntries writes the same bytes for accepted entries.
func FuzzParseEntries(f *testing.F) {
	_, entries := build(f, nameOf(1), items(1, 5))
	f.Add(AppendEntries(nil, entries), uint32(5000))
	for _, v := range readVectors(f, "packentries.json") {
		f.Add(v.data, uint32(100_000))
	}
	f.Fuzz(func(t *testing.T, data []byte, size uint32) {
		info := Info{nameOf(1), size}
		entries, err := ParseEntries(info, data)
		if err != nil {
			if !errors.Is(err, object.ErrCorrupt) {
				t.Fatalf("error %v, want ErrCorrupt", err)
			}
			return
		}
		if again := AppendEntries(nil, entries); !bytes.Equal(again, data) {
			t.Fatalf("AppendEntries = %x, want %x", again, data)
		}
		if len(entries) > 0 {
			x := openIndexFile(t, writeIndexFile(t, entries))
			if x.Len() != len(entries) || !slices.Equal(x.Packs(), []Info{info}) {
				t.Fatal("the index file has other entries")
			}
		}
	})
}

// FuzzDecode checks that Decode returns only bytes with the expected hash.
func FuzzDecode(f *testing.F) {
	for _, it := range items(1, 4) {
		f.Add(it.value, uint32(len(it.data)), byte(it.key.Kind), it.key.ID[:])
	}
	f.Fuzz(func(t *testing.T, value []byte, raw uint32, kind byte, id []byte) {
		e := Entry{Pack: Info{nameOf(1), 1 << 20}, Offset: remote.HeaderSize, Stored: uint32(len(value)), Raw: raw}
		e.Key.Kind = object.Kind(kind)
		copy(e.Key.ID[:], id)
		data, err := Decode(e, value)
		switch {
		case err == nil && (object.Sum(data) != e.Key.ID || len(data) != int(raw)):
			t.Fatal("Decode returns wrong bytes")
		case err != nil && !errors.Is(err, object.ErrCorrupt):
			t.Fatalf("error %v, want ErrCorrupt", err)
		}
	})
}

// FuzzValues decodes arbitrary values, also patches with arbitrary bases. Values reads
// no more than a chain can have, and returns only bytes with the expected hash.
func FuzzValues(f *testing.F) {
	body, entries := buildWithPatches(f, nameOf(1), chained(f, 1, object.KindTree, 4, 300))
	for _, e := range entries {
		f.Add(body, e.Offset, e.Stored, e.Raw, e.Key.ID[:], uint16(0))
	}
	body, last := longChain(MaxChain+1, 20)
	f.Add(body, last.Offset, last.Stored, last.Raw, last.Key.ID[:], uint16(100))
	f.Fuzz(func(t *testing.T, body []byte, off, stored, raw uint32, id []byte, block uint16) {
		if off < remote.HeaderSize || uint64(off)+uint64(stored) > uint64(len(body)) {
			return
		}
		e := Entry{Pack: Info{nameOf(1), uint32(len(body))}, Offset: off, Stored: stored, Raw: raw}
		e.Key.Kind = object.KindTree
		copy(e.Key.ID[:], id)
		source := &counted{body: body}

		values := NewValues(source.get, int(block))
		for _, held := range []Part{{}, {int64(off / 2), body[off/2:]}} {
			data, err := values.Decode(t.Context(), e, value(body, e), held)
			switch {
			case err == nil && (object.Sum(data) != e.Key.ID || len(data) != int(raw)):
				t.Fatal("Decode returns wrong bytes")
			case err != nil && !errors.Is(err, object.ErrCorrupt):
				t.Fatalf("error %v, want ErrCorrupt", err)
			}
		}
		if source.calls > 2*MaxChain || source.most > object.MaxNodeSize+int(block)+1 {
			t.Fatalf("%d reads of at most %d bytes", source.calls, source.most)
		}
	})
}

package pack

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/keys"
	"github.com/kist-vcs/kist/remote"
)

// appendIndex appends a key index of arbitrary sorted records.
func appendIndex(t testing.TB, dst []byte, records []keys.Record) []byte {
	var index bytes.Buffer
	w := keys.NewWriter(&index, len(records))
	for _, rec := range records {
		if err := w.Add(rec); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	return append(dst, index.Bytes()...)
}

// madeUpPack returns a pack with arbitrary records in its index.
func madeUpPack(t testing.TB, name Name, values []byte, records ...keys.Record) []byte {
	body := append(remote.AppendHeader(nil, remote.TypePack, remote.Version1), values...)
	start := len(body)
	return appendTrailer(appendIndex(t, body, records), name, start)
}

// madeUpIndex returns an index file of arbitrary packs and records.
func madeUpIndex(t testing.TB, packs []Info, records ...keys.Record) []byte {
	data, trailer := appendPacks(remote.AppendHeader(nil, remote.TypeIndex, remote.Version1), packs)
	return append(appendIndex(t, data, records), trailer...)
}

// edited returns a copy of data with other bytes at off. A negative off counts from
// the end.
func edited(data []byte, off int, to ...byte) []byte {
	data = bytes.Clone(data)
	if off < 0 {
		off += len(data)
	}
	copy(data[off:], to)
	return data
}

// resummed returns a copy of a pack with a correct checksum in its trailer.
func resummed(body []byte) []byte {
	body = bytes.Clone(body)
	t := body[len(body)-trailerSize:]
	binary.BigEndian.PutUint32(t[nameSize+8:], crc32.Checksum(t[:nameSize+8], castagnoli))
	return body
}

func record(kind object.Kind, id byte, file, offset, stored, raw uint32) keys.Record {
	return keys.Record{Key: object.Key{Kind: kind, ID: object.ID{id}}, File: file, Offset: offset, Stored: stored, Raw: raw}
}

// readPack reads the index of a pack in memory.
func readPack(name Name, body []byte) ([]Entry, error) {
	return ReadIndex(infoOf(name, body), getter(body))
}

// readIndexFile verifies an index file in memory and returns its entries.
func readIndexFile(data []byte) (entries []Entry, err error) {
	x, err := OpenIndex(bytes.NewReader(data), int64(len(data)))
	if err == nil {
		err = x.Verify()
	}
	if err != nil {
		return nil, err
	}
	for e, err := range x.All() {
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// TestPackDamage flips every bit of a small pack, and cuts it at every length. Index
// and values are either read unchanged or reported as damaged.
func TestPackDamage(t *testing.T) {
	name := nameOf(9)
	body, entries := build(t, name, items(4, 7))
	values := int(entries[0].Offset)
	for _, e := range entries {
		values = max(values, int(e.Offset+e.Stored))
	}

	for bit := range len(body) * 8 {
		body[bit/8] ^= 1 << (bit % 8)
		got, err := readPack(name, body)
		if inValues := bit/8 >= remote.HeaderSize && bit/8 < values; inValues {
			if err != nil || !slices.Equal(got, entries) {
				t.Fatalf("bit %d of a value flipped: ReadIndex: %v", bit, err)
			}
			i := slices.IndexFunc(entries, func(e Entry) bool { return bit/8 >= int(e.Offset) && bit/8 < int(e.Offset+e.Stored) })
			data, err := Decode(entries[i], value(body, entries[i]))
			if err == nil && object.Sum(data) != entries[i].Key.ID || err != nil && !errors.Is(err, object.ErrCorrupt) {
				t.Fatalf("bit %d of a value flipped: Decode returns wrong bytes or error %v", bit, err)
			}
		} else {
			wantCorrupt(t, err, name, "")
		}
		body[bit/8] ^= 1 << (bit % 8)
	}

	for n := range body {
		_, err := readPack(name, body[:n])
		wantCorrupt(t, err, name, "")
		_, err = ReadIndex(infoOf(name, body), getter(body[:n])) // cut after it was listed
		wantCorrupt(t, err, name, "")
	}

	_, err := readPack(name, append(bytes.Clone(body), 0))
	wantCorrupt(t, err, name, "trailer")
	_, err = readPack(nameOf(8), body)
	wantCorrupt(t, err, nameOf(8), "trailer")
}

// TestIndexDamage checks that every flipped bit and every cut of a small index file is
// reported as damage.
func TestIndexDamage(t *testing.T) {
	entries, _ := packed(t, 5, 40, 3)
	data := writeIndexFile(t, entries)
	for bit := range len(data) * 8 {
		data[bit/8] ^= 1 << (bit % 8)
		_, err := readIndexFile(data)
		wantCorrupt(t, err, Name{}, "")
		data[bit/8] ^= 1 << (bit % 8)
	}
	for n := range data {
		_, err := readIndexFile(data[:n])
		wantCorrupt(t, err, Name{}, "")
	}
	_, err := readIndexFile(append(bytes.Clone(data), 0))
	wantCorrupt(t, err, Name{}, "trailer")

	// Find still finds the entries outside a damaged block.
	data[remote.HeaderSize+3*infoSize+16+5] ^= 1
	x := openIndexFile(t, data)
	for i, want := range entries {
		e, ok, err := x.Find(want.Key)
		if i < 32 {
			wantCorrupt(t, err, Name{}, "index")
		} else if err != nil || !ok || e != want {
			t.Errorf("entry %d: %+v, %t, %v", i, e, ok, err)
		}
	}
}

// wantCorrupt checks that err is damage in a part of the pack, or of an index file if
// name is zero. An empty part matches any part.
func wantCorrupt(t *testing.T, err error, name Name, part string) {
	t.Helper()
	of := "pack " + name.String()
	if name.IsZero() {
		of = "pack index"
	}
	damage, ok := errors.AsType[*object.DamageError](err)
	if !ok || !errors.Is(err, object.ErrCorrupt) || damage.Name != of || part != "" && !damagedIn(err, part) {
		t.Fatalf("error %v, want damage in part %q of %s", err, part, of)
	}
}

// damagedIn reports whether err is damage in a part.
func damagedIn(err error, part string) bool {
	damage, ok := errors.AsType[*object.DamageError](err)
	return ok && errors.Is(err, ErrDamaged) && strings.HasPrefix(damage.Err.Error(), part+": ")
}

// TestReadErrors checks that ReadIndex does not report an error of the store as damage.
func TestReadErrors(t *testing.T) {
	name := nameOf(6)
	body, _ := build(t, name, items(6, 2500))
	trouble := &remote.Error{Op: "get", Kind: remote.ErrTemporary}
	for n := range 3 {
		_, err := ReadIndex(infoOf(name, body), func(p []byte, off int64) (int, error) {
			if n--; n < 0 {
				return 0, trouble
			}
			return getter(body)(p, off)
		})
		if !errors.Is(err, remote.ErrTemporary) || errors.Is(err, object.ErrCorrupt) {
			t.Errorf("error %v, want ErrTemporary", err)
		}
	}
}

// TestHostileSizes checks that a false size is reported as damage before memory is
// allocated for it.
func TestHostileSizes(t *testing.T) {
	name := nameOf(5)
	body, entries := build(t, name, items(7, 3))
	index := writeIndexFile(t, slices.Clone(entries))

	hugeCounts := func(data []byte, end int) []byte { // of a key index
		t := data[end-60 : end]
		binary.BigEndian.PutUint64(t, keys.MaxRecords)
		binary.BigEndian.PutUint32(t[48:], crc32.Checksum(t[:48], castagnoli))
		return data
	}

	inline := AppendEntries(nil, entries)
	for name, read := range map[string]func() error{
		"pack of 4 GiB": func() error {
			_, err := ReadIndex(Info{name, math.MaxUint32}, getter(body))
			return err
		},
		"pack that ends early": func() error {
			_, err := ReadIndex(Info{name, MaxSize}, getter(body))
			return err
		},
		"index of 4 GiB in a pack": func() error {
			_, err := readPack(name, resummed(edited(body, -16, 0xff, 0xff, 0xff, 0xff)))
			return err
		},
		"index before the pack": func() error {
			_, err := readPack(name, resummed(edited(body, -20, 0, 0, 0, 0)))
			return err
		},
		"too many records in a pack": func() error {
			_, err := readPack(name, hugeCounts(bytes.Clone(body), len(body)-trailerSize))
			return err
		},
		"too many records": func() error {
			_, err := readIndexFile(hugeCounts(bytes.Clone(index), len(index)-indexTrailerSize))
			return err
		},
		"too many packs": func() error {
			_, err := readIndexFile(edited(index, -indexTrailerSize, 0xff, 0xff, 0xff, 0xff))
			return err
		},
		"index file that ends early": func() error {
			_, err := OpenIndex(io.NewSectionReader(bytes.NewReader(index), 0, 100), math.MaxInt64)
			return err
		},
		"entries in a pack of 4 GiB": func() error {
			_, err := ParseEntries(Info{name, math.MaxUint32}, inline)
			return err
		},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := read()
		runtime.ReadMemStats(&after)
		if !errors.Is(err, object.ErrCorrupt) {
			t.Errorf("%s: error %v, want ErrCorrupt", name, err)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
			t.Errorf("%s: %d bytes allocated, want at most 1 MiB", name, n)
		}
	}
}

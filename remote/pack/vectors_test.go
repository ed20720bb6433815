package pack

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/frame"
	"github.com/kist-vcs/kist/object/keys"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/remote"
)

var update = flag.Bool("update", false, "write the test vectors instead of comparing them")

const vectorDir = "../../testdata/vectors"

// vector is a valid or a damaged encoding. docs/format/pack.md and
// docs/format/packindex.md describe the files of vectors.
type vector struct {
	Name    string        `json:"name"`
	Hex     string        `json:"hex"`
	Part    string        `json:"part,omitempty"`  // the damaged part; empty if valid
	Newer   bool          `json:"newer,omitempty"` // of a newer format
	Packs   []vectorPack  `json:"packs,omitempty"`
	Entries []vectorEntry `json:"entries,omitempty"`
	Damaged []string      `json:"damaged,omitempty"` // keys of the damaged objects

	data []byte
}

type vectorPack struct {
	Name string `json:"name"`
	Size uint32 `json:"size"`
}

type vectorEntry struct {
	Key    string `json:"key"`
	Pack   string `json:"pack"`
	Offset uint32 `json:"offset"`
	Stored uint32 `json:"stored"`
	Raw    uint32 `json:"raw"`
}

func viewKey(key object.Key) string { return key.Kind.String() + ":" + key.ID.String() }

func viewEntries(entries []Entry) (view []vectorEntry) {
	for _, e := range entries {
		view = append(view, vectorEntry{viewKey(e.Key), e.Pack.Name.String(), e.Offset, e.Stored, e.Raw})
	}
	return view
}

func viewPacks(packs []Info) (view []vectorPack) {
	for _, p := range packs {
		view = append(view, vectorPack{p.Name.String(), p.Size})
	}
	return view
}

func readVectors(t testing.TB, file string) []vector {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(vectorDir, file))
	if err != nil {
		t.Fatal(err)
	}
	var vectors []vector
	if err := json.Unmarshal(data, &vectors); err != nil {
		t.Fatal(err)
	}
	for i := range vectors {
		if vectors[i].data, err = hex.DecodeString(vectors[i].Hex); err != nil {
			t.Fatal(err)
		}
	}
	return vectors
}

// compareVectors compares a file with the given vectors, or writes it. It returns the
// vectors in the file.
func compareVectors(t *testing.T, file string, vectors []vector) []vector {
	t.Helper()
	for i := range vectors {
		vectors[i].Hex = hex.EncodeToString(vectors[i].data)
	}
	objecttest.CheckVectors(t, filepath.Join(vectorDir, file), vectors, *update)
	return readVectors(t, file)
}

// check compares a result of decoding with the vector.
func (v *vector) check(t *testing.T, entries []Entry, packs []Info, err error) {
	t.Helper()
	if v.Part != "" {
		if !damagedIn(err, v.Part) || errors.Is(err, remote.ErrNewerFormat) != v.Newer {
			t.Errorf("%s: error %v, want damage in part %s", v.Name, err, v.Part)
		}
		return
	}
	if err != nil || !slices.Equal(viewEntries(entries), v.Entries) || !slices.Equal(viewPacks(packs), v.Packs) {
		t.Errorf("%s: entries %v, packs %v, %v", v.Name, viewEntries(entries), viewPacks(packs), err)
	}
}

// samples are objects whose stored values do not depend on an encoder.
func samples(t testing.TB) []item {
	t.Helper()
	// Zstd: a single segment of 100 bytes, one block that repeats a byte.
	compressed := []byte("\x01\x28\xb5\x2f\xfd\x20\x64\x23\x03\x00k")
	list := []item{
		{data: bytes.Repeat([]byte("k"), 100), value: compressed},
		{data: []byte("a"), value: []byte("\x00a")},
		{data: []byte("some more data"), value: []byte("\x00some more data")},
	}
	for i, kind := range []object.Kind{object.KindChunk, object.KindTree, object.KindChunk} {
		list[i].key = object.Key{Kind: kind, ID: object.Sum(list[i].data)}
	}
	return list
}

func TestPackVectors(t *testing.T) {
	name := nameOf(0xab)
	body, entries := build(t, name, samples(t))
	one, oneEntry := build(t, name, samples(t)[:1])
	repacked, patchedEntries := buildWithPatches(t, name, append(samples(t), patchSamples(t)...))
	patches := badPatches(t, name)
	values := make([]byte, 20)
	bad := func(what, part string, data []byte) vector { return vector{Name: what, Part: part, data: data} }

	newer := func(what string, data []byte) vector {
		return vector{Name: what, Part: "header", Newer: true, data: data}
	}

	made := func(records ...keys.Record) []byte { return madeUpPack(t, name, values, records...) }
	for _, v := range compareVectors(t, "pack.json", []vector{
		{Name: "one object", data: one, Packs: viewPacks([]Info{infoOf(name, one)}), Entries: viewEntries(oneEntry)},
		{Name: "three objects", data: body, Packs: viewPacks([]Info{infoOf(name, body)}), Entries: viewEntries(entries)},
		bad("too short", "size", one[:100]),
		bad("other magic", "header", edited(one, 0, 'K')),
		bad("index file", "header", edited(one, 8, byte(remote.TypeIndex))),
		{Name: "version 2", data: repacked, Packs: viewPacks([]Info{infoOf(name, repacked)}), Entries: viewEntries(patchedEntries)},
		patches,
		newer("newer version", edited(one, 9, 3)),
		bad("version 0", "header", edited(one, 9, 0)),
		newer("sealed", edited(one, 10, 1)),
		bad("reserved byte", "header", edited(one, 31, 1)),
		bad("other end", "trailer", edited(one, -1, 'K')),
		bad("checksum of the trailer", "trailer", edited(one, -12, 0)),
		bad("another pack", "trailer", resummed(edited(one, -36, 0xac))),
		bad("index in the header", "trailer", resummed(edited(one, -20, 0, 0, 0, 31, 0, 0, 0, byte(len(one)-36-31)))),
		bad("longer", "trailer", append(bytes.Clone(one), 0)),
		bad("record damaged", "index", edited(one, 32+len(samples(t)[0].value)+20, 0)),
		bad("other file", "index", made(record(1, 1, 1, 32, 20, 19))),
		bad("empty object", "index", made(record(1, 1, 0, 32, 20, 0))),
		bad("node too large", "index", made(record(2, 1, 0, 32, 20, object.MaxNodeSize+1))),
		bad("chunk too large", "index", made(record(1, 1, 0, 32, 20, object.MaxChunkSize+1))),
		bad("nothing stored", "index", made(record(1, 1, 0, 32, 0, 19))),
		bad("stored too long", "index", made(record(1, 1, 0, 32, 20, 18))),
		bad("value in the header", "index", made(record(1, 1, 0, 31, 20, 19))),
		bad("value beyond the values", "index", made(record(1, 1, 0, 32, 21, 20))),
		bad("gap", "index", made(record(1, 1, 0, 32, 9, 8), record(1, 2, 0, 42, 10, 9))),
		bad("overlap", "index", made(record(1, 1, 0, 32, 11, 10), record(1, 2, 0, 42, 10, 9))),
		bad("gap before the index", "index", made(record(1, 1, 0, 32, 19, 18))),
		bad("no objects, but values", "index", madeUpPack(t, name, make([]byte, 100))),
	}) {
		got, err := readPack(name, v.data)
		v.check(t, got, []Info{infoOf(name, v.data)}, err)
		values := NewValues((&counted{body: v.data}).get, 1<<20)
		for _, e := range got {
			_, err := values.Decode(t.Context(), e, value(v.data, e), Part{})
			if damaged := slices.Contains(v.Damaged, viewKey(e.Key)); damaged != (err != nil) {
				t.Errorf("%s: %s: error %v, want damaged: %t", v.Name, e.Key, err, damaged)
			}
		}
	}
}

// patchSamples are patches on samples. They do not depend on an encoder.
func patchSamples(t testing.TB) []item {
	t.Helper()
	base := samples(t)[0]
	from := func(from item, data string, script ...byte) item {
		value := append([]byte{2}, from.key.ID[:]...)
		value = append(append(value, byte(len(data)), 0), script...)
		return item{object.Key{Kind: object.KindChunk, ID: object.Sum([]byte(data))}, []byte(data), value}
	}
	first := from(base, strings.Repeat("k", 40), 0, 40, 0)
	second := from(first, "kist"+strings.Repeat("k", 40), 4, 'k', 'i', 's', 't', 40, 0)
	return []item{first, second, from(base, strings.Repeat("k", 60), 0, 60, 0)}
}

// badPatches returns a pack with one plain object and a chain of MaxChain+1 patches on
// it. Each patch makes its base one byte shorter. Behind the chain are patches whose
// bases are no objects, and a valid one.
func badPatches(t testing.TB, name Name) vector {
	t.Helper()
	base := samples(t)[0]
	body := append(remote.AppendHeader(nil, remote.TypePack, remote.Version2), base.value...)
	records := []keys.Record{{Key: base.key, Offset: remote.HeaderSize, Stored: uint32(len(base.value)), Raw: 100}}
	var damaged []string

	add := func(good bool, raw int, n frame.Near) {
		patch := hostilePatch(raw, n)
		key := object.Key{Kind: object.KindChunk, ID: object.Sum(base.data[:raw])}
		records = append(records, keys.Record{Key: key, Offset: uint32(len(body)), Stored: uint32(len(patch)), Raw: uint32(raw)})
		body = append(body, patch...)
		if !good {
			damaged = append(damaged, viewKey(key))
		}
	}

	for i := range MaxChain + 1 {
		last := records[len(records)-1]
		add(i < MaxChain, 99-i, frame.Near{Distance: len(body) - int(last.Offset), Stored: int(last.Stored), Raw: int(last.Raw)})
	}

	at, stored := len(body)-remote.HeaderSize, len(base.value)
	add(false, 50, frame.Near{Distance: at + 1, Stored: stored, Raw: 100})
	add(false, 49, frame.Near{Distance: 1, Stored: stored, Raw: 100})
	at = len(body) - remote.HeaderSize
	add(false, 48, frame.Near{Distance: at, Stored: stored, Raw: 99})
	at = len(body) - remote.HeaderSize
	add(false, 47, frame.Near{Distance: at, Stored: stored + 1, Raw: 100})
	at = len(body) - remote.HeaderSize
	add(false, 46, frame.Near{Distance: at - 1, Stored: stored, Raw: 100})
	at = len(body) - remote.HeaderSize
	add(true, 45, frame.Near{Distance: at, Stored: stored, Raw: 100})
	start := len(body)
	slices.SortFunc(records, func(a, b keys.Record) int { return a.Key.Compare(b.Key) })
	body = appendTrailer(appendIndex(t, body, records), name, start)
	entries, err := readPack(name, body)
	if err != nil {
		t.Fatal(err)
	}
	return vector{Name: "bad patches", data: body, Packs: viewPacks([]Info{infoOf(name, body)}), Entries: viewEntries(entries), Damaged: damaged}
}

func TestIndexVectors(t *testing.T) {
	list := samples(t)
	b1, e1 := build(t, nameOf(1), list[:2])
	b2, e2 := build(t, nameOf(2), list[1:])
	packs := []Info{infoOf(nameOf(1), b1), infoOf(nameOf(2), b2)}
	both := slices.Concat(e1, e2[:1]) // "a" is in both packs
	index := writeIndexFile(t, both)
	none := writeIndexFile(t, nil)
	bad := func(what, part string, data []byte) vector { return vector{Name: what, Part: part, data: data} }

	newer := func(what string, data []byte) vector {
		return vector{Name: what, Part: "header", Newer: true, data: data}
	}

	made := func(rec keys.Record) []byte { return madeUpIndex(t, packs, rec) }
	for _, v := range compareVectors(t, "packindex.json", []vector{
		{Name: "empty", data: none},
		{Name: "two packs", data: index, Packs: viewPacks(packs), Entries: viewEntries(both)},
		{Name: "pack without entries", data: madeUpIndex(t, packs), Packs: viewPacks(packs)},
		bad("too short", "size", none[:len(none)-1]),
		bad("other magic", "header", edited(index, 0, 'K')),
		bad("pack", "header", edited(index, 8, byte(remote.TypePack))),
		newer("newer version", edited(index, 9, 2)),
		newer("sealed", edited(index, 10, 1)),
		bad("other end", "trailer", edited(index, -1, 'K')),
		bad("too many packs", "trailer", edited(index, -16, 0, 0, 1)),
		bad("checksum of the packs", "packs", edited(index, 33, 0xff)),
		bad("packs not sorted", "packs", madeUpIndex(t, []Info{packs[1], packs[0]})),
		bad("pack twice", "packs", madeUpIndex(t, []Info{packs[0], packs[0]})),
		bad("pack too large", "packs", madeUpIndex(t, []Info{{nameOf(1), MaxSize + 1}})),
		bad("pack too small", "packs", madeUpIndex(t, []Info{{nameOf(1), uint32(minSize - 1)}})),
		bad("pack without a name", "packs", madeUpIndex(t, []Info{{Name{}, 1000}})),
		bad("record damaged", "index", edited(index, 32+2*20+16+1, 0xff)),
		bad("no such pack", "entry", made(record(1, 1, 2, 32, 10, 9))),
		bad("empty object", "entry", made(record(1, 1, 0, 32, 10, 0))),
		bad("node too large", "entry", made(record(2, 1, 0, 32, 10, object.MaxNodeSize+1))),
		bad("nothing stored", "entry", made(record(1, 1, 0, 32, 0, 9))),
		bad("stored too long", "entry", made(record(1, 1, 0, 32, 11, 9))),
		bad("value in the header", "entry", made(record(1, 1, 0, 31, 10, 9))),
		bad("value beyond the pack", "entry", made(record(1, 1, 0, 300, 10, 9))),
	}) {
		var packs []Info
		if x, err := OpenIndex(bytes.NewReader(v.data), int64(len(v.data))); err == nil {
			packs = x.Packs()
		}
		got, err := readIndexFile(v.data)
		v.check(t, got, packs, err)
	}
}

func TestEntryVectors(t *testing.T) {
	info := Info{nameOf(0xab), 1000}
	_, entries := build(t, info.Name, samples(t))
	for i := range entries {
		entries[i].Pack = info
	}
	good := AppendEntries(nil, entries)
	last := slices.MaxFunc(entries, func(a, b Entry) int { return int(a.Offset) - int(b.Offset) })
	gap := AppendEntries(nil, []Entry{last})

	id := bytes.Repeat([]byte{1}, 32)
	bad := func(what string, numbers ...byte) vector {
		return vector{Name: what, Part: "entry", data: slices.Concat([]byte{1}, id, numbers)}
	}

	for _, v := range compareVectors(t, "packentries.json", []vector{
		{Name: "none", data: []byte{}},
		{Name: "three objects", data: good, Entries: viewEntries(entries)},
		{Name: "gap", data: gap, Entries: viewEntries([]Entry{last})},
		{Name: "cut", Part: "entry", data: good[:len(good)-1]},
		{Name: "invalid kind", Part: "entry", data: edited(good, 0, 0)},
		{Name: "twice", Part: "entry", data: slices.Concat(gap, gap[:33], []byte{0}, gap[34:])},
		bad("longer", 0, 10, 9, 0),
		bad("empty object", 0, 10, 0),
		bad("nothing stored", 0, 0, 9),
		bad("stored too long", 0, 11, 9),
		bad("beyond the pack", 0xff, 0x0f, 10, 9),
		bad("number not in its shortest form", 0x80, 0x00, 10, 9),
		bad("number above 64 MiB", 0x81, 0x80, 0x80, 0x20, 10, 9),
		bad("number of 65 bits", 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02, 10, 9),
	}) {
		got, err := ParseEntries(info, v.data)
		v.check(t, got, nil, err)
	}
}

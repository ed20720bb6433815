package pack

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote"
)

func byKey(a, b Entry) int { return a.Key.Compare(b.Key) }

func writeIndexFile(t testing.TB, entries []Entry) []byte {
	t.Helper()
	var buf bytes.Buffer
	if err := WriteIndex(&buf, entries); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func openIndexFile(t testing.TB, data []byte) *Index {
	t.Helper()
	x, err := OpenIndex(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// packed builds packs of n objects. It returns the entries pack by pack, and the packs
// sorted by name.
func packed(t testing.TB, seed uint64, n, packs int) (entries []Entry, infos []Info) {
	list := items(seed, n)
	for i := range packs {
		name := nameOf(byte(200 - i))
		body, some := build(t, name, list[i*n/packs:(i+1)*n/packs])
		entries = append(entries, some...)
		infos = append(infos, infoOf(name, body))
	}
	slices.Reverse(infos)
	return entries, infos
}

func TestIndex(t *testing.T) {
	if x := openIndexFile(t, writeIndexFile(t, nil)); x.Len() != 0 || len(x.Packs()) != 0 || x.Verify() != nil {
		t.Errorf("no entries: %d entries, packs %v", x.Len(), x.Packs())
	}

	for _, n := range []int{3, 32, 33, 500} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			entries, infos := packed(t, uint64(n), n, 3)
			data := writeIndexFile(t, entries)
			if !slices.IsSortedFunc(entries, byKey) {
				t.Error("WriteIndex does not sort the entries")
			}
			if again := writeIndexFile(t, entries); !bytes.Equal(again, data) {
				t.Error("the index file depends on the order of entries")
			}

			x := openIndexFile(t, data)
			if err := x.Verify(); err != nil || x.Len() != n || !slices.Equal(x.Packs(), infos) {
				t.Errorf("%d entries, packs %v, %v", x.Len(), x.Packs(), err)
			}

			i := 0
			for e, err := range x.All() {
				if err != nil || e != entries[i] {
					t.Fatalf("entry %d is %+v, %v; want %+v", i, e, err, entries[i])
				}
				i++
			}

			for range 2 {
				for _, want := range entries {
					if e, ok, err := x.Find(want.Key); err != nil || !ok || e != want {
						t.Fatalf("Find(%s) = %+v, %t, %v", want.Key, e, ok, err)
					}
					absent := want.Key
					absent.ID[31] ^= 1
					if _, ok, err := x.Find(absent); ok || err != nil {
						t.Fatalf("Find of an absent key = %t, %v", ok, err)
					}
				}
			}
		})
	}
}

// TestIndexOfSameObjects checks that the index file has the first of several entries
// with the same key, and that it names all packs.
func TestIndexOfSameObjects(t *testing.T) {
	list := items(1, 40)
	b1, e1 := build(t, nameOf(1), list[:30])
	b2, e2 := build(t, nameOf(2), list[10:])
	b3, e3 := build(t, nameOf(3), list[5:8])
	x := openIndexFile(t, writeIndexFile(t, slices.Concat(e2, e1, e3)))
	if want := []Info{infoOf(nameOf(1), b1), infoOf(nameOf(2), b2), infoOf(nameOf(3), b3)}; !slices.Equal(x.Packs(), want) {
		t.Errorf("packs %v, want %v", x.Packs(), want)
	}
	if x.Len() != len(list) || x.Verify() != nil {
		t.Errorf("%d entries, want %d", x.Len(), len(list))
	}
	for i, it := range list {
		want := nameOf(2)
		if i < 10 {
			want = nameOf(1)
		}
		if e, ok, err := x.Find(it.key); !ok || err != nil || e.Pack.Name != want {
			t.Errorf("object %d: Find = %+v, %t, %v; want pack %s", i, e, ok, err, want)
		}
	}
}

func TestWriteIndexRefuses(t *testing.T) {
	entries, _ := packed(t, 2, 10, 2)
	for name, change := range map[string]func(e *Entry){
		"two sizes of a pack": func(e *Entry) { e.Pack.Size++ },
		"pack too large":      func(e *Entry) { e.Pack.Size = MaxSize + 1 },
		"no name":             func(e *Entry) { e.Pack.Name = Name{} },
		"invalid kind":        func(e *Entry) { e.Key.Kind = 0 },
		"no object":           func(e *Entry) { e.Raw = 0 },
		"in the header":       func(e *Entry) { e.Offset = remote.HeaderSize - 1 },
		"beyond the pack":     func(e *Entry) { e.Offset = e.Pack.Size },
		"far beyond":          func(e *Entry) { e.Offset = 1<<32 - 1 },
	} {
		bad := slices.Clone(entries)
		change(&bad[4])
		if err := WriteIndex(&bytes.Buffer{}, bad); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// manyEntries returns n sorted random entries, in packs of ten thousand objects.
func manyEntries(n int) []Entry {
	rng := rand.New(rand.NewPCG(1, 2))
	entries := make([]Entry, n)
	for i := range entries {
		e := Entry{
			Key:    object.Key{Kind: object.KindChunk},
			Pack:   Info{Name: nameOf(byte(1 + i/10_000)), Size: 40 << 20},
			Offset: uint32(remote.HeaderSize + i%10_000*3000),
			Stored: 3000,
			Raw:    5000,
		}
		for j := range e.Key.ID {
			e.Key.ID[j] = byte(rng.Uint32())
		}
		entries[i] = e
	}
	slices.SortFunc(entries, byKey)
	return entries
}

package pack

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/frame"
	"github.com/kist-vcs/kist/remote"
)

// item is an object for a pack.
type item struct {
	key   object.Key
	data  []byte
	value []byte
}

// items returns n objects of all kinds. Every second one compresses.
func items(seed uint64, n int) []item {
	rng := rand.New(rand.NewPCG(seed, 1))
	encoder := frame.NewEncoder(frame.Fastest)
	list := make([]item, n)
	for i := range list {
		data := make([]byte, 8+rng.IntN(600))
		binary.BigEndian.PutUint64(data, rng.Uint64())
		if i%2 == 0 {
			for j := range data {
				data[j] ^= byte(rng.Uint32())
			}
		}
		key := object.Key{Kind: object.Kind(1 + i%5), ID: object.Sum(data)}
		list[i] = item{key: key, data: data, value: encoder.Append(nil, data)}
	}
	return list
}

// nameOf returns a name that repeats one byte.
func nameOf(b byte) (n Name) {
	for i := range n {
		n[i] = b
	}
	return n
}

// build returns a pack of items.
func build(t testing.TB, name Name, list []item) (body []byte, entries []Entry) {
	t.Helper()
	return buildWith(t, NewWriter(nil), name, list)
}

func buildWith(t testing.TB, w *Writer, name Name, list []item) (body []byte, entries []Entry) {
	t.Helper()
	for _, it := range list {
		if err := w.Add(it.key, it.value, len(it.data)); err != nil {
			t.Fatal(err)
		}
	}
	size := w.Size()
	body, entries, err := w.Finish(name)
	if err != nil || len(body) != size {
		t.Fatalf("Finish: %d bytes, %v; Size was %d", len(body), err, size)
	}
	return body, entries
}

// getter reads from body like a remote.
func getter(body []byte) func(p []byte, off int64) (int, error) {
	return func(p []byte, off int64) (int, error) {
		n, err := bytes.NewReader(body).ReadAt(p, off)
		if err == io.EOF {
			err = nil
		}
		return n, err
	}
}

func infoOf(name Name, body []byte) Info { return Info{Name: name, Size: uint32(len(body))} }

func value(body []byte, e Entry) []byte { return body[e.Offset:][:e.Stored] }

func TestPack(t *testing.T) {
	for _, n := range []int{1, 2, 5, 100, 3000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			list := items(uint64(n), n)
			name := nameOf(7)
			body, entries := build(t, name, list)
			if err := remote.CheckHeader(body, remote.TypePack); err != nil {
				t.Error(err)
			}
			if len(entries) != n || !slices.IsSortedFunc(entries, func(a, b Entry) int { return a.Key.Compare(b.Key) }) {
				t.Fatalf("%d entries, want %d in order", len(entries), n)
			}

			byKey := map[object.Key]item{}
			for _, it := range list {
				byKey[it.key] = it
			}

			for _, e := range entries {
				it := byKey[e.Key]
				if e.Pack != infoOf(name, body) || !bytes.Equal(value(body, e), it.value) {
					t.Errorf("entry %+v: other value or pack", e)
				}
				if data, err := Decode(e, value(body, e)); err != nil || !bytes.Equal(data, it.data) {
					t.Errorf("Decode(%+v): %v", e, err)
				}
			}

			gets := 0
			got, err := ReadIndex(infoOf(name, body), func(p []byte, off int64) (int, error) {
				gets++
				return getter(body)(p, off)
			})
			if err != nil || !slices.Equal(got, entries) {
				t.Errorf("ReadIndex: %d entries, %v", len(got), err)
			}
			if want := map[bool]int{false: 2, true: 3}[n == 3000]; gets != want {
				t.Errorf("ReadIndex reads %d times, want %d", gets, want)
			}

			inline := AppendEntries([]byte("before"), entries)
			if got, err := ParseEntries(infoOf(name, body), inline[6:]); err != nil || !slices.Equal(got, entries) {
				t.Errorf("ParseEntries: %d entries, %v", len(got), err)
			}
		})
	}
}

func TestWriterReuse(t *testing.T) {
	list := items(1, 50)
	want, _ := build(t, nameOf(1), list[:20])
	want = bytes.Clone(want)
	w := NewWriter(make([]byte, 10, 1<<20))
	for round := range 3 {
		for _, it := range list[:20] {
			if err := w.Add(it.key, it.value, len(it.data)); err != nil {
				t.Fatal(err)
			}
		}
		body, _, err := w.Finish(nameOf(1))
		if err != nil || !bytes.Equal(body, want) {
			t.Fatalf("round %d: Finish returns another pack, %v", round, err)
		}
		if err := w.Add(list[30].key, list[30].value, len(list[30].data)); err == nil {
			t.Error("Add after Finish: no error")
		}
		other, _ := build(t, nameOf(2), list[:20])
		if body, entries, err := w.Finish(nameOf(2)); err != nil || !bytes.Equal(body, other) || entries[0].Pack.Name != nameOf(2) {
			t.Errorf("round %d: Finish with another name returns another pack, %v", round, err)
		}
		w.Reset()
	}
}

func TestWriterRefuses(t *testing.T) {
	it := items(2, 1)[0]
	for name, add := range map[string]struct {
		key   object.Key
		value []byte
		raw   int
	}{
		"invalid kind":    {object.Key{Kind: 6}, it.value, len(it.data)},
		"no value":        {it.key, nil, len(it.data)},
		"no data":         {it.key, it.value, 0},
		"value too long":  {it.key, make([]byte, 20), 18},
		"chunk too large": {object.Key{Kind: object.KindChunk}, it.value, object.MaxChunkSize + 1},
		"node too large":  {object.Key{Kind: object.KindTree}, it.value, object.MaxNodeSize + 1},
	} {
		if err := NewWriter(nil).Add(add.key, add.value, add.raw); err == nil {
			t.Errorf("%s: no error", name)
		}
	}

	w := NewWriter(nil)
	if _, _, err := w.Finish(nameOf(1)); err == nil {
		t.Error("Finish of an empty pack: no error")
	}

	for range 2 {
		if err := w.Add(it.key, it.value, len(it.data)); err != nil {
			t.Fatal(err)
		}
	}

	if _, _, err := w.Finish(Name{}); err == nil {
		t.Error("Finish without a name: no error")
	}
	if _, _, err := w.Finish(nameOf(1)); err == nil {
		t.Error("Finish of a pack with one key twice: no error")
	}
}

// TestFull checks that packs grow to TargetSize, and never beyond MaxSize.
func TestFull(t *testing.T) {
	w := NewWriter(nil)
	value := make([]byte, 1+object.MaxChunkSize)
	if w.Full(MaxSize) {
		t.Error("an empty pack is full")
	}

	key := object.Key{Kind: object.KindChunk}
	for ; !w.Full(len(value)); key.ID[0]++ {
		if err := w.Add(key, value, len(value)-1); err != nil {
			t.Fatal(err)
		}
	}
	if w.Size() < TargetSize || w.Len() != 2 {
		t.Errorf("full with %d objects, %d bytes", w.Len(), w.Size())
	}

	w = NewWriter(w.buf)
	for range 3 {
		if err := w.Add(key, value, len(value)-1); err != nil {
			t.Fatal(err)
		}
		key.ID[0]++
	}
	if !w.Full(len(value)) {
		t.Error("a pack without room is not full")
	}
	if err := w.Add(key, value, len(value)-1); err == nil {
		t.Error("Add beyond MaxSize: no error")
	}

	body, entries, err := w.Finish(nameOf(1))
	if err != nil || len(body) > MaxSize {
		t.Fatalf("Finish: %d bytes, %v; want at most %d", len(body), err, MaxSize)
	}
	if got, err := ReadIndex(infoOf(nameOf(1), body), getter(body)); err != nil || !slices.Equal(got, entries) {
		t.Errorf("ReadIndex: %v, %v", got, err)
	}
}

// A writer with a limit ends a pack before the object with which it would be larger.
func TestLimit(t *testing.T) {
	w := NewWriter(nil)
	w.SetLimit(1 << 20)
	key := object.Key{Kind: object.KindChunk}
	for round := range 2 {
		for _, size := range []int{200_000, 100, 300_000, 17, 400_000} {
			if w.Full(size) {
				t.Fatalf("round %d: full with %d bytes before %d more", round, w.Size(), size)
			}
			if err := w.Add(key, make([]byte, size), size); err != nil {
				t.Fatal(err)
			}
			key.ID[0]++
		}
		room := 1<<20 - int(SizeOf(w.Len()+1, int64(w.values-remote.HeaderSize)))
		if w.Full(room) || !w.Full(room+1) {
			t.Errorf("round %d: full with %d bytes: %t; with one more: %t", round, room, w.Full(room), w.Full(room+1))
		}
		w.Reset() // keeps the limit
	}

	w.SetLimit(1000 * MaxSize)
	if w.limit != MaxSize {
		t.Errorf("limit %d", w.limit)
	}
}

func TestDecodeDamaged(t *testing.T) {
	list := items(3, 20)
	body, entries := build(t, nameOf(3), list)
	for _, e := range entries {
		v := bytes.Clone(value(body, e))
		for name, damage := range map[string]func() (Entry, []byte){
			"cut":         func() (Entry, []byte) { return e, v[:len(v)-1] },
			"longer":      func() (Entry, []byte) { return e, append(bytes.Clone(v), 0) },
			"empty":       func() (Entry, []byte) { return e, nil },
			"another":     func() (Entry, []byte) { e := e; e.Key.ID[3]++; return e, v },
			"raw greater": func() (Entry, []byte) { e := e; e.Raw++; return e, v },
			"raw huge":    func() (Entry, []byte) { e := e; e.Raw = 1<<32 - 1; return e, v },
		} {
			e, v := damage()
			wantDamage(t, name, e, v)
		}
		for i := range v {
			v[i] ^= 0x10
			// A damaged frame may still decode to the same bytes.
			if data, err := Decode(e, v); err == nil && object.Sum(data) != e.Key.ID {
				t.Fatalf("byte %d damaged: Decode returns wrong bytes", i)
			} else if err != nil {
				wantDamage(t, "flip", e, v)
			}
			v[i] ^= 0x10
		}
	}
}

func wantDamage(t *testing.T, name string, e Entry, value []byte) {
	t.Helper()
	var damage *object.CorruptError
	want := fmt.Sprintf("pack %s, offset %d", e.Pack.Name, e.Offset)
	if _, err := Decode(e, value); !errors.As(err, &damage) || damage.Key != e.Key || damage.Where != want {
		t.Errorf("%s: error %v, want a CorruptError of %s at %s", name, err, e.Key, want)
	}
}

func TestName(t *testing.T) {
	n, err := NewName(bytes.NewReader([]byte("0123456789abcdefg")))
	if err != nil || n.String() != "30313233343536373839616263646566" {
		t.Fatalf("NewName: %s, %v", n, err)
	}
	if got, err := ParseName(n.String()); err != nil || got != n {
		t.Errorf("ParseName: %s, %v", got, err)
	}
	if n.Path() != "packs/30/30313233343536373839616263646566" || n.IndexPath() != "index/30313233343536373839616263646566" {
		t.Errorf("paths %s, %s", n.Path(), n.IndexPath())
	}
	for _, name := range []string{n.Path(), n.IndexPath()} {
		if err := remote.CheckName(name); err != nil || remote.IsRecord(name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := NewName(bytes.NewReader(nil)); err == nil {
		t.Error("NewName without random bytes: no error")
	}
	for _, s := range []string{"", "30", n.String() + "0", "3031323334353637383961626364656G", "3031323334353637383961626364656F"} {
		if _, err := ParseName(s); err == nil {
			t.Errorf("ParseName(%q): no error", s)
		}
	}
}

package pack

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/frame"
	"github.com/kist-vcs/kist/remote"
)

// chained returns n objects of size bytes. Each except the first is stored as a patch
// on the one before.
func chained(t testing.TB, seed uint64, kind object.Kind, n, size int) []item {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 2))
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(rng.Uint32())
	}
	encoder := frame.NewEncoder(frame.Fastest)
	list := []item{{object.Key{Kind: kind, ID: object.Sum(data)}, data, encoder.Append(nil, data)}}
	for len(list) < n {
		from := list[len(list)-1]
		data := bytes.Clone(from.data)
		binary.BigEndian.PutUint64(data[rng.IntN(len(data)-8):], rng.Uint64())
		value, ok := encoder.AppendPatch(nil, data, from.key.ID, from.data)
		if !ok {
			t.Fatal("no patch")
		}
		list = append(list, item{object.Key{Kind: kind, ID: object.Sum(data)}, data, value})
	}
	return list
}

// buildWithPatches is build for a pack that may have patches.
func buildWithPatches(t testing.TB, name Name, list []item) (body []byte, entries []Entry) {
	t.Helper()
	w := NewWriter(nil)
	w.ResetForPatches()
	return buildWith(t, w, name, list)
}

// counted reads from one pack and counts the reads. Its method get is a Getter.
type counted struct {
	body  []byte
	mu    sync.Mutex
	calls int
	most  int // largest number of bytes of one read
}

func (c *counted) get(_ context.Context, _ Info, b []byte, off int64) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls++
	c.most = max(c.most, len(b))
	return getter(c.body)(b, off)
}

func TestValues(t *testing.T) {
	var list []item
	for kind := object.KindChunk; kind.Valid(); kind++ {
		list = append(list, chained(t, uint64(kind), kind, MaxChain+1, 5000)...)
	}
	list = append(list, items(1, 20)...)
	body, entries := buildWithPatches(t, nameOf(1), list)
	again, err := readPack(nameOf(1), body)
	if err != nil || !slices.Equal(again, entries) {
		t.Fatalf("ReadIndex: %d entries, %v", len(again), err)
	}

	byKey := map[object.Key]item{}
	for _, it := range list {
		byKey[it.key] = it
	}

	for _, test := range []struct {
		name   string
		block  int
		held   Part
		shared bool // one Values decodes all objects
		calls  int  // at most per object
	}{
		{"base by base", 0, Part{}, false, MaxChain},
		{"in blocks", 1 << 20, Part{}, false, 1},
		{"in small blocks", 3000, Part{}, false, 2 * MaxChain},
		{"shared", 1 << 20, Part{}, true, 1},
		{"in hand", 0, Part{0, body}, false, 0},
		{"partly in hand", 1 << 20, Part{2000, body[2000:20_000]}, false, 1},
	} {
		var values *Values
		for i := range entries {
			source := &counted{body: body}
			if !test.shared || i == 0 {
				values = NewValues(source.get, test.block)
			}
			e := entries[(i*7)%len(entries)]
			data, err := values.Decode(t.Context(), e, value(body, e), test.held)
			if err != nil || !bytes.Equal(data, byKey[e.Key].data) {
				t.Fatalf("%s: %+v: %d bytes, %v", test.name, e, len(data), err)
			}
			if source.calls > test.calls {
				t.Errorf("%s: %+v: %d reads, want at most %d", test.name, e, source.calls, test.calls)
			}
		}
	}
}

// Values keeps each decoded object as a base for the next. So decoding in the order of
// the pack reads only the first base.
func TestValuesInOrder(t *testing.T) {
	list := chained(t, 1, object.KindChunk, MaxChain+1, 5000)
	body, entries := buildWithPatches(t, nameOf(1), list)
	source := &counted{body: body}
	values := NewValues(source.get, 0)
	for _, e := range byOffset(entries)[1:] {
		if _, err := values.Decode(t.Context(), e, value(body, e), Part{}); err != nil {
			t.Fatal(err)
		}
	}
	if source.calls != 1 {
		t.Errorf("%d reads for %d patches, want 1", source.calls, MaxChain)
	}
}

// Values decodes a patch on a base of the largest size, far away in the pack.
func TestValuesLarge(t *testing.T) {
	far := chained(t, 1, object.KindChunk, 2, frame.MaxPatch)
	list := []item{far[0]}
	for i := range 6 {
		list = append(list, chained(t, uint64(2+i), object.KindChunk, 1, 8<<20)...)
	}
	list = append(list, far[1])
	body, entries := buildWithPatches(t, nameOf(1), list)
	for _, block := range []int{0, 1 << 20} {
		source := &counted{body: body}
		values := NewValues(source.get, block)
		for _, e := range entries {
			if e.Key != far[1].key {
				continue
			}
			if data, err := values.Decode(t.Context(), e, value(body, e), Part{}); err != nil || !bytes.Equal(data, far[1].data) {
				t.Errorf("%d bytes, %v", len(data), err)
			}
		}
		if source.calls != 1 || source.most != frame.MaxPatch+1 {
			t.Errorf("%d reads of at most %d bytes, want 1 of %d", source.calls, source.most, frame.MaxPatch+1)
		}
	}
}

func TestValuesConcurrent(t *testing.T) {
	var list []item
	for seed := range uint64(20) {
		list = append(list, chained(t, seed, object.KindTree, MaxChain+1, 100_000)...)
	}
	body, entries := buildWithPatches(t, nameOf(1), list)
	values := NewValues((&counted{body: body}).get, 1<<20)
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := w; i < len(entries); i += 4 {
				if _, err := values.Decode(t.Context(), entries[i], value(body, entries[i]), Part{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

func TestWriterTakesPatch(t *testing.T) {
	list := chained(t, 1, object.KindTree, MaxChain+2, 3000)
	large := chained(t, 2, object.KindChunk, 1, frame.MaxPatch+1)[0]
	w := NewWriter(nil)
	add := func(it item) error { return w.Add(it.key, it.value, len(it.data)) }
	if err := add(list[0]); err != nil {
		t.Fatal(err)
	}
	if w.TakesPatch(list[0].key) || add(list[1]) == nil || w.Len() != 1 {
		t.Error("a pack of version 1 takes a patch")
	}

	w.ResetForPatches()
	if w.TakesPatch(list[0].key) || add(list[1]) == nil {
		t.Error("the pack takes a patch on an object of the pack before")
	}

	for i, it := range list[:MaxChain+1] {
		if err := add(it); err != nil || w.TakesPatch(it.key) != (i < MaxChain) {
			t.Errorf("patch %d: %v", i, err)
		}
	}

	if err := add(list[MaxChain+1]); err == nil {
		t.Error("the pack takes a chain longer than MaxChain")
	}
	if err := add(large); err != nil || w.TakesPatch(large.key) {
		t.Errorf("the pack takes a patch on a too large object; %v", err)
	}

	other := list[1]
	other.key = object.Key{Kind: object.KindChunk, ID: object.ID{1}}
	if w.TakesPatch(object.Key{Kind: object.KindChunk, ID: list[0].key.ID}) || add(other) == nil {
		t.Error("the pack takes a patch on an object of another kind")
	}

	near, err := frame.AppendNear(nil, list[1].value, frame.Near{Distance: 3001, Stored: 3001, Raw: 3000})
	if other.value = near; err != nil || add(other) == nil {
		t.Errorf("the pack takes a near patch; %v", err)
	}

	cut := list[1].value[:33]
	if other.value = cut; add(item{object.Key{Kind: object.KindTree}, other.data, cut}) == nil {
		t.Error("the pack takes a cut patch")
	}

	body, entries, err := w.Finish(nameOf(1))
	if err != nil || len(entries) != MaxChain+2 || w.TakesPatch(list[0].key) {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	wantRepacked(t, body, true)
	wantAll(t, body, entries, append(list[:MaxChain+1:MaxChain+1], large))
	w.Reset()
	if w.TakesPatch(list[0].key) || add(list[0]) != nil || add(list[1]) == nil {
		t.Error("the pack of version 1 after Reset takes a patch")
	}

	body, _, err = w.Finish(nameOf(1))
	if err != nil {
		t.Fatal(err)
	}
	wantRepacked(t, body, false)
}

// wantRepacked checks whether the header of a pack allows patches.
func wantRepacked(t *testing.T, body []byte, want bool) {
	t.Helper()
	if got, err := IsRepacked(infoOf(nameOf(1), body), getter(body)); got != want || err != nil {
		t.Errorf("IsRepacked = %v, %v; want %v", got, err, want)
	}
}

// wantAll checks that a pack has all objects of list.
func wantAll(t *testing.T, body []byte, entries []Entry, list []item) {
	t.Helper()
	values := NewValues((&counted{body: body}).get, 1<<20)
	for _, it := range list {
		i := slices.IndexFunc(entries, func(e Entry) bool { return e.Key == it.key })
		if i < 0 {
			t.Errorf("%s: no entry", it.key)
			continue
		}
		data, err := values.Decode(t.Context(), entries[i], value(body, entries[i]), Part{})
		if err != nil || !bytes.Equal(data, it.data) {
			t.Errorf("%s: %d bytes, %v", it.key, len(data), err)
		}
	}
}

// A damaged base makes its patches corrupt. Values does not keep the damaged bytes, so
// the next Decode reads the base again.
func TestValuesDamage(t *testing.T) {
	list := chained(t, 1, object.KindChunk, MaxChain+1, 5000)
	body, entries := buildWithPatches(t, nameOf(1), list)
	entries = byOffset(entries)
	last := entries[MaxChain]
	for place := range 3 {
		bad := bytes.Clone(body)
		bad[int(entries[place].Offset)+int(entries[place].Stored)-1] ^= 1
		for _, block := range []int{0, 1 << 20} {
			source := &counted{body: bad}
			values := NewValues(source.get, block)
			_, err := values.Decode(t.Context(), last, value(body, last), Part{})
			var damage *object.CorruptError
			want := fmt.Sprintf("pack %s, offset %d", nameOf(1), last.Offset)
			if !errors.As(err, &damage) || damage.Key != last.Key || damage.Where != want {
				t.Errorf("base %d damaged: error %v, want a CorruptError of the patch", place, err)
			}
			source.body = body
			if _, err := values.Decode(t.Context(), last, value(body, last), Part{}); err != nil {
				t.Errorf("base %d intact again: %v", place, err)
			}
			if _, err := values.Decode(t.Context(), last, value(body, last)[:10], Part{}); !errors.As(err, &damage) {
				t.Errorf("value cut short: error %v, want a CorruptError", err)
			}
		}
	}
}

func TestValuesGetFails(t *testing.T) {
	body, entries := buildWithPatches(t, nameOf(1), chained(t, 1, object.KindChunk, 2, 5000))
	last := byOffset(entries)[1]
	for _, get := range []Getter{
		func(context.Context, Info, []byte, int64) (int, error) { return 0, remote.ErrTemporary },
		func(ctx context.Context, _ Info, b []byte, off int64) (int, error) { return 0, ctx.Err() },
	} {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := NewValues(get, 1<<20).Decode(ctx, last, value(body, last), Part{})
		if !errors.Is(err, remote.ErrTemporary) && !errors.Is(err, context.Canceled) || errors.Is(err, object.ErrCorrupt) {
			t.Error(err)
		}
	}
	short := func(_ context.Context, _ Info, b []byte, off int64) (int, error) { return getter(body[:4000])(b, off) }
	if _, err := NewValues(short, 0).Decode(t.Context(), last, value(body, last), Part{}); !errors.Is(err, object.ErrCorrupt) {
		t.Errorf("pack cut short: error %v, want ErrCorrupt", err)
	}
}

// hostilePatch returns a near patch whose object is the first raw bytes of its base.
func hostilePatch(raw int, n frame.Near) []byte {
	value := []byte{3}
	for _, v := range []int{n.Distance, n.Stored, n.Raw, raw} {
		value = binary.AppendUvarint(value, uint64(v))
	}
	script := binary.AppendUvarint([]byte{0, 0}, uint64(raw))
	return append(append(value, script...), 0)
}

func TestHostilePatches(t *testing.T) {
	data := bytes.Repeat([]byte("k"), 100)
	stored := append([]byte{0}, data...)
	id := object.Sum(data)
	for _, test := range []struct {
		name string
		kind object.Kind
		n    frame.Near
		raw  int
		ok   bool
	}{
		{"valid", object.KindChunk, frame.Near{Distance: 101, Stored: 101, Raw: 100}, 100, true},
		{"in the header", object.KindChunk, frame.Near{Distance: 102, Stored: 101, Raw: 100}, 100, false},
		{"before the pack", object.KindChunk, frame.Near{Distance: 1 << 20, Stored: 101, Raw: 100}, 100, false},
		{"itself", object.KindChunk, frame.Near{Distance: 0, Stored: 10, Raw: 100}, 100, false},
		{"reaching into itself", object.KindChunk, frame.Near{Distance: 100, Stored: 101, Raw: 100}, 100, false},
		{"another place", object.KindChunk, frame.Near{Distance: 100, Stored: 100, Raw: 100}, 100, false},
		{"a part of the base", object.KindChunk, frame.Near{Distance: 101, Stored: 100, Raw: 99}, 99, false},
		{"base shorter than stated", object.KindChunk, frame.Near{Distance: 101, Stored: 101, Raw: 200}, 100, false},
		{"too large for a node", object.KindTree, frame.Near{Distance: 101, Stored: 101, Raw: object.MaxNodeSize + 1}, 100, false},
		{"too large", object.KindChunk, frame.Near{Distance: 101, Stored: 101, Raw: frame.MaxPatch + 1}, 100, false},
		{"of another length", object.KindChunk, frame.Near{Distance: 101, Stored: 101, Raw: 100}, 101, false},
	} {
		body := append(remote.AppendHeader(nil, remote.TypePack, remote.Version2), stored...)
		patch := hostilePatch(test.raw, test.n)
		e := Entry{object.Key{Kind: test.kind, ID: id}, Info{nameOf(1), 1000}, uint32(len(body)), uint32(len(patch)), 100}
		body = append(body, patch...)
		source := &counted{body: body}
		data, err := NewValues(source.get, 0).Decode(t.Context(), e, patch, Part{})
		if test.ok != (err == nil) || err != nil && !errors.Is(err, object.ErrCorrupt) {
			t.Errorf("%s: %d bytes, %v", test.name, len(data), err)
		}
		if source.calls > 1 || source.most > 101 {
			t.Errorf("%s: %d reads of at most %d bytes", test.name, source.calls, source.most)
		}
	}
}

// longChain returns a pack without an index that has a chain of n patches, and the
// entry of the last patch.
func longChain(n, raw int) (body []byte, last Entry) {
	data := make([]byte, raw)
	body = append(remote.AppendHeader(nil, remote.TypePack, remote.Version2), 0)
	at, stored := len(body)-1, 1+raw
	body = append(body, data...)
	for range n {
		patch := hostilePatch(raw, frame.Near{Distance: len(body) - at, Stored: stored, Raw: raw})
		at, stored = len(body), len(patch)
		body = append(body, patch...)
	}
	return body, Entry{object.Key{Kind: object.KindChunk, ID: object.Sum(data)}, Info{nameOf(1), uint32(len(body) + 200)}, uint32(at), uint32(stored), uint32(raw)}
}

func TestHostileChain(t *testing.T) {
	for n := MaxChain - 1; n <= MaxChain+2; n++ {
		body, last := longChain(n, 1000)
		source := &counted{body: body}
		values := NewValues(source.get, 0)
		_, err := values.Decode(t.Context(), last, value(body, last), Part{})
		if n <= MaxChain != (err == nil) || n > MaxChain && !errors.Is(err, object.ErrCorrupt) || source.calls > MaxChain {
			t.Errorf("%d patches: %v, %d reads", n, err, source.calls)
		}
		// The limit also holds if bases are cached.
		_, e := longChain(MaxChain, 1000)
		if _, err := values.Decode(t.Context(), e, value(body, e), Part{}); n >= MaxChain && err != nil {
			t.Errorf("%d of %d patches: %v", MaxChain, n, err)
		}
		_, err = values.Decode(t.Context(), last, value(body, last), Part{})
		if n <= MaxChain != (err == nil) {
			t.Errorf("%d patches, with cached bases: %v", n, err)
		}
	}
}

// Decoding the longest chain of the largest objects takes bounded memory.
func TestHostileChainMemory(t *testing.T) {
	body, last := longChain(MaxChain, frame.MaxPatch)
	values := NewValues((&counted{body: body}).get, 1<<20)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := values.Decode(t.Context(), last, value(body, last), Part{}); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if got := (after.TotalAlloc - before.TotalAlloc) >> 20; got > 3*(MaxChain+1)*frame.MaxPatch>>20 {
		t.Errorf("%d MiB allocated, want at most %d", got, 3*(MaxChain+1)*frame.MaxPatch>>20)
	}
}

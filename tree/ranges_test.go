package tree

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
)

// chunked stores the list of a file's chunks, but not the chunks. Each chunk's number decides its
// size.
func chunked(t testing.TB, w object.Writer, chunks []int) object.Entry {
	t.Helper()
	list := object.NewManifestWriter(w)
	for _, c := range chunks {
		if err := list.Add(ctx, object.ChunkRef{ID: chunkID(c), Size: chunkSize(c)}); err != nil {
			t.Fatal(err)
		}
	}
	key, size, err := list.Finish(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return object.Entry{Type: object.TypeFile, Mode: 0o644, Size: size, Content: key}
}

func chunkID(c int) object.ID    { return object.Sum(fmt.Append(nil, "chunk ", c)) }
func chunkSize(c int) uint32     { return uint32(100 + c%7) }
func sizeOf(chunks []int) uint64 { return offsets(chunks)[len(chunks)] }

func offsets(chunks []int) []uint64 {
	at := []uint64{0}
	for i, c := range chunks {
		at = append(at, at[i]+uint64(chunkSize(c)))
	}
	return at
}

func count(n int) []int {
	chunks := make([]int, n)
	for i := range chunks {
		chunks[i] = i
	}
	return chunks
}

func splice(chunks []int, at, remove int, insert ...int) []int {
	return append(append(append([]int(nil), chunks[:at]...), insert...), chunks[at+remove:]...)
}

func TestChangedRanges(t *testing.T) {
	m := objecttest.NewMemory()
	long := count(5000)
	small := text(t, m, "content of more than thirty-two bytes, in a chunk")
	at := offsets(long)
	size := at[len(long)]
	new := func(c int) uint64 { return uint64(chunkSize(c)) }

	for _, tt := range []struct {
		name     string
		old, new object.Entry
		want     []Range
	}{
		{"equal", chunked(t, m, long), chunked(t, m, long), nil},
		{"one chunk", chunked(t, m, long), chunked(t, m, splice(long, 2000, 1, 9000)), []Range{{at[2000], new(2000), at[2000], new(9000)}}},
		{"inserted", chunked(t, m, long), chunked(t, m, splice(long, 2000, 0, 9000)), []Range{{at[2000], 0, at[2000], new(9000)}}},
		{"removed at the start", chunked(t, m, long), chunked(t, m, long[10:]), []Range{{0, at[10], 0, 0}}},
		{"appended", chunked(t, m, long), chunked(t, m, append(count(5000), 9000, 9001)), []Range{{size, 0, size, new(9000) + new(9001)}}},
		{"two places", chunked(t, m, long), chunked(t, m, splice(splice(long, 4000, 2), 10, 1, 9001)),
			[]Range{{at[10], new(10), at[10], new(9001)}, {at[4000], new(4000) + new(4001), at[4000] + new(9001) - new(10), 0}}},
		{"grown from one chunk", chunked(t, m, long[:1]), chunked(t, m, long), []Range{{at[1], 0, at[1], size - at[1]}}},
		{"grown by a level", chunked(t, m, long[:20]), chunked(t, m, long), []Range{{at[20], 0, at[20], size - at[20]}}},
		{"from nothing", inline(""), chunked(t, m, long), []Range{{0, 0, 0, size}}},
		{"to nothing", chunked(t, m, long), inline(""), []Range{{0, size, 0, 0}}},
		{"inline", inline("abc"), inline("abcd"), []Range{{0, 3, 0, 4}}},
		{"inline, equal", inline("abc"), withMode(inline("abc"), 0), nil},
		{"inline to chunk", inline("abc"), small, []Range{{0, 3, 0, small.Size}}},
		{"symlink", symlink("a"), small, []Range{{0, 0, 0, small.Size}}},
		{"nothing in common", chunked(t, m, []int{1, 2, 3}), chunked(t, m, []int{4, 5}), []Range{{0, sizeOf([]int{1, 2, 3}), 0, sizeOf([]int{4, 5})}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ChangedRanges(ctx, m, tt.old, tt.new)
			if err != nil || !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %v, %v, want %v", got, err, tt.want)
			}
		})
	}
}

// Between the ranges, the chunks are equal.
func TestChangedRangesRandom(t *testing.T) {
	for seed := range uint64(60) {
		m := objecttest.NewMemory()
		r := rand.New(rand.NewPCG(seed, 8))
		a := count(r.IntN(3000))
		for range r.IntN(50) {
			a[r.IntN(max(1, len(a)-1))%max(1, len(a))] %= 20 // repeat some chunks
			if len(a) == 0 {
				break
			}
		}

		b := a
		for i := range r.IntN(10) {
			at := r.IntN(len(b) + 1)
			b = splice(b, at, r.IntN(min(300, len(b)-at)+1), count(5000 + i)[5000-r.IntN(3):]...)
		}

		ranges, err := ChangedRanges(ctx, m, chunked(t, m, a), chunked(t, m, b))
		if err != nil {
			t.Fatal(err)
		}

		atA, atB := offsets(a), offsets(b)
		i, j := 0, 0
		for _, c := range append(ranges, Range{OldOff: sizeOf(a), NewOff: sizeOf(b)}) {
			for i < len(a) && atA[i] < c.OldOff {
				if j == len(b) || a[i] != b[j] {
					t.Fatalf("seed %d: chunks %d and %d differ outside of %v", seed, i, j, ranges)
				}
				i, j = i+1, j+1
			}
			if atA[i] != c.OldOff || atB[j] != c.NewOff {
				t.Fatalf("seed %d: ranges %v do not start at chunks", seed, ranges)
			}

			for i < len(a) && atA[i] < c.OldOff+c.OldLen {
				i++
			}
			for j < len(b) && atB[j] < c.NewOff+c.NewLen {
				j++
			}
		}
		if i != len(a) || j != len(b) {
			t.Fatalf("seed %d: the ranges end at chunk %d of %d and %d of %d", seed, i, len(a), j, len(b))
		}
	}
}

func TestChangedRangesReadsLittle(t *testing.T) {
	m := objecttest.NewMemory()
	long := count(100_000)
	a, b := chunked(t, m, long), chunked(t, m, splice(splice(long, 70_000, 5), 30_000, 0, 200_000))
	counted := objecttest.NewFaulty(m)
	got, err := ChangedRanges(ctx, counted, a, b)
	if err != nil || len(got) != 2 {
		t.Errorf("got %v, %v, want 2 ranges", got, err)
	}
	if n := counted.Calls(objecttest.Get); n > 25 {
		t.Errorf("read %d nodes, want at most 25", n)
	}
}

func TestChangedRangesOfHostileManifests(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine: no work for the race detector")
	}

	m := objecttest.NewMemory()
	put := func(node *object.Manifest) object.Key {
		data, err := node.Encode()
		if err != nil {
			t.Fatal(err)
		}
		id, err := m.Put(ctx, object.KindManifest, data)
		if err != nil {
			t.Fatal(err)
		}
		return object.Key{Kind: object.KindManifest, ID: id}
	}

	// Each level repeats one node, which makes a file of 2^50 chunks.
	tower := func(c int) object.Entry {
		key := put(&object.Manifest{Chunks: []object.ChunkRef{{ID: chunkID(c), Size: 1}, {ID: chunkID(c + 1), Size: 1}}})
		size := uint64(2)
		for level := uint8(1); level <= 5; level++ {
			node := &object.Manifest{Level: level}
			for i := range uint64(1000) {
				node.Children = append(node.Children, object.ManifestChild{ID: key.ID, End: (i + 1) * size})
			}
			key, size = put(node), size*1000
		}
		return object.Entry{Type: object.TypeFile, Size: size, Content: key}
	}

	a, b := tower(1), tower(3)
	got, err := ChangedRanges(ctx, m, a, b)
	if want := []Range{{0, a.Size, 0, b.Size}}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}

	leaf := put(&object.Manifest{Chunks: []object.ChunkRef{{ID: chunkID(1), Size: 5}, {ID: chunkID(2), Size: 5}}})
	for name, node := range map[string]*object.Manifest{
		"level": {Level: 2, Children: []object.ManifestChild{{ID: leaf.ID, End: 10}, {ID: leaf.ID, End: 20}}},
		"size":  {Level: 1, Children: []object.ManifestChild{{ID: leaf.ID, End: 10}, {ID: leaf.ID, End: 21}}},
	} {
		bad := object.Entry{Type: object.TypeFile, Size: node.Size(), Content: put(node)}
		if got, err := ChangedRanges(ctx, m, chunked(t, m, count(5)), bad); !errors.Is(err, object.ErrCorrupt) {
			t.Errorf("%s: got %v, %v, want ErrCorrupt", name, got, err)
		}
	}
}

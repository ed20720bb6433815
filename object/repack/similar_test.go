package repack

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/kist-vcs/kist/object"
)

const (
	testSize = 4 << 20
	maxDepth = 8
)

func random(seed uint64, n int) []byte {
	rng := rand.New(rand.NewPCG(seed, 0))
	b := make([]byte, 0, n+8)
	for len(b) < n {
		b = binary.LittleEndian.AppendUint64(b, rng.Uint64())
	}
	return b[:n]
}

// edited returns data with some bytes inserted, removed and changed.
func edited(data []byte, rng *rand.Rand, edits int) []byte {
	b := bytes.Clone(data)
	for range edits {
		at, n := rng.IntN(len(b)-40), 1+rng.IntN(30)
		switch rng.IntN(3) {
		case 0:
			b = append(b[:at:at], append(random(rng.Uint64(), n), b[at:]...)...)
		case 1:
			b = append(b[:at:at], b[at+n:]...)
		case 2:
			copy(b[at:], random(rng.Uint64(), n))
		}
	}
	return b
}

func keyOf(kind object.Kind, data []byte) object.Key {
	return object.Key{Kind: kind, ID: object.Sum(data)}
}

// propose calls w.propose with data as a chunk.
func propose(w *window, data []byte) (candidate, bool) {
	return w.proposeBase(keyOf(object.KindChunk, data), data)
}

// TestVersions checks that the window mostly finds an earlier version of a file among many
// files.
func TestVersions(t *testing.T) {
	for _, size := range []int{300, 3000, 100_000} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(size), 1))
			w := newWindow(testSize, maxDepth)
			var files [20][]byte
			of := map[object.ID]int{}
			missed := 0

			for i := range files {
				files[i] = random(uint64(i), size)
			}

			for range 10 {
				for i := range files {
					c, ok := propose(w, files[i])
					if known, has := of[c.key.ID]; ok && (!has || known != i) {
						t.Fatalf("candidate for file %d is %s of file %d", i, c.key.ID, known)
					}
					if ok && object.Sum(c.data) != c.key.ID {
						t.Fatalf("the data of candidate %s does not match its ID", c.key.ID)
					}
					if !ok && len(of) >= len(files) {
						missed++
					}
					of[object.Sum(files[i])] = i
					files[i] = edited(files[i], rng, 2)
				}
			}
			if missed > 9 {
				t.Errorf("no version found %d times of 180, want at most 9", missed)
			}
		})
	}
}

// TestDepth checks that the depths of candidates are right, and below the limit.
func TestDepth(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	w := newWindow(testSize, maxDepth)
	depths := map[object.ID]int{}
	deepest := 0
	data := random(1, 5000)
	for range 100 {
		c, ok := propose(w, data)
		if ok {
			if known, has := depths[c.key.ID]; !has || c.depth != known || c.depth >= maxDepth {
				t.Fatalf("candidate of depth %d, want %d (known: %t) below %d", c.depth, known, has, maxDepth)
			}
			depths[object.Sum(data)] = c.depth + 1
		} else {
			depths[object.Sum(data)] = 0
		}
		deepest = max(deepest, depths[object.Sum(data)])
		data = edited(data, rng, 3)
	}
	if deepest < 2 || deepest > maxDepth {
		t.Errorf("largest depth %d, want 2 to %d", deepest, maxDepth)
	}
	noPatches := newWindow(testSize, 0)
	for range 3 {
		if _, ok := propose(noPatches, data); ok {
			t.Error("a candidate with a largest depth of 0")
		}
	}
}

func TestShallowFirst(t *testing.T) {
	w := newWindow(testSize, maxDepth)
	data := random(1, 5000)
	for i := range 3 { // all are equal, but later ones are deeper
		c, ok := propose(w, data)
		if ok != (i > 0) || c.depth != 0 {
			t.Errorf("candidate for object %d: depth %d, %t; want 0, %t", i, c.depth, ok, i > 0)
		}
	}
}

func TestKinds(t *testing.T) {
	w := newWindow(testSize, maxDepth)
	data := random(1, 5000)
	propose(w, data)
	if c, ok := w.proposeBase(keyOf(object.KindTree, data), data); ok {
		t.Errorf("%v is the candidate for a tree, want none", c.key)
	}
	if c, ok := w.proposeBase(keyOf(object.KindTree, data), data); !ok || c.key.Kind != object.KindTree {
		t.Errorf("candidate for the second tree: %v, %t; want the first", c.key, ok)
	}
}

func TestUnlike(t *testing.T) {
	w := newWindow(testSize, maxDepth)
	for i := range 300 {
		for _, data := range [][]byte{random(uint64(i), 2000), nil, {1, 2, 3}, random(7, sampleSize-1), make([]byte, 1000+i)} {
			if c, ok := propose(w, data); ok {
				t.Fatalf("%v is the candidate for %d bytes, want none", c.key, len(data))
			}
		}
	}
}

func TestTooLarge(t *testing.T) {
	w := newWindow(1000, maxDepth)
	for range 2 {
		if _, ok := propose(w, random(1, 1001)); ok {
			t.Error("a candidate for an object that is too large")
		}
	}
	propose(w, random(2, 1000))
	if _, ok := propose(w, random(2, 1000)); !ok {
		t.Error("no candidate for an object of the largest size")
	}
}

// TestBounds checks that a window keeps only the last objects, within its limits.
func TestBounds(t *testing.T) {
	if testing.Short() {
		t.Skip("slow, and the race detector finds nothing in one goroutine")
	}
	w := newWindow(testSize, maxDepth)
	large := windowBytes / testSize
	for i := range 5 * large {
		propose(w, random(uint64(i%(large+1)), testSize)) // the window has just dropped the last copy
		if w.bytes > windowBytes {
			t.Fatalf("the window keeps %d bytes, want at most %d", w.bytes, windowBytes)
		}
	}
	if c, ok := propose(w, random(uint64(5*large-1)%uint64(large+1), testSize)); !ok || len(c.data) != testSize {
		t.Error("the window dropped the last object")
	}
	w = newWindow(testSize, maxDepth)
	for i := range 3 * windowObjects {
		propose(w, random(uint64(i), 64))
		if n := w.next - w.first; n > windowObjects {
			t.Fatalf("the window keeps %d objects, want at most %d", n, windowObjects)
		}
	}
	for _, e := range w.entries {
		if e.data == nil {
			t.Fatal("the window dropped an object that it had room for")
		}
	}
}

// TestAgainst compares the candidates with an exhaustive search.
func TestAgainst(t *testing.T) {
	if testing.Short() {
		t.Skip("slow, and the race detector finds nothing in one goroutine")
	}

	rng := rand.New(rand.NewPCG(5, 5))
	w := newWindow(testSize, maxDepth)
	var all [][]byte
	missed, found := 0, 0
	for range 400 {
		var data []byte
		if len(all) > 0 && rng.IntN(3) > 0 {
			data = edited(all[rng.IntN(len(all))], rng, 1+rng.IntN(20))
		} else {
			data = random(rng.Uint64(), 500+rng.IntN(3000))
		}

		most := 0
		s := sketchOf(data)
		for _, other := range all {
			most = max(most, shared(s, sketchOf(other)))
		}
		c, ok := propose(w, data)
		if ok && shared(s, sketchOf(c.data)) < minShared+perDepth*c.depth {
			t.Fatal("the candidate shares too few buckets")
		}

		if most >= 2*minShared {
			if found++; !ok {
				missed++
			}
		}
		all = append(all, data)
	}
	if found < 100 || missed > found/20 {
		t.Errorf("no candidate for %d of %d objects, want at most 5 %% of at least 100", missed, found)
	}
}

func shared(a, b sketch) (n int) {
	for i := range a {
		if a[i] == b[i] && a[i] != empty {
			n++
		}
	}
	return n
}

// TestAllocs checks that propose allocates nothing.
func TestAllocs(t *testing.T) {
	w := newWindow(testSize, maxDepth)
	data := random(1, 5000)
	for range 100 {
		propose(w, data)
	}
	if n := testing.AllocsPerRun(100, func() { propose(w, data) }); n > 0 {
		t.Errorf("%v allocations for each propose, want none", n)
	}
}

func BenchmarkPropose(b *testing.B) {
	for _, size := range []int{500, 10_000, 1 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, 1))
			versions := make([][]byte, 16)
			data := random(1, size)
			for i := range versions {
				versions[i] = data
				data = edited(data, rng, 2)
			}
			w := newWindow(testSize, maxDepth)
			key := object.Key{Kind: object.KindChunk}
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				w.proposeBase(key, versions[i%len(versions)])
			}
		})
	}
}

package optimise

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

// edited returns data with some bytes put in, taken out and changed.
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

// propose shows data to a window as a chunk.
func propose(w *window, data []byte) (candidate, bool) {
	return w.propose(keyOf(object.KindChunk, data), data)
}

// TestVersions checks that among many others the last version of an object is
// found, or one before it.
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
						t.Fatalf("of file %d, %s is proposed, which is of %d", i, c.key.ID, known)
					}
					if ok && object.Sum(c.data) != c.key.ID {
						t.Fatal("other data than the ID's")
					}
					if !ok && len(of) >= len(files) {
						missed++
					}
					of[object.Sum(files[i])] = i
					files[i] = edited(files[i], rng, 2)
				}
			}
			if missed > 9 { // of 180
				t.Errorf("%d times no version was found", missed)
			}
		})
	}
}

// TestDepth checks that no candidate is deeper than it says, or than is
// allowed.
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
				t.Fatalf("depth %d, known is %d, %v", c.depth, known, has)
			}
			depths[object.Sum(data)] = c.depth + 1
		} else {
			depths[object.Sum(data)] = 0
		}
		deepest = max(deepest, depths[object.Sum(data)])
		data = edited(data, rng, 3)
	}
	if deepest < 2 || deepest > maxDepth {
		t.Errorf("the deepest is %d", deepest)
	}
	whole := newWindow(testSize, 0)
	for range 3 {
		if _, ok := propose(whole, data); ok {
			t.Error("a candidate where nothing may depend on another")
		}
	}
}

func TestShallowFirst(t *testing.T) {
	w := newWindow(testSize, maxDepth)
	data := random(1, 5000)
	for want := range 3 { // each has all of it, and the one before is deeper
		c, ok := propose(w, data)
		if ok != (want > 0) || c.depth != 0 {
			t.Errorf("%d: depth %d, %v", want, c.depth, ok)
		}
	}
}

func TestKinds(t *testing.T) {
	w := newWindow(testSize, maxDepth)
	data := random(1, 5000)
	propose(w, data)
	if c, ok := w.propose(keyOf(object.KindTree, data), data); ok {
		t.Errorf("%v is proposed for a tree", c.key)
	}
	if c, ok := w.propose(keyOf(object.KindTree, data), data); !ok || c.key.Kind != object.KindTree {
		t.Errorf("%v, %v", c.key, ok)
	}
}

func TestUnlike(t *testing.T) {
	w := newWindow(testSize, maxDepth)
	for i := range 300 {
		for _, data := range [][]byte{random(uint64(i), 2000), nil, {1, 2, 3}, random(7, sampleSize-1), make([]byte, 1000+i)} {
			if c, ok := propose(w, data); ok {
				t.Fatalf("%d bytes: %v is proposed", len(data), c.key)
			}
		}
	}
}

func TestTooLarge(t *testing.T) {
	w := newWindow(1000, maxDepth)
	for range 2 {
		if _, ok := propose(w, random(1, 1001)); ok {
			t.Error("of an object that is too large, a candidate")
		}
	}
	propose(w, random(2, 1000))
	if _, ok := propose(w, random(2, 1000)); !ok {
		t.Error("of the largest, no candidate")
	}
}

// TestBounds checks that a window forgets, and what.
func TestBounds(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine: there is nothing for the race detector")
	}
	w := newWindow(testSize, maxDepth)
	large := windowBytes / testSize
	for i := range 5 * large {
		propose(w, random(uint64(i%(large+1)), testSize)) // each comes again when it was just forgotten
		if w.bytes > windowBytes {
			t.Fatalf("%d bytes are remembered", w.bytes)
		}
	}
	if c, ok := propose(w, random(uint64(5*large-1)%uint64(large+1), testSize)); !ok || len(c.data) != testSize {
		t.Error("the last was forgotten")
	}
	w = newWindow(testSize, maxDepth)
	for i := range 3 * windowObjects {
		propose(w, random(uint64(i), 64))
		if n := w.next - w.first; n > windowObjects {
			t.Fatalf("%d objects are remembered", n)
		}
	}
	for _, e := range w.entries {
		if e.data == nil {
			t.Fatal("an object that should be remembered is not")
		}
	}
}

// TestAgainst compares what is found with what a search through everything
// finds.
func TestAgainst(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine: there is nothing for the race detector")
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
			t.Fatal("a candidate that has little in common")
		}
		if most >= 2*minShared {
			if found++; !ok {
				missed++
			}
		}
		all = append(all, data)
	}
	if found < 100 || missed > found/20 {
		t.Errorf("%d of %d are missed", missed, found)
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

// TestAllocs checks that looking for candidates allocates nothing.
func TestAllocs(t *testing.T) {
	w := newWindow(testSize, maxDepth)
	data := random(1, 5000)
	for range 100 {
		propose(w, data)
	}
	if n := testing.AllocsPerRun(100, func() { propose(w, data) }); n > 0 {
		t.Errorf("%v allocations", n)
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
				w.propose(key, versions[i%len(versions)])
			}
		})
	}
}

package repack

import (
	"encoding/binary"
	"math"

	"github.com/kist-vcs/kist/object"
)

const (
	buckets    = 32 // of a sketch
	bucketBits = 5
	sampleSize = 16 // bytes that one hash covers

	// minShared is the number of buckets that must agree, and perDepth the number
	// that each step of depth adds to it. With fewer, a patch saves little, or
	// makes the patches of later objects worse.
	minShared = 4
	perDepth  = 2

	// slots is the number of objects that the table keeps for one hash of a bucket.
	slots = 8

	tableBits = 14
)

// The limits of a window.
const (
	windowBytes   = 16 << 20
	windowObjects = 4096
)

// candidate is an object that may serve as the base of a patch.
type candidate struct {
	key   object.Key
	data  []byte // read-only
	depth int    // upper bound of the number of patches that data is read through; 0: it is no patch
}

// sketch describes the content of an object. The windows of sampleSize bytes are
// hashed, the upper bits of a hash choose its bucket, and each bucket keeps its
// least hash, or empty. The more buckets of two sketches agree, the more content
// the objects share, wherever it lies in them.
type sketch [buckets]uint32

const empty = math.MaxUint32

// entry is an object of a window.
type entry struct {
	candidate
	sketch sketch
}

// window finds, for one object after the other, an earlier one that is so
// similar that a patch of it will be small. It keeps the last objects, within
// windowBytes and windowObjects. It is not safe for concurrent use.
type window struct {
	maxSize, maxDepth int

	entries [windowObjects]entry // a ring
	first   uint32               // number of the oldest object
	next    uint32               // number of the next object
	bytes   int

	// table finds objects by a bucket and its hash. It has the numbers plus one of
	// the last objects with that hash. Collisions add some other objects.
	table [1 << tableBits][slots]uint32
	votes [windowObjects]uint8
	voted []uint32
}

// newWindow returns an empty window. It ignores objects of more than maxSize
// bytes, and proposes no candidate that would make a chain of more than maxDepth
// patches.
func newWindow(maxSize, maxDepth int) *window {
	return &window{maxSize: min(maxSize, windowBytes), maxDepth: maxDepth}
}

// proposeBase returns the best candidate for an object, which has the same kind. Ok is
// false if no object is similar enough. The window adds the object: as a patch of the
// candidate, or as no patch. The caller no longer changes data.
func (w *window) proposeBase(key object.Key, data []byte) (c candidate, ok bool) {
	if len(data) < sampleSize || len(data) > w.maxSize {
		return candidate{}, false
	}

	s := sketchOf(data)
	depth := 0
	if best := w.mostSimilar(key.Kind, &s); best != nil {
		c, ok = best.candidate, true
		depth = c.depth + 1
	}

	w.addEntry(entry{candidate{key, data, depth}, s})
	return c, ok
}

// mostSimilar returns the entry that shares most buckets with s, and the latest one of
// several. Each step of depth takes a sixteenth off the score.
func (w *window) mostSimilar(kind object.Kind, s *sketch) *entry {
	for i, hash := range s {
		if hash == empty {
			continue
		}
		for _, n := range w.table[slot(i, hash)] {
			n-- // an empty slot becomes a number outside the window
			if n-w.first >= w.next-w.first {
				continue
			}
			if e := w.entryAt(n); e.sketch[i] == hash && e.key.Kind == kind && e.depth < w.maxDepth {
				if w.votes[n%windowObjects]++; w.votes[n%windowObjects] == 1 {
					w.voted = append(w.voted, n)
				}
			}
		}
	}

	var best *entry
	var bestScore int
	var last uint32
	for _, n := range w.voted {
		e, shared := w.entryAt(n), int(w.votes[n%windowObjects])
		w.votes[n%windowObjects] = 0
		if shared < minShared+perDepth*e.depth {
			continue
		}
		if score := shared * (16 - min(e.depth, 15)); score > bestScore || score == bestScore && n-w.first > last {
			best, bestScore, last = e, score, n-w.first
		}
	}
	w.voted = w.voted[:0]
	return best
}

// addEntry keeps an object, and drops the oldest ones if there are too many.
func (w *window) addEntry(e entry) {
	for w.first != w.next && (w.next-w.first >= windowObjects || w.bytes+len(e.data) > windowBytes) {
		oldest := w.entryAt(w.first)
		w.bytes -= len(oldest.data)
		oldest.data = nil
		w.first++
	}
	*w.entryAt(w.next) = e
	w.bytes += len(e.data)
	w.next++
	for i, hash := range e.sketch {
		if hash != empty {
			s := &w.table[slot(i, hash)]
			copy(s[1:], s[:])
			s[0] = w.next
		}
	}
}

// entryAt returns the entry of object n.
func (w *window) entryAt(n uint32) *entry { return &w.entries[n%windowObjects] }

// slot returns the place in the table of a hash in bucket i.
func slot(i int, hash uint32) uint32 {
	return (hash*0x9e3779b1 + uint32(i)*0x85ebca6b) >> (32 - tableBits)
}

// sketchOf returns the sketch of data, which has at least sampleSize bytes.
func sketchOf(data []byte) (s sketch) {
	for i := range s {
		s[i] = empty
	}
	for ; len(data) >= sampleSize; data = data[1:] {
		h := (binary.LittleEndian.Uint64(data)*0x9e3779b185ebca87 ^ binary.LittleEndian.Uint64(data[8:])) * 0xc2b2ae3d27d4eb4f
		if least := &s[h>>(64-bucketBits)]; uint32(h>>(32-bucketBits)) < *least {
			*least = uint32(h >> (32 - bucketBits))
		}
	}
	return s
}

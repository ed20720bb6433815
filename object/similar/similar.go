// Package similar finds, for one object after the other, an earlier one that is
// so much like it that storing the difference will pay.
//
// An object is described by a sketch: its windows of 16 bytes are hashed, the
// hashes are dealt out to 32 buckets by their upper bits, and of each bucket the
// least hash is kept. How many of these two objects have in common tells, as a
// sample, how much of their content they share, wherever in them it lies.
package similar

import (
	"encoding/binary"
	"math"

	"github.com/kist-vcs/kist/object"
)

const (
	buckets    = 32 // of a sketch
	bucketBits = 5
	windowSize = 16

	// minShared is how many buckets must agree, and perDepth how many more for
	// each step of depth. With fewer, storing an object whole mostly takes less,
	// or is better for those that come after it.
	minShared = 4
	perDepth  = 2

	// slots is how many objects are remembered that have one hash in a bucket.
	slots = 8

	tableBits = 14
)

// The limits of a [Window].
const (
	MaxBytes   = 16 << 20 // of the objects that it remembers
	MaxObjects = 4096     // that it remembers
)

// Candidate is an object that another may be stored as the difference from.
type Candidate struct {
	Key   object.Key
	Data  []byte // not to be changed
	Depth int    // at most how many differences Data is found through; 0: it is stored whole
}

// sketch has the least hash of each bucket; a bucket without any has empty.
type sketch [buckets]uint32

const empty = math.MaxUint32

// entry is an object that a window remembers.
type entry struct {
	Candidate
	sketch sketch
}

// Window remembers the last objects it was shown, within [MaxBytes] and
// [MaxObjects]. It is not safe for concurrent use.
type Window struct {
	maxSize, maxDepth int

	entries [MaxObjects]entry // a ring
	first   uint32            // number of the oldest that is remembered
	next    uint32            // number of the next
	bytes   int

	// table has, for a bucket and a hash, the numbers plus one of the last
	// objects that have it, and of some that do not.
	table [1 << tableBits][slots]uint32
	votes [MaxObjects]uint8
	voted []uint32
}

// NewWindow returns an empty window. It passes objects over that are longer than
// maxSize bytes, and has no candidate through which an object would be found by
// more than maxDepth differences.
func NewWindow(maxSize, maxDepth int) *Window {
	return &Window{maxSize: min(maxSize, MaxBytes), maxDepth: maxDepth}
}

// Next returns the best candidate for an object, of the same kind; ok is false
// if there is none that promises much. Then it remembers the object, as one
// that depends on that candidate, or is stored whole. It keeps data, which must
// not be changed any more.
func (w *Window) Next(key object.Key, data []byte) (c Candidate, ok bool) {
	if len(data) < windowSize || len(data) > w.maxSize {
		return Candidate{}, false
	}
	s := sketchOf(data)
	if best := w.best(key.Kind, &s); best != nil {
		c, ok = best.Candidate, true
	}
	depth := 0
	if ok {
		depth = c.Depth + 1
	}
	w.add(entry{Candidate{key, data, depth}, s})
	return c, ok
}

// best returns the entry that has most in common with a sketch, and of those
// the last. Each step of depth makes it count a sixteenth less.
func (w *Window) best(kind object.Kind, s *sketch) *entry {
	for i, hash := range s {
		if hash == empty {
			continue
		}
		for _, n := range w.table[slot(i, hash)] {
			n-- // of none this is no number that is remembered
			if n-w.first >= w.next-w.first {
				continue
			}
			if e := w.at(n); e.sketch[i] == hash && e.Key.Kind == kind && e.Depth < w.maxDepth {
				if w.votes[n%MaxObjects]++; w.votes[n%MaxObjects] == 1 {
					w.voted = append(w.voted, n)
				}
			}
		}
	}
	var best *entry
	var bestScore int
	var last uint32
	for _, n := range w.voted {
		e, shared := w.at(n), int(w.votes[n%MaxObjects])
		w.votes[n%MaxObjects] = 0
		if shared < minShared+perDepth*e.Depth {
			continue
		}
		if score := shared * (16 - min(e.Depth, 15)); score > bestScore || score == bestScore && n-w.first > last {
			best, bestScore, last = e, score, n-w.first
		}
	}
	w.voted = w.voted[:0]
	return best
}

// add remembers an object, and forgets others if there are too many.
func (w *Window) add(e entry) {
	for w.first != w.next && (w.next-w.first >= MaxObjects || w.bytes+len(e.Data) > MaxBytes) {
		oldest := w.at(w.first)
		w.bytes -= len(oldest.Data)
		oldest.Data = nil
		w.first++
	}
	*w.at(w.next) = e
	w.bytes += len(e.Data)
	w.next++
	for i, hash := range e.sketch {
		if hash != empty {
			s := &w.table[slot(i, hash)]
			copy(s[1:], s[:])
			s[0] = w.next
		}
	}
}

func (w *Window) at(n uint32) *entry { return &w.entries[n%MaxObjects] }

// slot returns where in the table the objects are that have a hash in bucket i.
func slot(i int, hash uint32) uint32 {
	return (hash*0x9e3779b1 + uint32(i)*0x85ebca6b) >> (32 - tableBits)
}

// sketchOf returns the sketch of data, of at least windowSize bytes.
func sketchOf(data []byte) (s sketch) {
	for i := range s {
		s[i] = empty
	}
	for ; len(data) >= windowSize; data = data[1:] {
		h := (binary.LittleEndian.Uint64(data)*0x9e3779b185ebca87 ^ binary.LittleEndian.Uint64(data[8:])) * 0xc2b2ae3d27d4eb4f
		if least := &s[h>>(64-bucketBits)]; uint32(h>>(32-bucketBits)) < *least {
			*least = uint32(h >> (32 - bucketBits))
		}
	}
	return s
}

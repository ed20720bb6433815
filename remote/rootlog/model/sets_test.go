package model

import (
	"cmp"
	"iter"
	"math/bits"
	"slices"
)

// objects is a set of objects.
type objects uint8

// The objects of the model.
const (
	history objects = 1 << iota // A, a node that refers to B
	content                     // B
	other                       // X, which only the tag reaches
)

// pushedObjects are the objects that a push makes reachable.
const pushedObjects = history | content

// refs is a set of refs and holds.
type refs uint8

// The refs of the model.
const (
	refMain   refs = 1 << iota // main, of an earlier push; it may be deleted
	refTag                     // tag, which is never deleted
	refHold                    // a hold
	refPushed                  // the branch that pushers push
)

// set is a set of packs, or of index files, by their numbers.
type set uint8

func only(n int) set { return 1 << n }

func (s set) has(n int) bool { return s>>n&1 != 0 }

func (s set) len() int { return bits.OnesCount8(uint8(s)) }

// first returns the lowest number; s is not empty.
func (s set) first() int { return bits.TrailingZeros8(uint8(s)) }

func (s set) all() iter.Seq[int] {
	return func(yield func(int) bool) {
		for ; s != 0 && yield(s.first()); s &= s - 1 {
		}
	}
}

// contents has the objects in each pack, by its number. It is replaced, never changed.
type contents []objects

// in returns the objects in the packs.
func (c contents) in(packs set) objects {
	var found objects
	for n := range packs.all() {
		found |= c[n]
	}
	return found
}

// with returns c with one more pack, and its number.
func (c contents) with(o objects) (contents, int) { return append(slices.Clip(c), o), len(c) }

// condemned is a pack or an index file that a root condemned.
type condemned struct {
	name   uint8
	at     uint8 // number of the root
	orphan bool  // it was never live
}

// condemnation is the sorted list of condemned files of a root. It is replaced,
// never changed.
type condemnation []condemned

func (c condemnation) names() set {
	var names set
	for _, e := range c {
		names |= only(int(e.name))
	}
	return names
}

// with adds the names that the root at condemns; some of them are orphans.
func (c condemnation) with(names, orphans set, at uint8) condemnation {
	if names == 0 {
		return c
	}
	c = slices.Clip(c)
	for n := range names.all() {
		c = append(c, condemned{uint8(n), at, orphans.has(n)})
	}
	slices.SortFunc(c, func(a, b condemned) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.at, b.at))
	})
	return c
}

// without splits c into the entries without these names and the entries with them.
func (c condemnation) without(names set) (rest, gone condemnation) {
	for _, e := range c {
		if names.has(int(e.name)) {
			gone = append(gone, e)
		} else {
			rest = append(rest, e)
		}
	}
	return rest, gone
}

func (c condemnation) encode(dst []byte) []byte {
	dst = append(dst, byte(len(c)))
	for _, e := range c {
		dst = append(dst, e.name<<1|bit(e.orphan), e.at)
	}
	return dst
}

func bit(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// twice returns both values, or one if they are equal.
func twice[T comparable](a, b T) []T {
	if a == b {
		return []T{a}
	}
	return []T{a, b}
}

// appendSorted appends the one or two processes of a kind to dst, in an order that
// does not depend on their numbers.
func appendSorted(dst []byte, n int, encode func(dst []byte, i int) []byte) []byte {
	begin := len(dst)
	dst = encode(dst, 0)
	if n == 1 {
		return dst
	}
	middle := len(dst)
	dst = encode(dst, 1)
	if slices.Compare(dst[begin:middle], dst[middle:]) > 0 {
		dst = append(dst, dst[begin:middle]...)
		dst = append(dst[:begin], dst[middle:]...)
	}
	return dst
}

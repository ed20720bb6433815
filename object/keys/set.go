package keys

import (
	"iter"
	"math/bits"
)

// Set is a set of records of an index, by their numbers, one bit for each. It is
// not safe for concurrent use while it is changed.
type Set []uint64

// NewSet returns an empty set for an index of n records.
func NewSet(n int) Set { return make(Set, (n+63)/64) }

// Has reports whether record number i, from 0 on, is in the set.
func (s Set) Has(i int) bool { return s[i/64]>>(i%64)&1 != 0 }

// Add adds record number i, from 0 on.
func (s Set) Add(i int) { s[i/64] |= 1 << (i % 64) }

// All yields the numbers in the set in ascending order.
func (s Set) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		for n, word := range s {
			for ; word != 0; word &= word - 1 {
				if !yield(n*64 + bits.TrailingZeros64(word)) {
					return
				}
			}
		}
	}
}

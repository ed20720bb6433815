package volume

import (
	"iter"
	"math/bits"
)

// bitmap is a set of small numbers.
type bitmap struct{ words []uint64 }

func (b *bitmap) set(i int) {
	for i/64 >= len(b.words) {
		b.words = append(b.words, make([]uint64, i/64+1-len(b.words))...)
	}
	b.words[i/64] |= 1 << (i % 64)
}

func (b *bitmap) has(i int) bool { return i/64 < len(b.words) && b.words[i/64]>>(i%64)&1 != 0 }

// all yields the numbers in ascending order.
func (b *bitmap) all() iter.Seq[int] {
	return func(yield func(int) bool) {
		for n, w := range b.words {
			for ; w != 0; w &= w - 1 {
				if !yield(n*64 + bits.TrailingZeros64(w)) {
					return
				}
			}
		}
	}
}

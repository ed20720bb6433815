package keys

import (
	"encoding/binary"
	"math/bits"

	"github.com/kist-vcs/kist/object"
)

// filter is a split-block Bloom filter: an ID selects one block of eight
// 32-bit words and one bit in each of them. IDs are hashes, so their own bits
// serve as the hash values; the kind is left out.
type filter []byte

// slot returns the offset of an ID's block, and five bits for each word.
func (f filter) slot(id *object.ID) (block []byte, picks uint64) {
	n := uint64(len(f) / filterSize)
	i, _ := bits.Mul64(binary.BigEndian.Uint64(id[8:16]), n)
	return f[i*filterSize : (i+1)*filterSize], binary.BigEndian.Uint64(id[16:24])
}

func (f filter) add(id *object.ID) {
	block, picks := f.slot(id)
	for w := 0; w < filterSize; w += 4 {
		word := binary.BigEndian.Uint32(block[w:]) | 1<<(picks&31)
		binary.BigEndian.PutUint32(block[w:], word)
		picks >>= 5
	}
}

// mayHave reports false if the ID was certainly never added.
func (f filter) mayHave(id *object.ID) bool {
	if len(f) == 0 {
		return false
	}
	block, picks := f.slot(id)
	for w := 0; w < filterSize; w += 4 {
		if binary.BigEndian.Uint32(block[w:])>>(picks&31)&1 == 0 {
			return false
		}
		picks >>= 5
	}
	return true
}

// Package keys reads and writes the sorted index of the places of objects: one
// fixed-width record for every object, ordered by kind and ID, in small blocks
// with a checksum each. Volumes use it (their KEYS file), and so do pack
// indexes. An index is searched on disk. Memory holds only a table of the
// blocks' first keys and, after some look-ups, a filter that answers most
// negative look-ups.
//
// docs/format/keys.md describes the format.
package keys

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"iter"
	"math/bits"

	"github.com/kist-vcs/kist/object"
)

// Version is the format version this package writes, and the only one it
// reads.
const Version = 1

// The layout, see docs/format/keys.md.
const (
	headerSize   = 16                             // magic, version, seven zero bytes
	recordSize   = 48                             // ID, file, offset, stored, raw
	blockRecords = 32                             // records of every block but the last
	blockSize    = blockRecords*recordSize + 4    // with its checksum
	filterSize   = 32                             // bytes of a filter block: eight words of 32 bits
	filterBits   = 12                             // filter bits for every record
	trailerSize  = kinds*8 + 4 + 4 + 4 + magicLen // counts, three checksums, magic
	kinds        = 5
	magicLen     = 8
)

const magic = "kistkeys"

// MaxRecords is the largest number of records of an index.
const MaxRecords = 1 << 31

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Record is the place of an object. The user of the index decides on the meaning of File and
// Offset: in a volume, File is the number of a value log, and Offset the position of the
// stored value in it.
type Record struct {
	Key    object.Key
	File   uint32
	Offset uint32 // bytes
	Stored uint32 // bytes of the stored value
	Raw    uint32 // bytes of the object

	// Index is the number of the record in its index, from 0. Readers set it, and writers
	// ignore it.
	Index int
}

// CorruptError is the error for a damaged index. It matches [object.ErrCorrupt].
type CorruptError struct {
	Part  string // "size", "header", "block", "table", "filter" or "trailer"
	Block int    // number of the damaged block, if Part is "block"
	Err   error  // the cause
}

func (e *CorruptError) Error() string {
	if e.Part == "block" {
		return fmt.Sprintf("index block %d: %v", e.Block, e.Err)
	}
	return fmt.Sprintf("index %s: %v", e.Part, e.Err)
}

// Is makes errors.Is(err, object.ErrCorrupt) true.
func (e *CorruptError) Is(target error) bool { return target == object.ErrCorrupt }

// Unwrap returns the cause.
func (e *CorruptError) Unwrap() error { return e.Err }

// prefix returns the first eight bytes of an ID as a number. Numbers have the order of the
// IDs.
func prefix(id object.ID) uint64 { return binary.BigEndian.Uint64(id[:8]) }

// Size returns the number of bytes of an index with n records.
func Size(n int) int64 {
	_, _, _, _, size := sections(int64(n))
	return size
}

// sections returns the number of blocks of an index with n records, the offsets of the other
// parts, and the size.
func sections(n int64) (blocks, table, filter, trailer, size int64) {
	blocks = (n + blockRecords - 1) / blockRecords
	table = headerSize + n*recordSize + blocks*4
	filter = table + blocks*8
	trailer = filter + filterBlocks(n)*filterSize
	return blocks, table, filter, trailer, trailer + trailerSize
}

func filterBlocks(n int64) int64 { return (n*filterBits + filterSize*8 - 1) / (filterSize * 8) }

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

// filter is a split-block Bloom filter: an ID selects one block of eight 32-bit words, and
// one bit in each of them. IDs are hashes, so their own bits serve as the hash values. The
// filter ignores the kind of an object.
type filter []byte

// blockOf returns the block of an ID, and a number with five bits for each word of it.
func (f filter) blockOf(id *object.ID) (block []byte, picks uint64) {
	n := uint64(len(f) / filterSize)
	i, _ := bits.Mul64(binary.BigEndian.Uint64(id[8:16]), n)
	return f[i*filterSize : (i+1)*filterSize], binary.BigEndian.Uint64(id[16:24])
}

func (f filter) addID(id *object.ID) {
	block, picks := f.blockOf(id)
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
	block, picks := f.blockOf(id)
	for w := 0; w < filterSize; w += 4 {
		if binary.BigEndian.Uint32(block[w:])>>(picks&31)&1 == 0 {
			return false
		}
		picks >>= 5
	}
	return true
}

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

// Record says where an object lies. What a file is, and where in it offsets
// count from, is up to the user of the index: in a volume, File is the number
// of a value log and Offset the position of the stored value in it.
type Record struct {
	Key    object.Key
	File   uint32
	Offset uint32 // bytes
	Stored uint32 // bytes of the stored value
	Raw    uint32 // bytes of the object

	// Index is the record's position among all records of its index, from 0.
	// Readers set it; writers do not look at it.
	Index int
}

// CorruptError says that an index is damaged, and where. It matches
// [object.ErrCorrupt].
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

// prefix returns the first eight bytes of an ID as a number that orders as
// the IDs do.
func prefix(id object.ID) uint64 { return binary.BigEndian.Uint64(id[:8]) }

// Size returns how many bytes an index with n records has.
func Size(n int) int64 {
	_, _, _, _, size := sections(int64(n))
	return size
}

// sections returns where the parts of an index with n records begin, and its
// size.
func sections(n int64) (blocks, table, filter, trailer, size int64) {
	blocks = (n + blockRecords - 1) / blockRecords
	table = headerSize + n*recordSize + blocks*4
	filter = table + blocks*8
	trailer = filter + filterBlocks(n)*filterSize
	return blocks, table, filter, trailer, trailer + trailerSize
}

func filterBlocks(n int64) int64 { return (n*filterBits + filterSize*8 - 1) / (filterSize * 8) }

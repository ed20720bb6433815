package keys

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/kist-vcs/kist/object"
)

// filterAfter is the number of look-ups after which a reader loads its filter. Before that,
// a look-up of an absent object reads one block.
const filterAfter = 64

// maxKept is the number of blocks that a reader keeps: 3 MiB.
const maxKept = 2048

// Reader searches an index. It is safe for concurrent use. It keeps half a
// byte for every record in memory, and 1.5 bytes more once it has loaded
// its filter. From then on it also keeps the first maxKept blocks that it reads.
type Reader struct {
	layout
	r     io.ReaderAt
	table []uint64     // prefix of the first ID of each block
	foff  int64        // offset of the filter
	hits  atomic.Int32 // look-ups so far, up to filterAfter
	f     atomic.Pointer[filter]
	kept  []atomic.Pointer[[blockSize]byte] // checked blocks
	count atomic.Int32                      // of kept blocks
}

// Open reads an index of size bytes from r, which must stay readable and
// unchanged while the Reader is used. It checks everything except the blocks
// and the filter, which are checked when they are read. The error is a
// [*CorruptError] if the index is damaged, or if its size does not match its
// record counts. Memory is bounded by size.
func Open(r io.ReaderAt, size int64) (*Reader, error) {
	if size < headerSize+trailerSize {
		return nil, &CorruptError{Part: "size", Err: fmt.Errorf("%d bytes are too few for an index", size)}
	}
	var header [headerSize]byte
	if err := readFull(r, header[:], 0); err != nil {
		return nil, &CorruptError{Part: "header", Err: err}
	}
	if err := checkHeader(header[:]); err != nil {
		return nil, &CorruptError{Part: "header", Err: err}
	}

	var trailer [trailerSize]byte
	if err := readFull(r, trailer[:], size-trailerSize); err != nil {
		return nil, &CorruptError{Part: "trailer", Err: err}
	}
	l, err := parseTrailer(trailer[:], size)
	if err != nil {
		return nil, err
	}

	x := &Reader{layout: l, r: r}
	blocks, table, filter, _, _ := sections(int64(x.n))
	x.foff = filter
	buf := make([]byte, blocks*8)
	if err := readFull(r, buf, table); err != nil {
		return nil, &CorruptError{Part: "table", Err: err}
	}
	if crc32.Checksum(buf, castagnoli) != x.tcrc {
		return nil, &CorruptError{Part: "table", Err: errChecksum}
	}

	x.table, x.kept = make([]uint64, blocks), make([]atomic.Pointer[[blockSize]byte], blocks)
	for i := range x.table {
		x.table[i] = binary.BigEndian.Uint64(buf[i*8:])
	}
	return x, nil
}

var (
	errChecksum = errors.New("checksum does not match")
	errOrder    = errors.New("records are not in order")
	errFiltered = errors.New("a record is not in the filter")
)

// readFull fills p from off. It returns io.ErrUnexpectedEOF if r ends before that.
func readFull(r io.ReaderAt, p []byte, off int64) error {
	n, err := r.ReadAt(p, off)
	switch {
	case n == len(p):
		return nil
	case err == io.EOF || err == nil:
		return io.ErrUnexpectedEOF
	}
	return err
}

// readBlock reads block b into buf, which has blockSize bytes, and returns its
// records' bytes.
func (x *Reader) readBlock(b int, buf []byte) ([]byte, error) {
	n := x.blockLen(b) * recordSize
	buf = buf[:n+4]
	if err := readFull(x.r, buf, headerSize+int64(b)*blockSize); err != nil {
		return nil, &CorruptError{Part: "block", Block: b, Err: err}
	}
	return x.checkBlock(b, buf)
}

func (x *Reader) checkBlock(b int, buf []byte) ([]byte, error) {
	n := len(buf) - 4
	if !hasSum(buf) {
		return nil, &CorruptError{Part: "block", Block: b, Err: errChecksum}
	}
	if binary.BigEndian.Uint64(buf) != x.table[b] {
		return nil, &CorruptError{Part: "block", Block: b, Err: errors.New("first record does not match the table")}
	}
	return buf[:n], nil
}

var blockPool = sync.Pool{New: func() any { return new([blockSize]byte) }}

// At returns record i, counted from 0.
func (x *Reader) At(i int) (Record, error) {
	buf := blockPool.Get().(*[blockSize]byte)
	defer blockPool.Put(buf)
	recs, err := x.readBlock(i/blockRecords, buf[:])
	if err != nil {
		return Record{}, err
	}
	return x.decodeRecord(i, recs[i%blockRecords*recordSize:]), nil
}

// Find returns the record of key, and whether there is one. An error is a [*CorruptError].
func (x *Reader) Find(key object.Key) (Record, bool, error) {
	if !x.hasKind(key.Kind) {
		return Record{}, false, nil
	}
	if f := x.dueFilter(); f != nil && !f.mayHave(&key.ID) {
		return Record{}, false, nil
	}
	buf := blockPool.Get().(*[blockSize]byte)
	defer blockPool.Put(buf)
	// The record is in the last block that begins before it, unless it begins
	// a block itself.
	before, end := x.candidateBlocks(key.Kind, &key.ID)
	for b := before + 1; b <= end; b++ {
		if r, ok, err := x.findIn(b, key, buf); ok || err != nil {
			return r, ok, err
		}
	}
	return x.findIn(before, key, buf)
}

// candidateBlocks returns the range of blocks that may have id. Kind k must have records. Before is
// the last block with records of kind k that begins before id, or else the first block with
// such records. End is the last block whose first record has the same prefix as id.
func (x *Reader) candidateBlocks(k object.Kind, id *object.ID) (before, end int) {
	first, last := x.blocksOf(k)
	want := prefix(*id)
	after, _ := slices.BinarySearch(x.table[first+1:last+1], want)
	before = first + after
	for end = before; end < last && x.table[end+1] == want; {
		end++
	}
	return before, end
}

// findIn looks for key in block b.
func (x *Reader) findIn(b int, key object.Key, buf *[blockSize]byte) (Record, bool, error) {
	var recs []byte
	if kept := x.kept[b].Load(); kept != nil {
		recs = kept[:x.blockLen(b)*recordSize]
	} else {
		var err error
		if recs, err = x.readBlock(b, buf[:]); err != nil {
			return Record{}, false, err
		}
		if x.f.Load() != nil && x.count.Add(1) <= maxKept {
			kept := *buf
			x.kept[b].Store(&kept)
		}
	}
	r, ok := x.recordFrom(b, recs, x.lowerBound(b, recs, key.Kind, &key.ID), key)
	return r, ok, nil
}

// firstFrom returns the number of the first record of kind k that is not before
// id, or one past the last of that kind.
func (x *Reader) firstFrom(k object.Kind, id *object.ID) (int, error) {
	if x.start[k-1] == x.start[k] {
		return x.start[k], nil
	}
	var buf [blockSize]byte
	for b, end := x.candidateBlocks(k, id); ; b++ {
		recs, err := x.readBlock(b, buf[:])
		if err != nil {
			return 0, err
		}
		if i := x.lowerBound(b, recs, k, id); b == end || i < (b+1)*blockRecords {
			return i, nil
		}
	}
}

// dueFilter returns the filter, or nil before it is due. It returns nil for a damaged filter,
// which [Reader.Verify] reports.
func (x *Reader) dueFilter() filter {
	if f := x.f.Load(); f != nil {
		return *f
	}
	if x.hits.Load() >= filterAfter || x.hits.Add(1) != filterAfter {
		return nil
	}
	f, err := x.readFilter()
	if err != nil {
		return nil
	}
	x.f.Store(&f)
	return f
}

func (x *Reader) readFilter() (filter, error) {
	f := make(filter, filterBlocks(int64(x.n))*filterSize)
	if err := readFull(x.r, f, x.foff); err != nil {
		return nil, &CorruptError{Part: "filter", Err: err}
	}
	if crc32.Checksum(f, castagnoli) != x.fcrc {
		return nil, &CorruptError{Part: "filter", Err: errChecksum}
	}
	return f, nil
}

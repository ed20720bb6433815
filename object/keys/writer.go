package keys

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"iter"

	"github.com/kist-vcs/kist/object"
)

// Writer writes an index from records that come sorted by key. It needs 1.75 bytes of memory
// for each record until it is finished.
type Writer struct {
	w      *bufio.Writer
	block  []byte
	table  []byte
	filter filter
	want   int64 // number of records
	counts [kinds]uint64
	total  int64
	last   object.Key
	err    error
}

// NewWriter returns a writer of an index of n records to w. It must know the number in advance, because the filter's
// size and the places in it depend on that.
func NewWriter(w io.Writer, n int) *Writer {
	wr := &Writer{w: bufio.NewWriterSize(w, 64<<10), block: make([]byte, 0, blockSize), want: int64(n)}
	if n < 0 || n > MaxRecords {
		wr.err = fmt.Errorf("write index: %d records", n)
		return wr
	}
	wr.filter = make(filter, filterBlocks(int64(n))*filterSize)
	header := make([]byte, headerSize)
	copy(header, magic)
	header[magicLen] = Version
	_, wr.err = wr.w.Write(header)
	return wr
}

// Write writes an index with n records, whose keys strictly ascend.
func Write(w io.Writer, n int, records iter.Seq[Record]) error {
	x := NewWriter(w, n)
	for rec := range records {
		if err := x.Add(rec); err != nil {
			return err
		}
	}
	return x.Finish()
}

// Add writes one record. Keys must come in strictly ascending order.
func (w *Writer) Add(r Record) error {
	switch {
	case w.err != nil:
		return w.err
	case !r.Key.Kind.Valid():
		return fmt.Errorf("write index: invalid kind %d", r.Key.Kind)
	case w.total > 0 && r.Key.Compare(w.last) <= 0:
		return fmt.Errorf("write index: %s does not come after %s", r.Key, w.last)
	case w.total == w.want:
		return fmt.Errorf("write index: more than %d records", w.want)
	}

	if len(w.block) == 0 {
		w.table = binary.BigEndian.AppendUint64(w.table, prefix(r.Key.ID))
	}
	w.block = append(w.block, r.Key.ID[:]...)
	for _, v := range [...]uint32{r.File, r.Offset, r.Stored, r.Raw} {
		w.block = binary.BigEndian.AppendUint32(w.block, v)
	}
	w.filter.addID(&r.Key.ID)
	w.counts[r.Key.Kind-1]++
	w.total++
	w.last = r.Key

	if len(w.block) == blockRecords*recordSize {
		return w.flushBlock()
	}
	return nil
}

func (w *Writer) flushBlock() error {
	if len(w.block) > 0 {
		w.block = binary.BigEndian.AppendUint32(w.block, crc32.Checksum(w.block, castagnoli))
		_, w.err = w.w.Write(w.block)
		w.block = w.block[:0]
	}
	return w.err
}

// Finish writes the rest: the last block, the table, the filter and the trailer. It does not
// close or sync the underlying writer.
func (w *Writer) Finish() error {
	if w.err != nil || w.flushBlock() != nil {
		return w.err
	}
	if w.total < w.want {
		return fmt.Errorf("write index: %d records, want %d", w.total, w.want)
	}

	trailer := make([]byte, 0, trailerSize)
	for _, n := range w.counts {
		trailer = binary.BigEndian.AppendUint64(trailer, n)
	}
	trailer = binary.BigEndian.AppendUint32(trailer, crc32.Checksum(w.table, castagnoli))
	trailer = binary.BigEndian.AppendUint32(trailer, crc32.Checksum(w.filter, castagnoli))
	trailer = binary.BigEndian.AppendUint32(trailer, crc32.Checksum(trailer, castagnoli))
	trailer = append(trailer, magic...)

	for _, part := range [][]byte{w.table, w.filter, trailer} {
		if _, w.err = w.w.Write(part); w.err != nil {
			return w.err
		}
	}
	if w.err = w.w.Flush(); w.err != nil {
		return w.err
	}
	w.err = errors.New("write index: already finished")
	return nil
}

// scanBlocks is the number of blocks read at once by a scan.
const scanBlocks = 64

// All yields every record, and checks their order. The first error, a [*CorruptError], ends
// the sequence.
func (x *Reader) All() iter.Seq2[Record, error] { return x.scanRecords(0, x.n) }

// scanRecords yields records from to end-1.
func (x *Reader) scanRecords(from, end int) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		buf := make([]byte, min(scanBlocks, (end-from)/blockRecords+2)*blockSize)
		var last object.Key
		for i := from; i < end; {
			b := i / blockRecords
			count := min(len(buf)/blockSize, (end-1)/blockRecords-b+1)
			size := (count-1)*blockSize + x.blockLen(b+count-1)*recordSize + 4
			if err := readFull(x.r, buf[:size], headerSize+int64(b)*blockSize); err != nil {
				yield(Record{}, &CorruptError{Part: "block", Block: b, Err: err})
				return
			}
			for n := range count {
				recs, err := x.checkBlock(b+n, buf[n*blockSize:min(size, (n+1)*blockSize)])
				if err != nil {
					yield(Record{}, err)
					return
				}
				for ; i < end && i/blockRecords == b+n; i++ {
					r := x.decodeRecord(i, recs[i%blockRecords*recordSize:])
					if i > from && r.Key.Compare(last) <= 0 {
						yield(Record{}, &CorruptError{Part: "block", Block: b + n, Err: errOrder})
						return
					}
					last = r.Key
					if !yield(r, nil) {
						return
					}
				}
			}
		}
	}
}

// Prefix yields the records of one kind whose IDs begin with the first nbits bits of prefix,
// in order. Prefix has at least that many bits. The first error, a [*CorruptError], ends the
// sequence.
func (x *Reader) Prefix(kind object.Kind, prefix []byte, nbits int) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		if !kind.Valid() || nbits < 0 || nbits > 8*len(prefix) || nbits > 8*len(object.ID{}) {
			return
		}
		var low object.ID
		copy(low[:], prefix[:(nbits+7)/8])
		if nbits%8 != 0 {
			low[nbits/8] &= 0xff << (8 - nbits%8)
		}

		i, err := x.firstFrom(kind, &low)
		if err != nil {
			yield(Record{}, err)
			return
		}
		// Few blocks are read at a time, because most callers look for one name.
		for end := x.start[kind]; i < end; {
			to := min(end, i/blockRecords*blockRecords+4*blockRecords)
			for r, err := range x.scanRecords(i, to) {
				if err == nil && !hasPrefix(r.Key.ID, low, nbits) {
					return
				}
				if !yield(r, err) || err != nil {
					return
				}
			}
			i = to
		}
	}
}

func hasPrefix(id, low object.ID, nbits int) bool {
	n := nbits / 8
	if !bytes.Equal(id[:n], low[:n]) {
		return false
	}
	return nbits%8 == 0 || (id[n]^low[n])>>(8-nbits%8) == 0
}

// Verify reads the whole index. It checks the checksum of every block, the order of the
// records, and the filter. It returns the first damage, a [*CorruptError].
func (x *Reader) Verify() error {
	f, err := x.readFilter()
	if err != nil {
		return err
	}
	for r, err := range x.All() {
		if err != nil {
			return err
		}
		if !f.mayHave(&r.Key.ID) {
			return &CorruptError{Part: "filter", Err: errFiltered}
		}
	}
	return nil
}

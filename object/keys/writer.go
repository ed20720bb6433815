package keys

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/kist-vcs/kist/object"
)

// Writer writes an index. Records come sorted by key and are written as they
// come; the writer holds 16 bytes for each of them until it is finished.
type Writer struct {
	w      *bufio.Writer
	block  []byte
	table  []byte
	filter []uint64 // two words of each ID, for the filter
	counts [kinds]uint64
	total  int64
	last   object.Key
	err    error
}

// NewWriter returns a writer of an index to w.
func NewWriter(w io.Writer) *Writer {
	wr := &Writer{w: bufio.NewWriterSize(w, 64<<10), block: make([]byte, 0, blockSize)}
	header := make([]byte, headerSize)
	copy(header, magic)
	header[magicLen] = Version
	_, wr.err = wr.w.Write(header)
	return wr
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
	case w.total == MaxRecords:
		return errors.New("write index: too many records")
	}
	if len(w.block) == 0 {
		w.table = binary.BigEndian.AppendUint64(w.table, prefix(r.Key.ID))
	}
	w.block = append(w.block, r.Key.ID[:]...)
	for _, v := range [...]uint32{r.File, r.Offset, r.Stored, r.Raw} {
		w.block = binary.BigEndian.AppendUint32(w.block, v)
	}
	w.filter = append(w.filter, binary.BigEndian.Uint64(r.Key.ID[8:]), binary.BigEndian.Uint64(r.Key.ID[16:]))
	w.counts[r.Key.Kind-1]++
	w.total++
	w.last = r.Key
	if len(w.block) == blockRecords*recordSize {
		return w.flush()
	}
	return nil
}

func (w *Writer) flush() error {
	if len(w.block) > 0 {
		w.block = binary.BigEndian.AppendUint32(w.block, crc32.Checksum(w.block, castagnoli))
		_, w.err = w.w.Write(w.block)
		w.block = w.block[:0]
	}
	return w.err
}

// Finish writes what remains: the last block, the table, the filter and the
// trailer. It does not close or sync the underlying writer.
func (w *Writer) Finish() error {
	if w.err != nil || w.flush() != nil {
		return w.err
	}
	f := make(filter, filterBlocks(w.total)*filterSize)
	var id object.ID
	for i := 0; i < len(w.filter); i += 2 {
		binary.BigEndian.PutUint64(id[8:], w.filter[i])
		binary.BigEndian.PutUint64(id[16:], w.filter[i+1])
		f.add(&id)
	}
	trailer := make([]byte, 0, trailerSize)
	for _, n := range w.counts {
		trailer = binary.BigEndian.AppendUint64(trailer, n)
	}
	trailer = binary.BigEndian.AppendUint32(trailer, crc32.Checksum(w.table, castagnoli))
	trailer = binary.BigEndian.AppendUint32(trailer, crc32.Checksum(f, castagnoli))
	trailer = binary.BigEndian.AppendUint32(trailer, crc32.Checksum(trailer, castagnoli))
	trailer = append(trailer, magic...)
	for _, part := range [][]byte{w.table, f, trailer} {
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

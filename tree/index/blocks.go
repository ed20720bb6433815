package index

import (
	"encoding/binary"
	"errors"
	"io"
	"math"
)

// errHeadFull says that a new base has to be written.
var errHeadFull = errors.New("too much for a head")

// blockWriter writes the records of a file in blocks.
type blockWriter struct {
	w    io.Writer
	buf  []byte // the block's length and checksum, then its payload
	sum  uint32 // of the block before
	size uint64 // bytes written
	err  error

	limit uint64 // bytes beyond which errHeadFull is the error
}

func newBlockWriter(w io.Writer, kind byte) *blockWriter {
	b := &blockWriter{w: w, limit: math.MaxUint64, buf: make([]byte, 0, blockCut+8<<10)}
	b.buf = appendHeader(b.buf, kind)
	b.sum = binary.LittleEndian.Uint32(b.buf[12:])
	b.write()
	return b
}

// end ends a record, which the caller has appended to buf.
func (b *blockWriter) end() {
	if len(b.buf)-8 >= blockCut {
		b.flush()
	}
}

func (b *blockWriter) flush() {
	payload := b.buf[8:]
	b.sum = blockSum(b.sum, payload)
	binary.LittleEndian.PutUint32(b.buf, uint32(len(payload)))
	binary.LittleEndian.PutUint32(b.buf[4:], b.sum)
	b.write()
}

func (b *blockWriter) write() {
	if b.err == nil {
		_, b.err = b.w.Write(b.buf)
		b.size += uint64(len(b.buf))
		if b.err == nil && b.size > b.limit {
			b.err = errHeadFull
		}
	}
	b.buf = b.buf[:8]
}

// close writes the last block and the end, and returns the file's size and its
// last checksum.
func (b *blockWriter) close() (size uint64, sum uint32, err error) {
	if len(b.buf) > 8 {
		b.flush()
	}
	b.flush()
	return b.size, b.sum, b.err
}

// blockReader reads the records of a file.
type blockReader struct {
	r    io.Reader
	buf  []byte
	sum  uint32 // of the block before
	next [8]byte
	fields
}

func newBlockReader(r io.Reader, kind byte) (*blockReader, error) {
	b := &blockReader{r: r, buf: make([]byte, blockCut+8<<10)}
	head := b.buf[:headerSize+8]
	if err := b.read(head); err != nil {
		return nil, err
	}
	var err error
	if b.sum, err = checkHeader(head, kind); err != nil {
		return nil, err
	}
	copy(b.next[:], head[headerSize:])
	return b, nil
}

func (b *blockReader) read(p []byte) error {
	_, err := io.ReadFull(b.r, p)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return errTruncated
	}
	return err
}

// begin makes sure that fields has the next record at its front. Records do
// not go across blocks.
func (b *blockReader) begin() error {
	if len(b.in) > 0 {
		if b.size-len(b.in) >= blockCut {
			return errBlock
		}
		return nil
	}
	if b.size > 0 && b.size < blockCut {
		return errTruncated
	}
	return b.block()
}

// block reads the next block, and the length and checksum of the one after.
func (b *blockReader) block() error {
	n := int(binary.LittleEndian.Uint32(b.next[:]))
	sum := binary.LittleEndian.Uint32(b.next[4:])
	if n == 0 {
		return errTruncated
	}
	if n > maxBlock {
		return errBlock
	}
	if len(b.buf) < n+8 {
		b.buf = make([]byte, n+8)
	}
	buf := b.buf[:n+8]
	if err := b.read(buf); err != nil {
		return err
	}
	if blockSum(b.sum, buf[:n]) != sum {
		return errChecksum
	}
	b.sum = sum
	copy(b.next[:], buf[n:])
	b.in, b.size = buf[:n], n
	return nil
}

// finish checks that everything has been read, and returns the last checksum.
func (b *blockReader) finish() (uint32, error) {
	if len(b.in) > 0 {
		return 0, errTrailing
	}
	if n := binary.LittleEndian.Uint32(b.next[:]); n != 0 {
		return 0, errTrailing
	}
	sum := binary.LittleEndian.Uint32(b.next[4:])
	if blockSum(b.sum, nil) != sum {
		return 0, errChecksum
	}
	var one [1]byte
	if _, err := io.ReadFull(b.r, one[:]); err != io.EOF {
		if err == nil {
			err = errTrailing
		}
		return 0, err
	}
	return sum, nil
}

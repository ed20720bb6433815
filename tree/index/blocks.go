package index

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"math"
)

// The numbers of the format. See docs/format/index.md.
const (
	versionFull   = 1 // no directory is left out
	versionSparse = 2 // some are

	magic = "kistidx\n"

	headerSize   = 16
	blockCut     = 64 << 10 // bytes of payload at which a block ends
	maxBlock     = 1 << 20  // bytes of payload
	minEntrySize = 9        // bytes of an encoded entry
	minDirSize   = 6        // bytes of an encoded directory
)

// The files of an index.
const (
	kindHead byte = 'H'
	kindBase byte = 'B'
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var (
	errTruncated = errors.New("ends too early")
	errTrailing  = errors.New("goes on after its end")
	errChecksum  = errors.New("checksum does not match")
	errMagic     = errors.New("not an index file")
	errBlock     = errors.New("block of a wrong size")
	errCanonical = errors.New("not in canonical form")
	errCounts    = errors.New("counts do not match")
	errVersion   = errors.New("version does not fit the content")
)

// appendHeader appends the header. Its form is the same in every version.
func appendHeader(dst []byte, kind, version byte) []byte {
	start := len(dst)
	dst = append(dst, magic...)
	dst = append(dst, kind, version, 0, 0)
	return binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst[start:], castagnoli))
}

// checkHeader checks a header and returns its checksum and version.
func checkHeader(b []byte, kind byte) (sum uint32, version byte, err error) {
	sum, version = binary.LittleEndian.Uint32(b[12:]), b[9]
	switch {
	case string(b[:8]) != magic:
		return 0, 0, errMagic
	case crc32.Checksum(b[:12], castagnoli) != sum:
		return 0, 0, errChecksum
	case b[8] != kind:
		return 0, 0, errMagic
	case version > versionSparse:
		return 0, 0, &VersionError{Version: int(version)}
	case version < versionFull || b[10] != 0 || b[11] != 0:
		return 0, 0, errCanonical
	}
	return sum, version, nil
}

// blockSum returns the checksum of a block. It covers the checksum of the block before,
// the length and the payload, so that blocks cannot change places.
func blockSum(before uint32, payload []byte) uint32 {
	var b [8]byte
	binary.LittleEndian.PutUint32(b[:], before)
	binary.LittleEndian.PutUint32(b[4:], uint32(len(payload)))
	return crc32.Update(crc32.Checksum(b[:], castagnoli), castagnoli, payload)
}

// errHeadFull is the reason to write a new base.
var errHeadFull = errors.New("too much for a head")

// blockWriter writes the records of a file in blocks. It keeps the first error.
type blockWriter struct {
	w    io.Writer
	buf  []byte // the block's length and checksum, then its payload
	sum  uint32 // of the block before
	size uint64 // bytes written
	err  error

	limit uint64 // largest size; beyond it, the error is errHeadFull
}

// newBlockWriter writes the header of a file.
func newBlockWriter(w io.Writer, kind, version byte) *blockWriter {
	b := &blockWriter{w: w, limit: math.MaxUint64, buf: make([]byte, 0, blockCut+8<<10)}
	b.buf = appendHeader(b.buf, kind, version)
	b.sum = binary.LittleEndian.Uint32(b.buf[12:])
	b.writeBuffer()
	return b
}

// endRecord ends a record that the caller appended to buf.
func (b *blockWriter) endRecord() {
	if len(b.buf)-8 >= blockCut {
		b.writeBlock()
	}
}

// writeBlock writes a block.
func (b *blockWriter) writeBlock() {
	payload := b.buf[8:]
	b.sum = blockSum(b.sum, payload)
	binary.LittleEndian.PutUint32(b.buf, uint32(len(payload)))
	binary.LittleEndian.PutUint32(b.buf[4:], b.sum)
	b.writeBuffer()
}

// writeBuffer writes buf and begins a new block in it.
func (b *blockWriter) writeBuffer() {
	if b.err == nil {
		_, b.err = b.w.Write(b.buf)
		b.size += uint64(len(b.buf))
		if b.err == nil && b.size > b.limit {
			b.err = errHeadFull
		}
	}
	b.buf = b.buf[:8]
}

// close writes the last block and the end mark. It returns the size and the last
// checksum of the file.
func (b *blockWriter) close() (size uint64, sum uint32, err error) {
	if len(b.buf) > 8 {
		b.writeBlock()
	}
	b.writeBlock()
	return b.size, b.sum, b.err
}

// blockReader reads the records of a file. Its fields are the rest of a block.
type blockReader struct {
	r    io.Reader
	buf  []byte
	sum  uint32 // of the block before
	next [8]byte
	fieldReader
	version byte // of the file
}

// newBlockReader reads the header of a file.
func newBlockReader(r io.Reader, kind byte) (*blockReader, error) {
	b := &blockReader{r: r, buf: make([]byte, blockCut+8<<10)}
	head := b.buf[:headerSize+8]
	if err := b.readFull(head); err != nil {
		return nil, err
	}
	var err error
	if b.sum, b.version, err = checkHeader(head, kind); err != nil {
		return nil, err
	}
	copy(b.next[:], head[headerSize:])
	return b, nil
}

// readFull fills p. At the end of the file it returns errTruncated.
func (b *blockReader) readFull(p []byte) error {
	_, err := io.ReadFull(b.r, p)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return errTruncated
	}
	return err
}

// beginRecord goes to the next record: fields begins with it afterwards. A record lies in
// one block.
func (b *blockReader) beginRecord() error {
	if len(b.in) > 0 {
		if b.size-len(b.in) >= blockCut {
			return errBlock
		}
		return nil
	}
	if b.size > 0 && b.size < blockCut {
		return errTruncated
	}
	return b.readBlock()
}

// readBlock reads the next block, and the length and checksum of the one after.
func (b *blockReader) readBlock() error {
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
	if err := b.readFull(buf); err != nil {
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

// checkEnd checks that nothing is left to read, and returns the last checksum.
func (b *blockReader) checkEnd() (uint32, error) {
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

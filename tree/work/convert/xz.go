package convert

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/ulikunitz/xz"
	"github.com/ulikunitz/xz/lzma"
)

// maxWindow bounds the bytes that a decompressor keeps in memory to repeat them later: the window
// of zstd, the dictionary of xz. The highest levels of xz take 64 MiB.
const maxWindow = 512 << 20

// newXZReader returns a reader of the content of an xz file.
func newXZReader(r io.Reader) (io.ReadCloser, error) {
	guard := &xzGuard{in: bufio.NewReader(r)}
	guard.next = guard.checkStreamHeader
	z, err := xz.NewReader(guard)
	if err != nil {
		return nil, err
	}
	return io.NopCloser(z), nil
}

// xzGuard passes on an xz file, except a block that needs too much memory.
//
// The library allocates the dictionary of each block before it reads the data. Its size is in the
// header of the block, up to 4 GiB, and no setting bounds it. So the guard follows the structure of
// the file: streams of blocks of chunks. It leaves checksums to the library.
type xzGuard struct {
	in   *bufio.Reader
	pass int64        // the bytes to pass on before next
	next func() error // looks at the next part, and sets pass and next

	checkSize    int64  // of the check behind each block of this stream
	packed       int64  // bytes of the current block, or of the index
	numbers      uint64 // of the index that are still to come
	read         int64
	dictionaries int64 // the sum of the sizes
}

// Read reads the part that was looked at.
func (g *xzGuard) Read(p []byte) (int, error) {
	for g.pass == 0 {
		if err := g.next(); err != nil {
			return 0, err
		}
	}
	n, err := g.in.Read(p[:min(int64(len(p)), g.pass)])
	g.pass -= int64(n)
	g.read += int64(n)
	return n, err
}

// peekBytes returns the next n bytes, which must be there.
func (g *xzGuard) peekBytes(n int) ([]byte, error) {
	data, err := g.in.Peek(n)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return data, err
}

// checkStreamHeader reads the header of a stream, or at the padding between streams.
func (g *xzGuard) checkStreamHeader() error {
	const size = 12
	if _, err := g.in.Peek(1); err != nil {
		return err
	}
	start, err := g.peekBytes(4)
	if err != nil {
		return err
	}
	if string(start) == "\x00\x00\x00\x00" {
		g.pass = 4
		return nil
	}
	header, err := g.peekBytes(size)
	if err != nil {
		return err
	}
	var known bool
	g.checkSize, known = map[byte]int64{0: 0, 1: 4, 4: 8, 10: 32}[header[7]]
	if !known {
		return fmt.Errorf("xz: unknown check %d", header[7])
	}
	g.pass, g.next = size, g.checkBlockHeader
	return nil
}

// checkBlockHeader reads the header of a block, or at the start of the index.
func (g *xzGuard) checkBlockHeader() error {
	start, err := g.peekBytes(1)
	if err != nil {
		return err
	}
	if start[0] == 0 {
		g.pass, g.packed, g.next = 1, 1, g.checkIndex
		return nil
	}
	size := (int64(start[0]) + 1) * 4
	header, err := g.peekBytes(int(size))
	if err != nil {
		return err
	}
	at := 2
	for _, given := range []byte{0x40, 0x80} { // the sizes of the packed and of the plain data
		if header[1]&given != 0 {
			_, n := xzNumber(header[at:])
			at += n
		}
	}
	if header[1]&3 != 0 || at+3 > len(header) || header[at] != 0x21 || header[at+1] != 1 {
		return errors.New("xz: a filter other than LZMA2: decompress the file first")
	}
	dictionary, err := lzma.DecodeDictCap(header[at+2])
	if err != nil {
		return err
	}
	g.pass, g.packed, g.next = size, 0, g.checkChunk
	return g.checkDictionary(dictionary)
}

// checkDictionary returns an error if a dictionary is too large. Small blocks with large dictionaries, as no
// program writes them, would also take too much time.
func (g *xzGuard) checkDictionary(dictionary int64) error {
	const sum, ratio = 64 << 30, 1000
	if dictionary > maxWindow {
		return fmt.Errorf("xz: a dictionary of %d bytes; at most %d are accepted", dictionary, maxWindow)
	}
	if g.dictionaries += dictionary; g.dictionaries-sum > ratio*g.read {
		return errors.New("xz: the dictionaries are far larger than the data")
	}
	return nil
}

// checkChunk reads the header of a part of a block, or at its end.
func (g *xzGuard) checkChunk() error {
	start, err := g.peekBytes(1)
	if err != nil {
		return err
	}
	kind := start[0]
	if kind == 0 {
		g.pass = 1 + xzPadding(g.packed+1) + g.checkSize
		g.next = g.checkBlockHeader
		return nil
	}
	header, err := g.peekBytes(5)
	if kind < 0x80 {
		header, err = g.peekBytes(3)
	}
	if err != nil {
		return err
	}
	switch {
	case kind == 1 || kind == 2: // not compressed
		g.pass = 3 + int64(header[1])<<8 + int64(header[2]) + 1
	case kind < 0x80:
		return fmt.Errorf("xz: unknown chunk %#x", kind)
	default:
		g.pass = 5 + int64(header[3])<<8 + int64(header[4]) + 1
		if kind >= 0xc0 {
			g.pass++ // properties
		}
	}
	g.packed += g.pass
	return nil
}

// checkIndex reads the number of records of the index.
func (g *xzGuard) checkIndex() error {
	count, err := g.passNumber()
	g.numbers = 2 * count // a wrong one fails in the library, which compares it with the blocks
	g.next = g.checkIndexRecord
	return err
}

// checkIndexRecord reads one number of the index, or at the end of the stream.
func (g *xzGuard) checkIndexRecord() error {
	if g.numbers == 0 {
		const checksum, footer = 4, 12
		g.pass, g.next = xzPadding(g.packed)+checksum+footer, g.checkStreamHeader
		return nil
	}
	g.numbers--
	_, err := g.passNumber()
	return err
}

// passNumber passes on a number, and returns it.
func (g *xzGuard) passNumber() (uint64, error) {
	data, err := g.in.Peek(xzNumberSize)
	if len(data) == 0 {
		return 0, err
	}
	value, n := xzNumber(data)
	g.pass = int64(n)
	g.packed += g.pass
	return value, nil
}

// xzNumberSize is the size of the longest number, in bytes.
const xzNumberSize = 9

// xzNumber returns the number at the start of data, and its size in bytes.
func xzNumber(data []byte) (value uint64, size int) {
	for i, b := range data[:min(len(data), xzNumberSize)] {
		value |= uint64(b&0x7f) << (7 * i)
		if b < 0x80 {
			return value, i + 1
		}
	}
	return value, min(len(data), xzNumberSize)
}

// xzPadding returns the number of zeros behind n bytes that fill four bytes each.
func xzPadding(n int64) int64 { return -n & 3 }

package crypt

import (
	"bytes"
	"errors"
	"io"
)

// sealed is the encrypted form of a plain blob. It encrypts each segment when it is read, and holds
// one segment in memory. Any number of reads from any offsets give the same bytes. One goroutine at
// a time may use it.
type sealed struct {
	*blob
	body io.ReaderAt

	// tags has the tag of each segment that was encrypted. If the body changed in between, a
	// nonce would encrypt two texts, which is never safe.
	tags []byte

	segment [storedSegment]byte // the last one that was only read in part
	at      int64               // its number, or -1
}

var errChanged = errors.New("the body changed while it was stored")

func newSealed(b *blob, body io.ReaderAt) *sealed {
	return &sealed{blob: b, body: body, tags: make([]byte, segments(b.padded)*tagSize), at: -1}
}

// ReadAt implements [io.ReaderAt].
func (s *sealed) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, errors.New("negative offset")
	}
	if off < s.size {
		n = copy(p, s.header[off:])
	}
	for n < len(p) {
		number := (off + int64(n) - s.size) / storedSegment
		if number > s.last() {
			return n, io.EOF
		}
		begin := int(off + int64(n) - s.size - number*storedSegment)
		length := s.lengthOf(number)

		if begin == 0 && len(p)-n >= length {
			if err := s.seal(number, p[n:n:n+length]); err != nil {
				return n, err
			}
			n += length
			continue
		}

		if s.at != number {
			s.at = -1
			if err := s.seal(number, s.segment[:0]); err != nil {
				return n, err
			}
			s.at = number
		}
		if begin >= length { // at the end of the last segment
			return n, io.EOF
		}
		n += copy(p[n:], s.segment[begin:length])
	}
	return n, nil
}

// lengthOf returns the size of a stored segment.
func (b *blob) lengthOf(segment int64) int {
	return int(min(b.padded-segment*segmentSize, segmentSize)) + tagSize
}

// seal encrypts a segment into the memory of dst, which has room for it and is empty.
func (s *sealed) seal(number int64, dst []byte) error {
	off := number * segmentSize
	length := s.lengthOf(number) - tagSize
	text := dst[:length]
	have := int(max(min(s.plain-off, int64(length)), 0))
	if have > 0 {
		if n, err := s.body.ReadAt(text[:have], off); n < have {
			if err == nil || errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
	}
	clear(text[have:])

	s.aead.Seal(dst[:0], s.nonce(number), text, nil)
	tag := dst[length : length+tagSize]
	before := s.tags[number*tagSize : (number+1)*tagSize]
	var none [tagSize]byte
	if !bytes.Equal(before, none[:]) && !bytes.Equal(before, tag) {
		clear(dst[:length+tagSize])
		return errChanged
	}
	copy(before, tag)
	return nil
}

// sealAll returns the encrypted form of data.
func sealAll(b *blob, data []byte) ([]byte, error) {
	stored := make([]byte, b.end(b.last()))
	_, err := newSealed(b, bytes.NewReader(data)).ReadAt(stored, 0)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return stored, err
}

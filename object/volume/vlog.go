package volume

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/frame"
)

// A value log of Badger 4 has a header of 20 bytes, then entries:
//
//	meta, user meta         1 byte each
//	key, value length       uvarint
//	expires at              uvarint
//	key                     kind, ID, then the transaction's number
//	value                   a stored value (package frame), zero bytes up to minValue
//	checksum                CRC-32C of the entry before the checksum
//
// User meta is the number of zero bytes that follow the stored value.
const (
	logHeaderSize  = 20
	keySize        = 1 + len(object.ID{})
	logKeySize     = keySize + 8
	maxEntryHeader = 2 + 1 + 5 + 1
	crcSize        = 4

	// minValue is Badger's value threshold: Badger would keep shorter values in its
	// tables.
	minValue = 32

	// maxStored is the largest size of a stored value.
	maxStored = object.MaxChunkSize + frame.MaxOverhead
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// entrySize returns the size of an entry with a value of n bytes.
func entrySize(n int) int64 {
	size := 2 + 1 + 1 + logKeySize + n + crcSize
	for v := uint(n); ; v >>= 7 {
		size++
		if v < 0x80 {
			return int64(size)
		}
	}
}

// padding returns the number of zero bytes that follow a stored value of n
// bytes.
func padding(n int) int { return max(0, minValue-n) }

// encodeKey returns the key of an object in the database.
func encodeKey(key object.Key) []byte {
	return append([]byte{byte(key.Kind)}, key.ID[:]...)
}

// logEntry is an entry of a value log.
type logEntry struct {
	key    object.Key
	start  int64 // of the entry in the file
	value  int64 // of its value
	padded int   // length of the value, padding included
	pad    int
}

func (e logEntry) stored() int { return e.padded - e.pad }
func (e logEntry) crc() int64  { return e.value + int64(e.padded) }
func (e logEntry) end() int64  { return e.crc() + crcSize }

var (
	errEntry = errors.New("not an entry that kist writes")
	errSum   = errors.New("checksum does not match")
)

// isTorn reports whether err is about an incomplete or damaged entry, and not about a failed
// read.
func isTorn(err error) bool {
	return errors.Is(err, errEntry) || errors.Is(err, errSum) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// parseEntry decodes the header and the key of the entry at start. B may be longer.
func parseEntry(b []byte, start int64) (logEntry, error) {
	if len(b) < 2 || b[0] != 0 || b[1] >= minValue {
		return logEntry{}, errEntry
	}
	e := logEntry{start: start, pad: int(b[1])}
	n := 2
	var fields [3]uint64 // key length, value length, expires at
	for i := range fields {
		v, size := binary.Uvarint(b[n:])
		if size <= 0 || size > 1 && v>>(7*(size-1)) == 0 {
			return logEntry{}, errEntry
		}
		fields[i] = v
		n += size
	}
	if fields[0] != uint64(logKeySize) || fields[1] > maxStored || fields[2] != 0 || len(b) < n+logKeySize {
		return logEntry{}, errEntry
	}

	e.padded = int(fields[1])
	e.key.Kind = object.Kind(b[n])
	copy(e.key.ID[:], b[n+1:])
	if !e.key.Kind.Valid() || e.padded < minValue || e.pad != padding(e.stored()) || e.stored() == 0 {
		return logEntry{}, errEntry
	}
	e.value = start + int64(n+logKeySize)
	return e, nil
}

// logWalker reads the headers and keys of the entries of a value log, without the values.
type logWalker struct {
	r      io.ReaderAt
	size   int64
	pos    int64     // of the next entry
	hash   hash.Hash // if not nil, of everything except the values
	last   int       // length of the last value
	buf    []byte
	bufPos int64
}

// newLogWalker returns a walker over a value log of size bytes. It starts at pos, which is
// logHeaderSize or the end of an entry.
func newLogWalker(r io.ReaderAt, size, pos int64) *logWalker {
	return &logWalker{r: r, size: size, pos: pos, buf: make([]byte, 0, 64<<10)}
}

// bytes returns n bytes at pos, or fewer at the end of the file. It reads ahead if values
// are small.
func (w *logWalker) bytes(pos int64, n int) ([]byte, error) {
	n = int(min(int64(n), w.size-pos))
	if n <= 0 {
		return nil, nil
	}
	if pos < w.bufPos || pos+int64(n) > w.bufPos+int64(len(w.buf)) {
		ahead := crcSize + maxEntryHeader + logKeySize
		if w.last < cap(w.buf)/16 {
			ahead = cap(w.buf)
		}
		got, err := w.r.ReadAt(w.buf[:min(int64(max(n, ahead)), w.size-pos)], pos)
		w.buf, w.bufPos = w.buf[:got], pos
		if got < n {
			if err == nil || err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
	return w.buf[pos-w.bufPos:][:n], nil
}

// start reads the header of the log, and adds it to the hash.
func (w *logWalker) start() error {
	b, err := w.bytes(0, logHeaderSize)
	if err == nil && len(b) < logHeaderSize {
		err = io.ErrUnexpectedEOF
	}
	if err == nil && w.hash != nil {
		w.hash.Write(b)
	}
	return err
}

// next returns the next entry, or io.EOF after the last. It returns an error for an
// incomplete or invalid entry.
func (w *logWalker) next() (logEntry, error) {
	if w.pos == w.size {
		return logEntry{}, io.EOF
	}
	b, err := w.bytes(w.pos, maxEntryHeader+logKeySize)
	if err != nil {
		return logEntry{}, err
	}
	e, err := parseEntry(b, w.pos)
	if err != nil {
		return logEntry{}, err
	}
	if e.end() > w.size {
		return logEntry{}, io.ErrUnexpectedEOF
	}

	w.last = e.padded
	if w.hash != nil {
		w.hash.Write(b[:e.value-e.start])
		crc, err := w.bytes(e.crc(), crcSize)
		if err != nil {
			return logEntry{}, err
		}
		w.hash.Write(crc)
	}
	w.pos = e.end()
	return e, nil
}

// rest goes to the end of the log, or to the first entry that is incomplete or invalid, and
// returns an error for that. It stops early if ctx ends.
func (w *logWalker) rest(ctx context.Context) error {
	for w.pos < w.size && ctx.Err() == nil {
		if _, err := w.next(); err != nil {
			return fmt.Errorf("entry at %d: %w", w.pos, err)
		}
	}
	return nil
}

// readEntry reads entry e and verifies its checksum. It returns the stored value, which is
// in buf if that is large enough.
func readEntry(r io.ReaderAt, e logEntry, buf []byte) (value, newBuf []byte, err error) {
	n := int(e.end() - e.start)
	if cap(buf) < n {
		buf = make([]byte, n+n/4)
	}
	buf = buf[:n]
	if got, err := r.ReadAt(buf, e.start); got < n {
		if err == nil || err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, buf, err
	}

	if crc32.Checksum(buf[:n-crcSize], castagnoli) != binary.BigEndian.Uint32(buf[n-crcSize:]) {
		return nil, buf, errSum
	}
	at := int(e.value - e.start)
	for _, b := range buf[at+e.stored() : n-crcSize] {
		if b != 0 {
			return nil, buf, fmt.Errorf("padding: %w", errEntry)
		}
	}
	return buf[at : at+e.stored()], buf, nil
}

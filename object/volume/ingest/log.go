package ingest

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"math"
	"os"
	"syscall"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/frame"
)

// A value log of Badger 4 has a header of 20 bytes, then entries:
//
//	meta, user meta         1 byte each
//	key, value length       uvarint
//	expires at              uvarint
//	key                     kind, ID, then the transaction's number
//	value                   a stored value (package frame), zero bytes up to MaxPadding
//	checksum                CRC-32C of the entry before the checksum
//
// User meta is the number of zero bytes that follow the stored value.
const (
	LogHeaderSize = 20 // bytes before the first entry

	keySize        = 1 + len(object.ID{})
	logKeySize     = keySize + 8
	maxEntryHeader = 2 + 1 + 5 + 1
	crcSize        = 4

	// MaxPadding is more than the number of bytes that [Pad] adds. It is Badger's value
	// threshold: Badger would keep shorter values in its tables.
	MaxPadding = 32

	// MaxStored is the largest size of a stored value.
	MaxStored = object.MaxChunkSize + frame.MaxOverhead
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// EntrySize returns the size of an entry with a stored value of n bytes.
func EntrySize(n int) int64 {
	padded := n + padding(n)
	size := 2 + 1 + 1 + logKeySize + padded + crcSize
	for v := uint(padded); ; v >>= 7 {
		size++
		if v < 0x80 {
			return int64(size)
		}
	}
}

// padding returns the number of zero bytes that follow a stored value of n bytes.
func padding(n int) int { return max(0, MaxPadding-n) }

// Pad appends the zero bytes that follow a stored value.
func Pad(value []byte) []byte { return append(value, make([]byte, padding(len(value)))...) }

// encodeKey returns the key of an object in the database.
func encodeKey(key object.Key) []byte {
	return append([]byte{byte(key.Kind)}, key.ID[:]...)
}

// Entry is an entry of a value log.
type Entry struct {
	Key    object.Key
	Start  int64 // offset of the entry in the file
	Value  int64 // offset of its value
	padded int   // length of the value, padding included
	pad    int
}

// NewEntry returns the entry of a stored value at an offset.
func NewEntry(key object.Key, value int64, stored int) Entry {
	e := Entry{Key: key, Value: value, pad: padding(stored)}
	e.padded = stored + e.pad
	e.Start = e.End() - EntrySize(stored)
	return e
}

// Stored returns the number of bytes of the stored value.
func (e Entry) Stored() int { return e.padded - e.pad }

func (e Entry) checksumAt() int64 { return e.Value + int64(e.padded) }

// End returns the offset of the end of the entry.
func (e Entry) End() int64 { return e.checksumAt() + crcSize }

// IsPossible reports whether a log may have the entry: its place is not before the first
// one, and its value is not too long.
func (e Entry) IsPossible() bool { return e.Start >= LogHeaderSize && e.padded <= MaxStored }

// Errors for the bytes of an entry.
var (
	ErrEntry = errors.New("not an entry that kist writes")
	ErrSum   = errors.New("checksum does not match")
)

// isTorn reports whether err is about an incomplete or damaged entry, and not about a failed
// read.
func isTorn(err error) bool {
	return errors.Is(err, ErrEntry) || errors.Is(err, ErrSum) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// parseEntry decodes the header and the key of the entry at start. B may be longer.
func parseEntry(b []byte, start int64) (Entry, error) {
	if len(b) < 2 || b[0] != 0 || b[1] >= MaxPadding {
		return Entry{}, ErrEntry
	}
	e := Entry{Start: start, pad: int(b[1])}
	n := 2
	var fields [3]uint64 // key length, value length, expires at
	for i := range fields {
		v, size := binary.Uvarint(b[n:])
		if size <= 0 || size > 1 && v>>(7*(size-1)) == 0 {
			return Entry{}, ErrEntry
		}
		fields[i] = v
		n += size
	}
	if fields[0] != uint64(logKeySize) || fields[1] > MaxStored || fields[2] != 0 || len(b) < n+logKeySize {
		return Entry{}, ErrEntry
	}

	e.padded = int(fields[1])
	e.Key.Kind = object.Kind(b[n])
	copy(e.Key.ID[:], b[n+1:])
	if !e.Key.Kind.Valid() || e.padded < MaxPadding || e.pad != padding(e.Stored()) || e.Stored() == 0 {
		return Entry{}, ErrEntry
	}
	e.Value = start + int64(n+logKeySize)
	return e, nil
}

// LogWalker reads the headers and keys of the entries of a value log, without the values.
type LogWalker struct {
	r      io.ReaderAt
	size   int64
	pos    int64     // of the next entry
	hash   hash.Hash // if not nil, of everything except the values
	last   int       // length of the last value
	buf    []byte
	bufPos int64
}

// NewLogWalker returns a walker over the entries of a value log of size bytes.
func NewLogWalker(r io.ReaderAt, size int64) *LogWalker {
	return &LogWalker{r: r, size: size, pos: LogHeaderSize, buf: make([]byte, 0, 64<<10)}
}

// NewHashingWalker is NewLogWalker for a walker that also makes the checksum of the log. The
// error is about the header of the log; the walker can be used in spite of it.
func NewHashingWalker(r io.ReaderAt, size int64) (*LogWalker, error) {
	w := NewLogWalker(r, size)
	w.hash = sha256.New()
	b, err := w.bytesAt(0, LogHeaderSize)
	if err == nil && len(b) < LogHeaderSize {
		err = io.ErrUnexpectedEOF
	}
	if err == nil {
		w.hash.Write(b)
	}
	return w, err
}

// Sum returns the checksum of everything that a hashing walker has passed, except the values.
func (w *LogWalker) Sum() [sha256.Size]byte { return [sha256.Size]byte(w.hash.Sum(nil)) }

// Pos returns the offset of the next entry.
func (w *LogWalker) Pos() int64 { return w.pos }

// GoTo continues the walk after e, in the bounds of the log.
func (w *LogWalker) GoTo(e Entry) { w.pos = min(max(e.End(), LogHeaderSize), w.size) }

// bytesAt returns n bytes at pos, or fewer at the end of the file. It reads ahead if values
// are small.
func (w *LogWalker) bytesAt(pos int64, n int) ([]byte, error) {
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

// NextEntry returns the next entry, or io.EOF after the last. It returns an error for an
// incomplete or invalid entry.
func (w *LogWalker) NextEntry() (Entry, error) {
	if w.pos == w.size {
		return Entry{}, io.EOF
	}
	b, err := w.bytesAt(w.pos, maxEntryHeader+logKeySize)
	if err != nil {
		return Entry{}, err
	}
	e, err := parseEntry(b, w.pos)
	if err != nil {
		return Entry{}, err
	}
	if e.End() > w.size {
		return Entry{}, io.ErrUnexpectedEOF
	}

	w.last = e.padded
	if w.hash != nil {
		w.hash.Write(b[:e.Value-e.Start])
		crc, err := w.bytesAt(e.checksumAt(), crcSize)
		if err != nil {
			return Entry{}, err
		}
		w.hash.Write(crc)
	}
	w.pos = e.End()
	return e, nil
}

// WalkRest passes the rest of the log. It returns an error for the first entry that is incomplete
// or invalid. It stops early if ctx ends.
func (w *LogWalker) WalkRest(ctx context.Context) error {
	for w.pos < w.size && ctx.Err() == nil {
		if _, err := w.NextEntry(); err != nil {
			return fmt.Errorf("entry at %d: %w", w.pos, err)
		}
	}
	return nil
}

// unreadable is the number of bytes that Resync skips after a failed read.
const unreadable = 4096

// Resync continues at the next offset after pos at which an entry may begin, or at the end.
func (w *LogWalker) Resync(pos int64) {
	w.last = 0 // makes bytesAt read ahead
	for pos++; pos < w.size; pos++ {
		b, err := w.bytesAt(pos, maxEntryHeader+logKeySize)
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			pos |= unreadable - 1
			continue
		}
		if err != nil {
			break // the file became shorter
		}
		if e, err := parseEntry(b, pos); err == nil && e.End() <= w.size {
			w.pos = pos
			return
		}
	}
	w.pos = w.size
}

// WalkIntact calls each for the entries of a value log up to the first torn or unreadable
// one, and returns the offset of that.
func WalkIntact(ctx context.Context, f *os.File, size int64, each func(Entry) error) (end int64, err error) {
	walk := NewLogWalker(f, min(size, math.MaxUint32))
	for {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		end := walk.pos
		e, err := walk.NextEntry()
		if err == nil {
			err = each(e)
		}
		if isTorn(err) || errors.Is(err, syscall.EIO) {
			return end, nil
		}
		if err != nil {
			return 0, err
		}
	}
}

// ReadEntry reads entry e and verifies its checksum. It returns the stored value, which is
// in buf if that is large enough.
func ReadEntry(r io.ReaderAt, e Entry, buf []byte) (value, newBuf []byte, err error) {
	n := int(e.End() - e.Start)
	if cap(buf) < n {
		buf = make([]byte, n+n/4)
	}
	buf = buf[:n]
	if got, err := r.ReadAt(buf, e.Start); got < n {
		if err == nil || err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, buf, err
	}

	if crc32.Checksum(buf[:n-crcSize], castagnoli) != binary.BigEndian.Uint32(buf[n-crcSize:]) {
		return nil, buf, ErrSum
	}
	at := int(e.Value - e.Start)
	for _, b := range buf[at+e.Stored() : n-crcSize] {
		if b != 0 {
			return nil, buf, fmt.Errorf("padding: %w", ErrEntry)
		}
	}
	return buf[at : at+e.Stored()], buf, nil
}

package pack

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/keys"
	"github.com/kist-vcs/kist/remote"
)

// Writer builds one pack in memory. It is not safe for concurrent use.
type Writer struct {
	buf      []byte // header, values; once finished the rest of the pack too
	values   int    // where the values end in buf
	records  []keys.Record
	finished bool
}

// buffer is an io.Writer that appends.
type buffer []byte

func (b *buffer) Write(p []byte) (int, error) {
	*b = append(*b, p...)
	return len(p), nil
}

// NewWriter returns a writer that builds its pack in the storage of buf, which
// it takes over, or in more if that is too small: most packs are a little
// larger than TargetSize.
func NewWriter(buf []byte) *Writer {
	w := &Writer{buf: buf}
	w.Reset()
	return w
}

// Reset begins a new pack in the same storage. What Finish returned as body is
// then gone.
func (w *Writer) Reset() {
	w.buf = remote.AppendHeader(w.buf[:0], remote.TypePack)
	w.values = len(w.buf)
	w.records, w.finished = w.records[:0], false
}

// Add adds the stored value (package object/frame) of an object of raw bytes.
// It is copied as it is. A key must be added once only, which Finish checks. It
// is an error if the pack would be larger than MaxSize: see [Writer.Full].
func (w *Writer) Add(key object.Key, value []byte, raw int) error {
	if w.finished {
		return errFinished
	}
	if err := checkValue(key.Kind, len(value), raw); err != nil {
		return fmt.Errorf("add to pack: %w", err)
	}
	if w.size(1, len(value)) > MaxSize {
		return fmt.Errorf("add to pack: %s of %d bytes does not fit", key, len(value))
	}
	w.records = append(w.records, keys.Record{Key: key, Offset: uint32(w.values), Stored: uint32(len(value)), Raw: uint32(raw)})
	w.buf = append(w.buf[:w.values], value...)
	w.values = len(w.buf)
	return nil
}

// Len returns the number of objects added.
func (w *Writer) Len() int { return len(w.records) }

// Size returns how many bytes the pack would have if it were finished now.
func (w *Writer) Size() int { return w.size(0, 0) }

// size returns the pack's size with n more objects of so many stored bytes.
func (w *Writer) size(n, stored int) int {
	return int(SizeOf(len(w.records)+n, int64(w.values-remote.HeaderSize+stored)))
}

// Full reports whether the pack is to be finished before another stored value
// of next bytes is added: it has reached TargetSize, or there is no room.
func (w *Writer) Full(next int) bool {
	return w.Len() > 0 && (w.Size() >= TargetSize || w.size(1, next) > MaxSize)
}

// Finish completes the pack and returns it with the entries of its objects,
// sorted by key. Body is the writer's; entries are the caller's. A pack has at
// least one object. All that can be done then is Reset, or to Finish again with
// another name, for another attempt, after which the former body is gone.
func (w *Writer) Finish(name Name) (body []byte, entries []Entry, err error) {
	switch {
	case w.Len() == 0:
		return nil, nil, errors.New("finish pack: it is empty")
	case name.IsZero():
		return nil, nil, errors.New("finish pack: it has no name")
	}
	slices.SortFunc(w.records, func(a, b keys.Record) int { return a.Key.Compare(b.Key) })
	body = slices.Grow(w.buf[:w.values], w.Size()-w.values)
	start := len(body)
	index := keys.NewWriter((*buffer)(&body))
	for _, rec := range w.records {
		if err := index.Add(rec); err != nil {
			return nil, nil, fmt.Errorf("finish pack: %w", err)
		}
	}
	if err := index.Finish(); err != nil {
		return nil, nil, fmt.Errorf("finish pack: %w", err)
	}
	body = appendTrailer(body, name, start)
	w.buf, w.finished = body, true
	entries = make([]Entry, len(w.records))
	for i, rec := range w.records {
		entries[i] = entryOf(rec, Info{Name: name, Size: uint32(len(body))})
	}
	return body, entries, nil
}

var errFinished = errors.New("the pack is finished")

// appendTrailer appends the trailer of a pack whose index begins at start and
// ends where dst does.
func appendTrailer(dst []byte, name Name, start int) []byte {
	end := len(dst)
	dst = append(dst, name[:]...)
	dst = binary.BigEndian.AppendUint32(dst, uint32(start))
	dst = binary.BigEndian.AppendUint32(dst, uint32(end-start))
	dst = binary.BigEndian.AppendUint32(dst, crc32.Checksum(dst[end:], castagnoli))
	return append(dst, packMagic...)
}

func entryOf(rec keys.Record, pack Info) Entry {
	return Entry{Key: rec.Key, Pack: pack, Offset: rec.Offset, Stored: rec.Stored, Raw: rec.Raw}
}

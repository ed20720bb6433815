package pack

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/frame"
	"github.com/kist-vcs/kist/object/keys"
	"github.com/kist-vcs/kist/remote"
)

// Writer builds one pack in memory. It is not safe for concurrent use.
type Writer struct {
	buf      []byte // header and values; after Finish the complete pack
	values   int    // end of the values in buf
	records  []keys.Record
	finished bool
	limit    int // largest size of a pack, in bytes

	takesPatches bool
	bases        map[object.Key]added // possible bases, if it takes patches
}

// added is an object in the pack.
type added struct {
	record int
	depth  uint8 // number of patches in its chain, with itself
}

// buffer is an io.Writer that appends.
type buffer []byte

func (b *buffer) Write(p []byte) (int, error) {
	*b = append(*b, p...)
	return len(p), nil
}

// NewWriter returns a writer that builds its pack in the memory of buf, or in
// more if that is too small: most packs are a little larger than TargetSize.
// The writer owns buf from then on.
func NewWriter(buf []byte) *Writer {
	w := &Writer{buf: buf, limit: MaxSize}
	w.Reset()
	return w
}

// SetLimit makes [Writer.Full] end this and later packs before an object with which they would be
// larger than limit bytes. It is at most MaxSize.
func (w *Writer) SetLimit(limit int) { w.limit = min(limit, MaxSize) }

// Reset begins a new pack in the same memory. It overwrites the body that
// Finish returned.
func (w *Writer) Reset() { w.reset(remote.Version1) }

// ResetForPatches is Reset for a pack of version 2, which may have patches. The
// writer then needs about 60 bytes more for each object.
func (w *Writer) ResetForPatches() {
	w.reset(remote.Version2)
	w.takesPatches = true
	if w.bases == nil {
		w.bases = map[object.Key]added{}
	}
}

func (w *Writer) reset(version uint8) {
	w.buf = remote.AppendHeader(w.buf[:0], remote.TypePack, version)
	w.values = len(w.buf)
	w.records, w.finished, w.takesPatches = w.records[:0], false, false
	clear(w.bases)
}

// TakesPatch reports whether a patch on base can be added: the pack may have
// patches and contains base, base is small enough, and its chain is short
// enough.
func (w *Writer) TakesPatch(base object.Key) bool {
	b, ok := w.bases[base]
	return ok && !w.finished && b.depth < MaxChain && w.records[b.record].Raw <= frame.MaxPatch
}

// Add adds the stored value (package object/frame) of an object of raw bytes.
// It copies the value unchanged, except for a patch, which names its base by
// ID: Add turns it into a near patch, which is at least 20 bytes shorter. It
// returns an error for a patch that [Writer.TakesPatch] refuses, for a near
// patch, and if the pack would be larger than MaxSize: see [Writer.Full]. It
// does not decode the value. Each key may be added only once; Finish checks
// this.
func (w *Writer) Add(key object.Key, value []byte, raw int) error {
	if w.finished {
		return errFinished
	}
	if err := checkValue(key.Kind, len(value), raw); err != nil {
		return fmt.Errorf("add to pack: %w", err)
	}
	if w.sizeWith(1, len(value)) > MaxSize {
		return fmt.Errorf("add to pack: %s of %d bytes does not fit", key, len(value))
	}

	depth, err := w.appendValue(key, value)
	if err != nil {
		return fmt.Errorf("add to pack: %s: %w", key, err)
	}
	if w.takesPatches {
		w.bases[key] = added{len(w.records), depth}
	}

	w.records = append(w.records, keys.Record{Key: key, Offset: uint32(w.values), Stored: uint32(len(w.buf) - w.values), Raw: uint32(raw)})
	w.values = len(w.buf)
	return nil
}

// appendValue appends a value to the pack and returns the number of patches in its
// chain.
func (w *Writer) appendValue(key object.Key, value []byte) (depth uint8, err error) {
	w.buf = w.buf[:w.values]
	if frame.IsNear(value) {
		return 0, errors.New("a near patch names its base by the place in another pack")
	}

	id, patched := frame.Base(value)
	if !patched {
		w.buf = append(w.buf, value...)
		return 0, nil
	}

	base := object.Key{Kind: key.Kind, ID: id}
	if !w.TakesPatch(base) {
		return 0, fmt.Errorf("no patch of %s can be here", base)
	}

	b := w.bases[base]
	rec := &w.records[b.record]
	w.buf, err = frame.AppendNear(w.buf, value, frame.Near{Distance: w.values - int(rec.Offset), Stored: int(rec.Stored), Raw: int(rec.Raw)})
	return b.depth + 1, err
}

// Len returns the number of objects added.
func (w *Writer) Len() int { return len(w.records) }

// HasNodes reports whether the pack has objects that are no chunks.
func (w *Writer) HasNodes() bool {
	return slices.ContainsFunc(w.records, func(r keys.Record) bool { return r.Key.Kind.IsNode() })
}

// Size returns the size of the pack, in bytes, if it were finished now.
func (w *Writer) Size() int { return w.sizeWith(0, 0) }

// sizeWith returns the pack's size with n more objects of stored bytes in total.
func (w *Writer) sizeWith(n, stored int) int {
	return int(SizeOf(len(w.records)+n, int64(w.values-remote.HeaderSize+stored)))
}

// Full reports whether to finish the pack before a stored value of next bytes
// is added: it has reached TargetSize, or there is no room within its limit.
func (w *Writer) Full(next int) bool {
	return w.Len() > 0 && (w.Size() >= TargetSize || w.sizeWith(1, next) > w.limit)
}

// Finish completes the pack and returns it with the entries of its objects,
// sorted by key. The writer owns body; the caller owns entries. The pack must
// have at least one object. Afterwards only Reset may be called, or Finish
// with another name for another attempt, which overwrites body.
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
	if err := keys.Write((*buffer)(&body), len(w.records), slices.Values(w.records)); err != nil {
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

// Rename gives a complete pack another name. Body is that of [Writer.Finish], or was accepted by [ReadIndex]. Only its
// trailer has the name.
func Rename(body []byte, name Name) {
	trailer := body[len(body)-trailerSize:]
	copy(trailer, name[:])
	sum := trailer[nameSize+8:]
	binary.BigEndian.PutUint32(sum, crc32.Checksum(trailer[:nameSize+8], castagnoli))
}

func entryOf(rec keys.Record, pack Info) Entry {
	return Entry{Key: rec.Key, Pack: pack, Offset: rec.Offset, Stored: rec.Stored, Raw: rec.Raw}
}

// tailSize is how many bytes of a pack's end are read first: enough for the
// index of a thousand objects.
const tailSize = 64 << 10

// ReadIndex returns the entries of the pack info.Name, of info.Size bytes,
// sorted by key, from the pack's own index. It checks all of the pack except
// the values. Get reads the pack as [remote.Blobs] does: it returns fewer
// bytes only at the end of the pack. The error matches [ErrDamaged] if the
// pack is damaged or another pack. Errors of get are returned unchanged.
// Memory is bounded by the size of the pack.
func ReadIndex(info Info, get func(p []byte, off int64) (int, error)) ([]Entry, error) {
	if err := info.checkInfo(); err != nil {
		return nil, damageIn(info.Name, "size", err)
	}
	if _, err := (&packReader{info: info, get: get}).readVersion(); err != nil {
		return nil, err
	}
	return ReadIndexOnly(info, tailSize, get)
}

// ReadIndexOnly is [ReadIndex] without the check of the header. It first reads about as many bytes of the end as the caller expects
// the index to have: then it takes one read.
func ReadIndexOnly(info Info, expected int, get func(p []byte, off int64) (int, error)) ([]Entry, error) {
	p := &packReader{info: info, get: get}
	if err := info.checkInfo(); err != nil {
		return nil, damageIn(p.info.Name, "size", err)
	}

	size := int(info.Size)
	tail := make([]byte, min(max(expected, trailerSize), size-remote.HeaderSize))
	if err := p.readFull("trailer", tail, size-len(tail)); err != nil {
		return nil, err
	}

	start, err := p.parseTrailer(tail[len(tail)-trailerSize:])
	if err != nil {
		return nil, damageIn(p.info.Name, "trailer", err)
	}

	index := tail[:len(tail)-trailerSize]
	if want := size - trailerSize - start; want > len(index) {
		before := make([]byte, want, want+trailerSize)
		if err := p.readFull("index", before[:want-len(index)], start); err != nil {
			return nil, err
		}
		copy(before[want-len(index):], index)
		index = before
	} else {
		index = index[len(index)-want:]
	}

	return p.parseIndex(index, start)
}

// IsRepacked reports whether a pack may have patches, because it was begun by
// [Writer.ResetForPatches]. It reads only the header. Get and errors are the
// same as for [ReadIndex].
func IsRepacked(info Info, get func(p []byte, off int64) (int, error)) (bool, error) {
	p := &packReader{info: info, get: get}
	version, err := p.readVersion()
	return version == remote.Version2, err
}

// packReader reads a pack.
type packReader struct {
	info Info
	get  func(p []byte, off int64) (int, error)
}

// readFull reads all of b at off.
func (p *packReader) readFull(part string, b []byte, off int) error {
	n, err := p.get(b, int64(off))
	if err == nil && n < len(b) {
		err = damageIn(p.info.Name, part, fmt.Errorf("the pack ends after %d of %d bytes", off+n, p.info.Size))
	}
	return err
}

// readVersion checks the pack's header and returns its version.
func (p *packReader) readVersion() (uint8, error) {
	header := make([]byte, remote.HeaderSize)
	if err := p.readFull("header", header, 0); err != nil {
		return 0, err
	}
	if err := remote.CheckHeader(header, remote.TypePack); err != nil {
		return 0, damageIn(p.info.Name, "header", err)
	}
	return remote.HeaderVersion(header), nil
}

// parseTrailer returns the offset of the index.
func (p *packReader) parseTrailer(t []byte) (start int, err error) {
	const sum = nameSize + 8
	offset, length := binary.BigEndian.Uint32(t[nameSize:]), binary.BigEndian.Uint32(t[nameSize+4:])
	switch {
	case string(t[sum+4:]) != packMagic:
		return 0, errEnd
	case crc32.Checksum(t[:sum], castagnoli) != binary.BigEndian.Uint32(t[sum:]):
		return 0, errChecksum
	case Name(t[:nameSize]) != p.info.Name:
		return 0, fmt.Errorf("this is pack %s", Name(t[:nameSize]))
	case offset < remote.HeaderSize, uint64(offset)+uint64(length)+trailerSize != uint64(p.info.Size):
		return 0, fmt.Errorf("%d bytes of index at %d", length, offset)
	}

	return int(offset), nil
}

// parseIndex returns the entries of the index, which begins at start.
func (p *packReader) parseIndex(index []byte, start int) ([]Entry, error) {
	x, err := keys.Open(bytes.NewReader(index), int64(len(index)))
	if err == nil {
		err = x.Verify()
	}
	if err != nil {
		return nil, damageIn(p.info.Name, "index", err)
	}

	entries := make([]Entry, 0, x.Len())
	for rec, err := range x.All() {
		e := entryOf(rec, p.info)
		if err == nil && rec.File != 0 {
			err = fmt.Errorf("%s is in file %d", rec.Key, rec.File)
		}
		if err == nil {
			err = e.checkEntry()
		}
		if err != nil {
			return nil, damageIn(p.info.Name, "index", err)
		}
		entries = append(entries, e)
	}
	if err := checkGapless(entries, start); err != nil {
		return nil, damageIn(p.info.Name, "index", err)
	}

	return entries, nil
}

// checkGapless checks that the values follow each other without gaps, from the
// header up to end.
func checkGapless(entries []Entry, end int) error {
	pos := uint32(remote.HeaderSize)
	for _, e := range byOffset(entries) {
		if e.Offset != pos {
			return fmt.Errorf("%s is at %d, and the value before it ends at %d", e.Key, e.Offset, pos)
		}
		pos += e.Stored
	}
	if int(pos) != end {
		return errors.New("the values do not end where the index begins")
	}
	return nil
}

// byOffset returns entries of one pack sorted by offset.
func byOffset(entries []Entry) []Entry {
	sorted := slices.Clone(entries)
	slices.SortFunc(sorted, func(a, b Entry) int { return int(a.Offset) - int(b.Offset) })
	return sorted
}

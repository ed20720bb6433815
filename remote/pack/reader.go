package pack

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/kist-vcs/kist/object/keys"
	"github.com/kist-vcs/kist/remote"
)

// tailSize is how many bytes of a pack's end are read first: enough for the
// index of a thousand objects.
const tailSize = 64 << 10

// ReadIndex returns the entries of the pack info.Name, of info.Size bytes,
// sorted by key, from the pack's own index. It checks all of the pack except
// the values. Get reads the pack as [remote.Blobs] does: it returns fewer
// bytes only at the end of the pack. The error is a [*CorruptError] if the
// pack is damaged or another pack. Errors of get are returned unchanged.
// Memory is bounded by the size of the pack.
func ReadIndex(info Info, get func(p []byte, off int64) (int, error)) ([]Entry, error) {
	p := &packReader{info: info, get: get}
	if err := info.check(); err != nil {
		return nil, p.corrupt("size", err)
	}
	if _, err := p.version(); err != nil {
		return nil, err
	}

	size := int(info.Size)
	tail := make([]byte, min(tailSize, size-remote.HeaderSize))
	if err := p.read("trailer", tail, size-len(tail)); err != nil {
		return nil, err
	}

	start, err := p.parseTrailer(tail[len(tail)-trailerSize:])
	if err != nil {
		return nil, p.corrupt("trailer", err)
	}

	index := tail[:len(tail)-trailerSize]
	if want := size - trailerSize - start; want > len(index) {
		before := make([]byte, want, want+trailerSize)
		if err := p.read("index", before[:want-len(index)], start); err != nil {
			return nil, err
		}
		copy(before[want-len(index):], index)
		index = before
	} else {
		index = index[len(index)-want:]
	}

	return p.parseIndex(index, start)
}

// Optimised reports whether a pack may have patches, because it was begun by
// [Writer.ResetOptimised]. It reads only the header. Get and errors are the
// same as for [ReadIndex].
func Optimised(info Info, get func(p []byte, off int64) (int, error)) (bool, error) {
	p := &packReader{info: info, get: get}
	version, err := p.version()
	return version == remote.Version2, err
}

// packReader reads a pack.
type packReader struct {
	info Info
	get  func(p []byte, off int64) (int, error)
}

func (p *packReader) corrupt(part string, err error) error {
	return &CorruptError{Pack: p.info.Name, Part: part, Err: err}
}

// read reads all of b at off.
func (p *packReader) read(part string, b []byte, off int) error {
	n, err := p.get(b, int64(off))
	if err == nil && n < len(b) {
		err = p.corrupt(part, fmt.Errorf("the pack ends after %d of %d bytes", off+n, p.info.Size))
	}
	return err
}

// version checks the pack's header and returns its version.
func (p *packReader) version() (uint8, error) {
	header := make([]byte, remote.HeaderSize)
	if err := p.read("header", header, 0); err != nil {
		return 0, err
	}
	if err := remote.CheckHeader(header, remote.TypePack); err != nil {
		return 0, p.corrupt("header", err)
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
		return nil, p.corrupt("index", err)
	}

	entries := make([]Entry, 0, x.Len())
	for rec, err := range x.All() {
		e := entryOf(rec, p.info)
		if err == nil && rec.File != 0 {
			err = fmt.Errorf("%s is in file %d", rec.Key, rec.File)
		}
		if err == nil {
			err = e.check()
		}
		if err != nil {
			return nil, p.corrupt("index", err)
		}
		entries = append(entries, e)
	}
	if err := checkGapless(entries, start); err != nil {
		return nil, p.corrupt("index", err)
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

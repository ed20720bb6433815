package keys

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"sort"

	"github.com/kist-vcs/kist/object"
)

// layout has the places of the records in an index, which follow from its trailer.
type layout struct {
	n     int            // records
	start [kinds + 1]int // number of the first record of each kind
	tcrc  uint32         // checksum of the table
	fcrc  uint32         // checksum of the filter
}

// checkHeader checks the header of an index.
func checkHeader(header []byte) error {
	switch {
	case string(header[:magicLen]) != magic:
		return errors.New("this is no index")
	case header[magicLen] > Version:
		return fmt.Errorf("version %d: %w", header[magicLen], object.ErrNewerFormat)
	case header[magicLen] != Version:
		return fmt.Errorf("unknown version %d", header[magicLen])
	case [headerSize - magicLen - 1]byte(header[magicLen+1:]) != [headerSize - magicLen - 1]byte{}:
		return errors.New("reserved bytes are not zero")
	}
	return nil
}

// parseTrailer returns the layout of an index of size bytes. The error is a [*CorruptError].
func parseTrailer(t []byte, size int64) (l layout, err error) {
	const sums = kinds * 8
	switch {
	case string(t[sums+12:]) != magic:
		return l, &CorruptError{Part: "trailer", Err: errors.New("the magic at the end is wrong")}
	case crc32.Checksum(t[:sums+8], castagnoli) != binary.BigEndian.Uint32(t[sums+8:]):
		return l, &CorruptError{Part: "trailer", Err: errChecksum}
	}

	for k := range kinds {
		count := binary.BigEndian.Uint64(t[k*8:])
		if count > MaxRecords || uint64(l.n)+count > MaxRecords {
			return l, &CorruptError{Part: "trailer", Err: errors.New("too many records")}
		}
		l.n += int(count)
		l.start[k+1] = l.n
	}

	l.tcrc, l.fcrc = binary.BigEndian.Uint32(t[sums:]), binary.BigEndian.Uint32(t[sums+4:])
	if _, _, _, _, want := sections(int64(l.n)); want != size {
		return l, &CorruptError{Part: "size", Err: fmt.Errorf("%d bytes, want %d for %d records", size, want, l.n)}
	}
	return l, nil
}

// hasSum reports whether the checksum at the end of a block matches.
func hasSum(block []byte) bool {
	n := len(block) - 4
	return crc32.Checksum(block[:n], castagnoli) == binary.BigEndian.Uint32(block[n:])
}

// Len returns the number of records.
func (l *layout) Len() int { return l.n }

// blockLen returns the number of records of block b.
func (l *layout) blockLen(b int) int { return min(blockRecords, l.n-b*blockRecords) }

// blocksOf returns the first and the last block with records of kind k, which must have some.
func (l *layout) blocksOf(k object.Kind) (first, last int) {
	return l.start[k-1] / blockRecords, (l.start[k] - 1) / blockRecords
}

// hasKind reports whether there are records of kind k.
func (l *layout) hasKind(k object.Kind) bool { return k.Valid() && l.start[k] > l.start[k-1] }

// kindOf returns the kind of record i.
func (l *layout) kindOf(i int) object.Kind {
	k := 1
	for i >= l.start[k] {
		k++
	}
	return object.Kind(k)
}

// decodeRecord decodes record i from its bytes.
func (l *layout) decodeRecord(i int, b []byte) Record {
	r := Record{
		File:   binary.BigEndian.Uint32(b[32:]),
		Offset: binary.BigEndian.Uint32(b[36:]),
		Stored: binary.BigEndian.Uint32(b[40:]),
		Raw:    binary.BigEndian.Uint32(b[44:]),
		Index:  i,
	}
	r.Key.Kind = l.kindOf(i)
	copy(r.Key.ID[:], b)
	return r
}

// lowerBound returns the number of the first record of kind k in block b that is not before
// id, or one past the last. Recs has the records of the block.
func (l *layout) lowerBound(b int, recs []byte, k object.Kind, id *object.ID) int {
	base := b * blockRecords
	lo, hi := max(0, l.start[k-1]-base), min(l.start[k]-base, len(recs)/recordSize)
	return base + lo + sort.Search(hi-lo, func(i int) bool {
		return bytes.Compare(recs[(lo+i)*recordSize:][:len(id)], id[:]) >= 0
	})
}

// recordFrom returns record i of kind k from block b, if it has the ID and is in the block.
func (l *layout) recordFrom(b int, recs []byte, i int, key object.Key) (Record, bool) {
	at := (i - b*blockRecords) * recordSize
	if i >= l.start[key.Kind] || at >= len(recs) || object.ID(recs[at:at+len(key.ID)]) != key.ID {
		return Record{}, false
	}
	return l.decodeRecord(i, recs[at:]), true
}

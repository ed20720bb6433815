package index

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
)

// The files are described in docs/format/index.md.
const (
	version = 1
	magic   = "kistidx\n"

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
)

type newerError struct{ version int }

func (e *newerError) Error() string { return "newer format" }

// appendHeader appends the header, which is the same in every version.
func appendHeader(dst []byte, kind byte) []byte {
	start := len(dst)
	dst = append(dst, magic...)
	dst = append(dst, kind, version, 0, 0)
	return binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst[start:], castagnoli))
}

// checkHeader checks a header and returns its checksum.
func checkHeader(b []byte, kind byte) (uint32, error) {
	sum := binary.LittleEndian.Uint32(b[12:])
	switch {
	case string(b[:8]) != magic:
		return 0, errMagic
	case crc32.Checksum(b[:12], castagnoli) != sum:
		return 0, errChecksum
	case b[8] != kind:
		return 0, errMagic
	case b[9] > version:
		return 0, &newerError{int(b[9])}
	case b[9] != version || b[10] != 0 || b[11] != 0:
		return 0, errCanonical
	}
	return sum, nil
}

// blockSum returns the checksum of a block: of the one before it, the length
// and the payload, so that blocks cannot change places.
func blockSum(before uint32, payload []byte) uint32 {
	var b [8]byte
	binary.LittleEndian.PutUint32(b[:], before)
	binary.LittleEndian.PutUint32(b[4:], uint32(len(payload)))
	return crc32.Update(crc32.Checksum(b[:], castagnoli), castagnoli, payload)
}

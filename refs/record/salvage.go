package record

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"hash"
	"math/bits"
	"regexp"

	"github.com/fxamacker/cbor/v2"

	"github.com/kist-vcs/kist/object"
)

// Salvage returns the readable records of a damaged file. If only one bit has
// changed, and the file is not too large, exact is true and the set is
// complete: the checksum proves it. Otherwise records may be missing, and a
// record may differ from the original, because it has no checksum of its own.
// The set is empty if the file is too long for a file of records. The caller
// owns the set.
func (s *Store) Salvage() (set *Set, exact bool, err error) {
	data, err := s.read()
	if errors.Is(err, object.ErrCorrupt) { // too long
		return (&Set{}).Clone(), false, nil
	}
	if err != nil {
		return nil, false, err
	}
	set, exact = salvage(data)
	return set, exact, nil
}

func salvage(data []byte) (set *Set, exact bool) {
	if mended := mendBit(data); mended != nil {
		if set, err := decodeFile(mended); err == nil {
			return set, true
		}
	}
	return readableRecords(data), false
}

// maxMendable is the size of the largest file that mendBit tries, in bytes.
// The time grows with the square of the size, and is some seconds at this
// size.
const maxMendable = 32 << 10

// mendBit returns the file with a right checksum that differs from data in one
// bit, or nil.
func mendBit(data []byte) []byte {
	end := len(data) - sha256.Size
	if end < 0 || len(data) > maxMendable {
		return nil
	}

	mended := bytes.Clone(data)
	sum := sha256.Sum256(data[:end])
	if differentBits(sum[:], data[end:]) == 1 {
		return append(mended[:end], sum[:]...)
	}

	const block = 1 << 10 // the blocks before are hashed only once
	before := sha256.New()
	for start := 0; start < end; start += block {
		for bit := 8 * start; bit < 8*min(start+block, end); bit++ {
			mended[bit/8] ^= 1 << (bit % 8)
			if bytes.Equal(sumAfter(before, mended[start:end]), data[end:]) {
				return mended
			}
			mended[bit/8] ^= 1 << (bit % 8)
		}
		before.Write(data[start:min(start+block, end)])
	}

	return nil
}

// sumAfter returns the hash of the bytes written to before and of data.
func sumAfter(before hash.Hash, data []byte) []byte {
	h, err := before.(hash.Cloner).Clone()
	if err != nil {
		panic(err) // impossible for SHA-256
	}
	h.Write(data)
	return h.Sum(nil)
}

func differentBits(a, b []byte) (n int) {
	for i := range a {
		n += bits.OnesCount8(a[i] ^ b[i])
	}
	return n
}

// names matches possible names of records.
var names = regexp.MustCompile(`(?:hold|expire|purge/chunk|purge/manifest)/[0-9a-f]{64}`)

// maxValue is larger than the value of any record, in bytes.
const maxValue = 4*MaxText + 1<<10

// readableRecords returns the decodable records in data: names directly
// followed by their values.
func readableRecords(data []byte) *Set {
	set := (&Set{}).Clone()
	for {
		at := names.FindIndex(data)
		if at == nil {
			return set
		}
		name := string(data[at[0]:at[1]])
		data = data[at[1]:]
		var value cbor.ByteString
		if _, err := decoding.UnmarshalFirst(data[:min(len(data), maxValue)], &value); err != nil {
			continue
		}
		if r, err := Decode(name, string(value)); err == nil && set.Len() < maxRecords {
			set.Merge(r)
		}
	}
}

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

// Salvage returns what can be read of a file that is damaged. If no more than one
// bit of it has changed, and it is of a usual size, exact is true: that is all that
// was in it, as its checksum tells. Else the set has the records that can be
// decoded: others may be missing, and as a record has no checksum of its own, one may
// say something else than it did. Of a file that is too long to be one, nothing is
// read. The set is the caller's.
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

// maxMendable is up to how many bytes of a file mendBit works: the time it takes
// grows with the square of the size, and is some seconds for as much.
const maxMendable = 32 << 10

// mendBit returns the file whose checksum is right and of which data differs by
// one bit; nil if there is none.
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
	const block = 1 << 10 // what comes before is hashed once
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

// sumAfter returns the hash of what was written to before and of data.
func sumAfter(before hash.Hash, data []byte) []byte {
	h, err := before.(hash.Cloner).Clone()
	if err != nil {
		panic(err) // cannot be: that of SHA-256 returns none
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

// names finds what may be the name of a record.
var names = regexp.MustCompile(`(?:hold|expire|purge/chunk|purge/manifest)/[0-9a-f]{64}`)

// maxValue is more than the bytes of any value of a record.
const maxValue = 4*MaxText + 1<<10

// readableRecords returns the records in data that can be decoded: names with values
// that follow them at once.
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

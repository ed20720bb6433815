// Package canonical is the CBOR of what is stored and is no object: records,
// roots and state files. One value has one encoding, the deterministic one of
// RFC 8949, section 4.2.1, without tags.
//
// To decode is not enough to be sure of that: a decoder encodes again what it
// has decoded, and refuses input that differs.
package canonical

import (
	"errors"
	"time"

	"github.com/fxamacker/cbor/v2"
)

// How much one value may hold.
const (
	MaxDepth = 8
	MaxArray = 1 << 17 // elements
	MaxMap   = 1 << 20 // pairs
)

// Modes returns how values are encoded and decoded. What has a tag, an indefinite
// length, a key twice, or more than the limits is not decoded; fields that the Go
// type lacks are passed over.
func Modes() (cbor.EncMode, cbor.DecMode) {
	o := cbor.CoreDetEncOptions()
	o.TagsMd = cbor.TagsForbidden
	enc, err := o.EncMode()
	if err != nil {
		panic(err) // cannot be: the options are constant
	}
	dec, err := cbor.DecOptions{
		DupMapKey:         cbor.DupMapKeyEnforcedAPF,
		IndefLength:       cbor.IndefLengthForbidden,
		TagsMd:            cbor.TagsForbidden,
		FieldNameMatching: cbor.FieldNameMatchingCaseSensitive,
		MaxNestedLevels:   MaxDepth,
		MaxArrayElements:  MaxArray,
		MaxMapPairs:       MaxMap,
	}.DecMode()
	if err != nil {
		panic(err)
	}
	return enc, dec
}

// Time is a moment as it is encoded: an array of the seconds since 1970, in UTC
// and without leap seconds, and the nanoseconds.
type Time struct {
	_    struct{} `cbor:",toarray"`
	Sec  int64
	Nsec uint32 // below 1e9
}

// TimeOf returns how a moment is encoded.
func TimeOf(t time.Time) Time { return Time{Sec: t.Unix(), Nsec: uint32(t.Nanosecond())} }

// Time returns the moment, in UTC. It is an error if there are too many
// nanoseconds, or the year is not one from 0 to 9999.
func (t Time) Time() (time.Time, error) {
	at := time.Unix(t.Sec, int64(t.Nsec)).UTC()
	if year := at.Year(); t.Nsec >= 1e9 || year < 0 || year > 9999 {
		return at, errors.New("malformed time")
	}
	return at, nil
}

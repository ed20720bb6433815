// Package canonical encodes records, roots and state files as CBOR. One value has
// one encoding: the deterministic one of RFC 8949, section 4.2.1, without tags.
// Objects have an encoding of their own, in package object.
//
// The decoder alone does not ensure this. Callers encode each decoded value once
// more, and refuse input that differs.
package canonical

import (
	"errors"
	"time"

	"github.com/fxamacker/cbor/v2"
)

// The limits of one value.
const (
	maxDepth = 8
	maxArray = 1 << 17 // elements
	maxMap   = 1 << 20 // pairs
)

// Modes returns the encoder and the decoder. The decoder refuses tags, indefinite
// lengths, duplicate keys, and values beyond the limits. It skips fields that the
// Go type does not have.
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
		MaxNestedLevels:   maxDepth,
		MaxArrayElements:  maxArray,
		MaxMapPairs:       maxMap,
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

// TimeOf returns the encoded form of t.
func TimeOf(t time.Time) Time { return Time{Sec: t.Unix(), Nsec: uint32(t.Nanosecond())} }

// Time returns the moment, in UTC. It returns an error if Nsec is 1e9 or more, or if
// the year is not from 0 to 9999.
func (t Time) Time() (time.Time, error) {
	at := time.Unix(t.Sec, int64(t.Nsec)).UTC()
	if year := at.Year(); t.Nsec >= 1e9 || year < 0 || year > 9999 {
		return at, errors.New("malformed time")
	}
	return at, nil
}

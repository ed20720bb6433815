package remote

import (
	"errors"
	"fmt"
)

// HeaderSize is the number of bytes with which every blob and every root
// begins; see docs/format/remote.md.
const HeaderSize = 32

const (
	headerMagic = "kistblob"
	schemePlain = 0
)

// The versions of blobs. Their values are part of the format.
const (
	// Version1 is the version of all blobs except packs of version 2.
	Version1 = 1

	// Version2 is that of packs in which there may be patches.
	Version2 = 2
)

// Type is the type of a blob.
type Type uint8

// The types of blobs. Their values are part of the format.
const (
	TypePack  Type = 1
	TypeIndex Type = 2
	TypeRoot  Type = 3
	TypeState Type = 4
)

// String returns the type's name.
func (t Type) String() string {
	switch t {
	case TypePack:
		return "pack"
	case TypeIndex:
		return "index file"
	case TypeRoot:
		return "root"
	case TypeState:
		return "state file"
	}
	return fmt.Sprintf("blob of type %d", uint8(t))
}

// ErrNewerFormat is matched by the error for a blob of a version, or sealed by
// a scheme, that this program does not know.
var ErrNewerFormat = errors.New("newer format on the remote")

// newest returns the newest version of blobs of the type.
func (t Type) newest() byte {
	if t == TypePack {
		return Version2
	}
	return Version1
}

// AppendHeader appends the header of a blob of a type and version to dst.
func AppendHeader(dst []byte, t Type, version uint8) []byte {
	dst = append(dst, headerMagic...)
	dst = append(dst, byte(t), version, schemePlain)
	return append(dst, make([]byte, HeaderSize-len(headerMagic)-3)...)
}

// HeaderVersion returns the version of a blob whose header [CheckHeader] found
// to be right.
func HeaderVersion(data []byte) uint8 { return data[len(headerMagic)+1] }

// CheckHeader checks that data begins with the header of a blob of a type, of a
// version that this program knows.
func CheckHeader(data []byte, t Type) error {
	if len(data) < HeaderSize {
		return fmt.Errorf("%d bytes are too few for a %s", len(data), t)
	}
	if string(data[:len(headerMagic)]) != headerMagic {
		return fmt.Errorf("not a %s", t)
	}
	rest := data[len(headerMagic):HeaderSize]
	switch {
	case Type(rest[0]) != t:
		return fmt.Errorf("a %s, not a %s", Type(rest[0]), t)
	case rest[1] > t.newest():
		return fmt.Errorf("%w: %s of version %d", ErrNewerFormat, t, rest[1])
	case rest[1] < Version1:
		return fmt.Errorf("%s of unknown version %d", t, rest[1])
	case rest[2] != schemePlain:
		return fmt.Errorf("%w: %s sealed by scheme %d", ErrNewerFormat, t, rest[2])
	}
	for _, b := range rest[3:] {
		if b != 0 {
			return errors.New("reserved bytes of the header are not zero")
		}
	}
	return nil
}

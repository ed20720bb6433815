package pack

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
)

const nameSize = 16

// Name is the random name of a pack or of an index file. The zero Name means
// none.
type Name [nameSize]byte

// NewName returns a random name.
func NewName(rand io.Reader) (Name, error) {
	var n Name
	if _, err := io.ReadFull(rand, n[:]); err != nil {
		return Name{}, fmt.Errorf("make up a name: %w", err)
	}
	return n, nil
}

// ParseName reads a name from its 32 lower-case hexadecimal digits.
func ParseName(s string) (Name, error) {
	var n Name
	if len(s) != hex.EncodedLen(len(n)) {
		return Name{}, fmt.Errorf("parse name %q: want %d hexadecimal digits", s, hex.EncodedLen(len(n)))
	}
	if _, err := hex.Decode(n[:], []byte(s)); err != nil || n.String() != s {
		return Name{}, fmt.Errorf("parse name %q: not lower-case hexadecimal", s)
	}
	return n, nil
}

// String returns the name as 32 lower-case hexadecimal digits.
func (n Name) String() string { return hex.EncodeToString(n[:]) }

// Path returns the name of the blob of a pack.
func (n Name) Path() string {
	s := n.String()
	return "packs/" + s[:2] + "/" + s
}

// IndexPath returns the name of the blob of an index file.
func (n Name) IndexPath() string { return "index/" + n.String() }

// IsZero reports whether n is the zero Name.
func (n Name) IsZero() bool { return n == Name{} }

// Compare orders names by their bytes.
func (n Name) Compare(other Name) int { return bytes.Compare(n[:], other[:]) }

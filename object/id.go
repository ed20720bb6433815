// Package object defines the objects of a repository: chunks of file content, and
// nodes (manifests, trees, commits, tags) that give them structure. It names and
// encodes them, and has the small interfaces to read and write them.
//
// The formats are described in docs/format/objects.md.
package object

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// ID names an object: the SHA-256 of a chunk's bytes, or of a node's encoding.
// It is comparable and can be a map key. The zero ID names nothing.
type ID [sha256.Size]byte

// Sum returns the ID of data.
func Sum(data []byte) ID { return sha256.Sum256(data) }

// ParseID reads an ID from its 64 lower-case hexadecimal digits.
func ParseID(s string) (ID, error) {
	var id ID
	if len(s) != hex.EncodedLen(len(id)) {
		return ID{}, fmt.Errorf("parse id %q: want %d hexadecimal digits", s, hex.EncodedLen(len(id)))
	}
	if _, err := hex.Decode(id[:], []byte(s)); err != nil || id.String() != s {
		return ID{}, fmt.Errorf("parse id %q: not lower-case hexadecimal", s)
	}
	return id, nil
}

// IsHex reports whether s is not empty and has only hexadecimal digits, of either case. So it
// may be an ID, or the beginning of one.
func IsHex(s string) bool {
	return s != "" && strings.Trim(s, "0123456789abcdefABCDEF") == ""
}

// String returns the ID as 64 lower-case hexadecimal digits.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// Short returns the first eight hexadecimal digits, for people to read.
func (id ID) Short() string { return hex.EncodeToString(id[:4]) }

// IsZero reports whether id is the zero ID.
func (id ID) IsZero() bool { return id == ID{} }

// Compare orders IDs by their bytes.
func (id ID) Compare(other ID) int { return bytes.Compare(id[:], other[:]) }

// MarshalText implements [encoding.TextMarshaler].
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (id *ID) UnmarshalText(text []byte) error {
	parsed, err := ParseID(string(text))
	if err != nil {
		return err
	}
	*id = parsed
	return nil
}

// Kind is the kind of an object. It is part of the object's key, so bytes stored as one kind
// are never read as another.
type Kind uint8

// The kinds of objects. Their values are part of the formats and never change.
const (
	KindChunk    Kind = 1 // raw bytes of a file
	KindManifest Kind = 2 // the list of a large file's chunks
	KindTree     Kind = 3 // a directory
	KindCommit   Kind = 4 // a version of the whole worktree
	KindTag      Kind = 5 // an annotated name for a commit
)

var kindNames = [...]string{KindChunk: "chunk", KindManifest: "manifest", KindTree: "tree", KindCommit: "commit", KindTag: "tag"}

// Valid reports whether k is one of the five known kinds.
func (k Kind) Valid() bool { return k >= KindChunk && k <= KindTag }

// IsNode reports whether objects of kind k are nodes, which have links.
func (k Kind) IsNode() bool { return k > KindChunk && k <= KindTag }

// String returns the kind's name in lower case.
func (k Kind) String() string {
	if !k.Valid() {
		return fmt.Sprintf("kind(%d)", uint8(k))
	}
	return kindNames[k]
}

// Key identifies an object in a store and in a link.
type Key struct {
	Kind Kind
	ID   ID
}

// String returns the kind and the shortened ID, as in "tree 3fa9c1d2".
func (k Key) String() string { return k.Kind.String() + " " + k.ID.Short() }

// IsZero reports whether k is the zero Key, which names nothing.
func (k Key) IsZero() bool { return k == Key{} }

// Compare orders keys by kind, then by ID.
func (k Key) Compare(other Key) int {
	if k.Kind != other.Kind {
		return int(k.Kind) - int(other.Kind)
	}
	return k.ID.Compare(other.ID)
}

// Package object defines what a kist repository stores: chunks of file
// content and the nodes (manifests, trees, commits, tags) that give them
// structure, how they are named and encoded, and the small interfaces through
// which they are read and written.
//
// The formats are described in docs/format/objects.md.
package object

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"
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

// Kind is the kind of an object. It is part of an object's key, so bytes
// stored as one kind are never read as another.
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

// Key is what a store is keyed by, and what a link holds.
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

// TimeOf returns t as it is recorded in objects; time.Time{} gives the zero Time.
func TimeOf(t time.Time) Time {
	if t.IsZero() {
		return Time{}
	}
	return Time{Sec: t.Unix(), Nsec: uint32(t.Nanosecond())}
}

// Time returns t in UTC; the zero Time gives time.Time{}.
func (t Time) Time() time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return time.Unix(t.Sec, int64(t.Nsec)).UTC()
}

// IsZero reports whether t is the zero Time, which stands for no time.
func (t Time) IsZero() bool { return t == Time{} }

// Compare returns a negative number if t is before u, a positive one if it is
// after u, and 0 if they are equal.
func (t Time) Compare(u Time) int {
	return cmp.Or(cmp.Compare(t.Sec, u.Sec), cmp.Compare(t.Nsec, u.Nsec))
}

// lastYear is the last year that RFC 3339, and so JSON, can write.
const lastYear = 9999

// When returns the time of s in its own zone. A year that RFC 3339 cannot write
// becomes the nearest one that it can: nobody has committed then.
func (s Signature) When() time.Time {
	return Writable(s.Time.Time().In(time.FixedZone("", int(s.Zone)*60)))
}

// Writable returns at, or the nearest time in its zone that RFC 3339 can write.
func Writable(at time.Time) time.Time {
	switch {
	case at.Year() > lastYear:
		return time.Date(lastYear, 12, 31, 23, 59, 59, 0, at.Location())
	case at.Year() < 0:
		return time.Date(0, 1, 1, 0, 0, 0, 0, at.Location())
	}
	return at
}

// ErrNewerFormat is matched by every [*FormatError] of a node that was written
// in a newer version of the format than this program knows.
var ErrNewerFormat = errors.New("newer format")

// ErrInvalid is matched by every [*InvalidError].
var ErrInvalid = errors.New("cannot be encoded")

// ErrNoEntry is returned by [Lookup] for a name that a directory does not have.
var ErrNoEntry = errors.New("no such entry")

// FormatError says why a decoder rejected data. It matches [ErrCorrupt], or
// [ErrNewerFormat] if Reason is [ReasonNewerVersion].
type FormatError struct {
	Kind   Kind
	Reason Reason
	Err    error // details, may be nil
}

func (e *FormatError) Error() string { return describe("malformed", e.Kind, e.Reason, e.Err) }

// Is makes errors.Is work with [ErrCorrupt] and [ErrNewerFormat].
func (e *FormatError) Is(target error) bool {
	if e.Reason == ReasonNewerVersion {
		return target == ErrNewerFormat
	}
	return target == ErrCorrupt
}

// Unwrap returns the details.
func (e *FormatError) Unwrap() error { return e.Err }

// InvalidError says why a value could not be encoded: it breaks a rule that
// decoders check. It matches [ErrInvalid].
type InvalidError struct {
	Kind   Kind
	Reason Reason
	Err    error // details, may be nil
}

func (e *InvalidError) Error() string { return describe("invalid", e.Kind, e.Reason, e.Err) }

// Is makes errors.Is(err, ErrInvalid) true.
func (e *InvalidError) Is(target error) bool { return target == ErrInvalid }

// Unwrap returns the details.
func (e *InvalidError) Unwrap() error { return e.Err }

func describe(what string, kind Kind, reason Reason, err error) string {
	if err == nil {
		return fmt.Sprintf("%s %s: %s", what, kind, reason)
	}
	return fmt.Sprintf("%s %s: %s: %v", what, kind, reason, err)
}

// Reason is a stable code for the rule that was broken. The codes are listed,
// in the order of the checks, in docs/format/objects.md.
type Reason string

// The reasons for which decoders reject data.
const (
	ReasonTooBig       Reason = "too-big"       // more bytes than the kind may have
	ReasonTruncated    Reason = "truncated"     // ends within the header
	ReasonMagic        Reason = "bad-magic"     // does not begin with "kn"
	ReasonKind         Reason = "bad-kind"      // not the kind that was asked for
	ReasonVersion      Reason = "bad-version"   // version 0
	ReasonNewerVersion Reason = "newer-version" // a version after 1
	ReasonLinkCount    Reason = "bad-link-count"
	ReasonLinkKind     Reason = "bad-link-kind" // a kind that may not be linked to from here
	ReasonLinkID       Reason = "bad-link-id"   // the zero ID
	ReasonLinkTwice    Reason = "duplicate-link"
	ReasonBody         Reason = "bad-body"      // not CBOR, or not of the body's shape
	ReasonLevel        Reason = "bad-level"     // of a list
	ReasonLinkOrder    Reason = "bad-link-use"  // a position beyond the links, or used before the one in front of it
	ReasonLinkUnused   Reason = "unused-link"   //
	ReasonItems        Reason = "bad-items"     // too many items in a list, or none
	ReasonName         Reason = "bad-name"      // see CheckName
	ReasonOrder        Reason = "not-sorted"    // names, or ends of children
	ReasonEntry        Reason = "bad-entry"     // fields that do not go with the entry's type
	ReasonMetadata     Reason = "bad-metadata"  //
	ReasonEntrySize    Reason = "entry-too-big" //
	ReasonChunk        Reason = "bad-chunk"     // a chunk's length
	ReasonText         Reason = "bad-text"      // not UTF-8, too long, or with control characters
	ReasonSignature    Reason = "bad-signature" // time or zone
	ReasonParents      Reason = "bad-parents"   //
	ReasonSkipped      Reason = "bad-skipped"   //
	ReasonTarget       Reason = "bad-target"    // tag without target
	ReasonCanonical    Reason = "not-canonical" // encodes to other bytes
	ReasonSplit        Reason = "bad-split"     // a list node goes on after a boundary
	ReasonRoot         Reason = "bad-root"      // a list's root has too few items
	ReasonChild        Reason = "bad-child"     // a list node is not what its parent says
	ReasonSize         Reason = "bad-size"      // content is not as long as its entry says
)

// fault is a broken rule, before it is known whether it is met on encoding or
// on decoding.
type fault struct {
	reason Reason
	err    error
}

func (f *fault) Error() string { return describe("broken", 0, f.reason, f.err) }

func faultf(reason Reason, format string, args ...any) error {
	return &fault{reason, fmt.Errorf(format, args...)}
}

// decodeError turns a broken rule into a FormatError.
func decodeError(kind Kind, err error) error {
	if err == nil {
		return nil
	}
	var f *fault
	if errors.As(err, &f) {
		return &FormatError{Kind: kind, Reason: f.reason, Err: f.err}
	}
	return err
}

// encodeError turns a broken rule into an InvalidError.
func encodeError(kind Kind, err error) error {
	if err == nil {
		return nil
	}
	var f *fault
	if errors.As(err, &f) {
		return &InvalidError{Kind: kind, Reason: f.reason, Err: f.err}
	}
	return err
}

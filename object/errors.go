package object

import (
	"errors"
	"fmt"
)

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

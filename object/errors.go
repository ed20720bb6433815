package object

import (
	"errors"
	"fmt"
)

// ErrNewerFormat is matched by every [*FormatError] for a node in a newer version of the
// format than this program knows.
var ErrNewerFormat = errors.New("newer format")

// ErrInvalid is matched by every [*InvalidError].
var ErrInvalid = errors.New("cannot be encoded")

// ErrNoEntry is returned by [Lookup] for a name that a directory does not have.
var ErrNoEntry = errors.New("no such entry")

// FormatError is the error for data that a decoder rejects. It matches [ErrCorrupt], or
// [ErrNewerFormat] if Reason is [ReasonNewerVersion].
type FormatError struct {
	Kind   Kind
	Reason Reason
	Err    error // details, may be nil
}

func (e *FormatError) Error() string {
	if e.Reason == ReasonNewerVersion {
		return fmt.Sprintf("%s in a %v: %v", e.Kind, ErrNewerFormat, e.Err)
	}
	return describe("malformed", e.Kind, e.Reason, e.Err)
}

// Is makes errors.Is work with [ErrCorrupt] and [ErrNewerFormat].
func (e *FormatError) Is(target error) bool {
	if e.Reason == ReasonNewerVersion {
		return target == ErrNewerFormat
	}
	return target == ErrCorrupt
}

// Unwrap returns the details.
func (e *FormatError) Unwrap() error { return e.Err }

// InvalidError is the error for a value that breaks a rule of decoders, so that it cannot be
// encoded. It matches [ErrInvalid].
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

// Reason is a stable code for the rule that was broken. docs/format/objects.md lists the
// codes in the order of the checks.
type Reason string

// The reasons for which decoders reject data.
const (
	ReasonTooBig       Reason = "too-big"       // more bytes than the kind may have
	ReasonTruncated    Reason = "truncated"     // ends within the header
	ReasonMagic        Reason = "bad-magic"     // does not begin with "kn"
	ReasonKind         Reason = "bad-kind"      // not the kind that was asked for
	ReasonVersion      Reason = "bad-version"   // version 0
	ReasonNewerVersion Reason = "newer-version" // a version after the newest of the kind
	ReasonLinkCount    Reason = "bad-link-count"
	ReasonLinkKind     Reason = "bad-link-kind" // a kind that may not be linked to from here
	ReasonLinkID       Reason = "bad-link-id"   // the zero ID
	ReasonLinkTwice    Reason = "duplicate-link"
	ReasonBody         Reason = "bad-body"      // not CBOR, or not of the body's shape
	ReasonLevel        Reason = "bad-level"     // of a list
	ReasonLinkOrder    Reason = "bad-link-use"  // a position beyond the links, or used before the previous one
	ReasonLinkUnused   Reason = "unused-link"   //
	ReasonItems        Reason = "bad-items"     // too many items in a list, or none
	ReasonName         Reason = "bad-name"      // see CheckName
	ReasonOrder        Reason = "not-sorted"    // names, or ends of children
	ReasonEntry        Reason = "bad-entry"     // fields that the entry's type does not allow
	ReasonMetadata     Reason = "bad-metadata"  //
	ReasonEntrySize    Reason = "entry-too-big" //
	ReasonChunk        Reason = "bad-chunk"     // a chunk's length
	ReasonText         Reason = "bad-text"      // not UTF-8, too long, or with control characters
	ReasonSignature    Reason = "signature-too-big"
	ReasonStamp        Reason = "bad-stamp"     // time or zone
	ReasonParents      Reason = "bad-parents"   //
	ReasonSkipped      Reason = "bad-skipped"   //
	ReasonTarget       Reason = "bad-target"    // tag without target
	ReasonCanonical    Reason = "not-canonical" // encodes to other bytes
	ReasonSplit        Reason = "bad-split"     // a list node goes on after a boundary
	ReasonRoot         Reason = "bad-root"      // a list's root has too few items
	ReasonChild        Reason = "bad-child"     // a list node does not match its item in the parent
	ReasonSize         Reason = "bad-size"      // content has another length than its entry
)

// fault is a broken rule. The caller turns it into an InvalidError when it encodes, or a
// FormatError when it decodes.
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
	var f *fault
	if errors.As(err, &f) {
		return &FormatError{Kind: kind, Reason: f.reason, Err: f.err}
	}
	return err
}

// encodeError turns a broken rule into an InvalidError.
func encodeError(kind Kind, err error) error {
	var f *fault
	if errors.As(err, &f) {
		return &InvalidError{Kind: kind, Reason: f.reason, Err: f.err}
	}
	return err
}

// ErrCorrupt is matched by every error for damaged stored data.
var ErrCorrupt = errors.New("damaged data")

// IsUnreadable reports whether err means that an object is missing or damaged.
func IsUnreadable(err error) bool {
	return errors.Is(err, ErrNotFound) || errors.Is(err, ErrCorrupt)
}

// CorruptError is the error for an object that a store has but cannot read.
type CorruptError struct {
	Key   Key
	Where string // file and offset, or pack and offset
	Err   error  // the cause
}

func (e *CorruptError) Error() string {
	if e.Where == "" {
		return fmt.Sprintf("%s %s %s: %v", e.Key.Kind, e.Key.ID, stateOf(e.Err), e.Err)
	}
	return fmt.Sprintf("%s %s %s (%s): %v", e.Key.Kind, e.Key.ID, stateOf(e.Err), e.Where, e.Err)
}

// stateOf returns the words for data that cannot be read because of err. Data in a newer format
// is not damaged: a repair would not help.
func stateOf(err error) string {
	if errors.Is(err, ErrNewerFormat) {
		return "cannot be read"
	}
	return "is damaged"
}

// Is makes errors.Is(err, ErrCorrupt) true.
func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }

// Unwrap returns the cause.
func (e *CorruptError) Unwrap() error { return e.Err }

// DamageError is a damaged or missing file of a store. It matches [ErrCorrupt], and also
// Kind, if that is set.
type DamageError struct {
	Name string // of the file in the store, or on the remote
	Err  error  // the damage
	Kind error
}

func (e *DamageError) Error() string { return fmt.Sprintf("%s %s: %v", e.Name, stateOf(e.Err), e.Err) }

// Is makes errors.Is work with [ErrCorrupt] and Kind.
func (e *DamageError) Is(target error) bool {
	return target == ErrCorrupt || e.Kind != nil && target == e.Kind
}

// Unwrap returns the cause.
func (e *DamageError) Unwrap() error { return e.Err }

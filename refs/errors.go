package refs

import (
	"errors"
	"fmt"
	"strings"

	"github.com/kist-vcs/kist/object"
)

var (
	// ErrNotFound is matched by [*NotFoundError] and [*UnknownRevisionError].
	ErrNotFound = errors.New("ref not found")

	// ErrMoved is matched by every [*MovedError].
	ErrMoved = errors.New("ref moved meanwhile")

	// ErrConflict is matched by every [*ConflictError].
	ErrConflict = errors.New("ref name is taken")

	// ErrTime is matched by the errors of [ParseTime].
	ErrTime = errors.New("not a time")
)

// NotFoundError means that a ref does not exist.
type NotFoundError struct{ Name string }

func (e *NotFoundError) Error() string { return fmt.Sprintf("no ref %q", e.Name) }

// Is makes errors.Is(err, ErrNotFound) true.
func (e *NotFoundError) Is(target error) bool { return target == ErrNotFound }

// CorruptError means that a file of this package is damaged.
type CorruptError struct {
	File string // path below the .kist folder, with slashes
	Err  error  // the cause
}

func (e *CorruptError) Error() string { return fmt.Sprintf("%s is damaged: %v", e.File, e.Err) }

// Is makes errors.Is(err, object.ErrCorrupt) true.
func (e *CorruptError) Is(target error) bool { return target == object.ErrCorrupt }

// Unwrap returns the cause.
func (e *CorruptError) Unwrap() error { return e.Err }

// NameError means that a name is not allowed for a ref.
type NameError struct{ Name, Reason string }

func (e *NameError) Error() string { return fmt.Sprintf("bad ref name %q: %s", e.Name, e.Reason) }

// MovedError means that a ref does not have the value that an update expects.
// A zero ID means that the ref does not exist.
type MovedError struct {
	Name       string
	Want, Have object.ID
}

func (e *MovedError) Error() string {
	switch {
	case e.Want.IsZero():
		return fmt.Sprintf("%s already exists, at %s", e.Name, e.Have.Short())
	case e.Have.IsZero():
		return fmt.Sprintf("%s no longer exists, was to be at %s", e.Name, e.Want.Short())
	}
	return fmt.Sprintf("%s is at %s, was to be at %s", e.Name, e.Have.Short(), e.Want.Short())
}

// Is makes errors.Is(err, ErrMoved) true.
func (e *MovedError) Is(target error) bool { return target == ErrMoved }

// ConflictError means that two refs cannot both exist, because the name of one
// would be a folder in the name of the other.
type ConflictError struct {
	Name string // the new ref
	With string // the existing ref
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("cannot make %s: %s is in its way", e.Name, e.With)
}

// Is makes errors.Is(err, ErrConflict) true.
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

// UnknownRevisionError means that a revision names no commit.
type UnknownRevisionError struct {
	Rev    string
	Reason string // empty: nothing has this name
}

func (e *UnknownRevisionError) Error() string {
	if e.Reason == "" {
		return fmt.Sprintf("unknown revision %q", e.Rev)
	}
	return fmt.Sprintf("unknown revision %q: %s", e.Rev, e.Reason)
}

// Is makes errors.Is(err, ErrNotFound) true.
func (e *UnknownRevisionError) Is(target error) bool { return target == ErrNotFound }

// AmbiguousError means that a hexadecimal prefix fits several objects.
type AmbiguousError struct {
	Rev        string
	Candidates []object.Key // some of them: commits, then tags
}

func (e *AmbiguousError) Error() string {
	names := make([]string, len(e.Candidates))
	for i, c := range e.Candidates {
		names[i] = c.Kind.String() + " " + c.ID.String()[:max(8, min(len(e.Rev)+4, 64))]
	}
	return fmt.Sprintf("revision %q is ambiguous: %s", e.Rev, strings.Join(names, ", "))
}

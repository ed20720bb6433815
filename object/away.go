package object

import (
	"errors"
	"fmt"
)

// AwayError is the error for objects that a remote has promised to keep, and that cannot be fetched now. It does not match
// [ErrNotFound]: code that passes over missing objects must not pass over these.
type AwayError struct {
	Key    Key    // one of the objects; zero: unknown
	Files  int    // the number of files that need such objects; 0: unknown
	Remote string // the name of a remote that could not be asked; "": unknown
	Err    error  // the reason; nil: nothing can fetch them
}

func (e *AwayError) Error() string {
	text := "content is away"
	switch {
	case e.Files > 0:
		text = fmt.Sprintf("content of %d files is away", e.Files)
	case !e.Key.IsZero():
		text = e.Key.String() + " is away"
	case e.Remote != "":
		text = "remote " + e.Remote
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns the reason.
func (e *AwayError) Unwrap() error { return e.Err }

// NewAwayError returns the error for an object that cannot be fetched because of err, which may name the remote.
func NewAwayError(key Key, err error) error {
	e := &AwayError{Key: key, Err: err}
	if of, ok := errors.AsType[*AwayError](err); ok {
		e.Remote, e.Err = of.Remote, of.Err
	}
	return e
}

// ErrNoFetch is the reason in an [AwayError] if this process fetches nothing.
var ErrNoFetch = errors.New("this process does not ask remotes for content")

// BudgetError is the error for content that is away if so much of it is needed that somebody has to agree.
type BudgetError struct {
	Limit  int64   // bytes
	Bytes  int64   // the content that is needed; 0: unknown, but more than Limit
	Places []Place // that have this content, and perhaps more; nil: unknown
}

// Place is a path in a commit.
type Place struct {
	Commit ID
	Path   string // of a file or folder; "" for the root
}

func (e *BudgetError) Error() string {
	if e.Bytes > 0 {
		return fmt.Sprintf("%d bytes of content are away", e.Bytes)
	}
	return fmt.Sprintf("more than %d bytes of content are away", e.Limit)
}

// IsAway reports whether err means that an object is away and cannot be fetched.
func IsAway(err error) bool {
	var e *AwayError
	return errors.As(err, &e)
}

// CanBeAway reports whether a repository may lack objects of kind k because a remote has promised to keep them. Commits and
// tags are always here.
func (k Kind) CanBeAway() bool { return k == KindTree || k == KindManifest || k == KindChunk }

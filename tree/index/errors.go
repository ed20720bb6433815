package index

import (
	"fmt"

	"github.com/kist-vcs/kist/object"
)

// CorruptError says that a file of the index is damaged. It matches
// [object.ErrCorrupt]. What is staged is lost then, commits are not: without
// the file the index is empty, and can be read from a tree again.
type CorruptError struct {
	File string // its path
	Err  error  // what is wrong
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("index file %q is damaged: %v", e.File, e.Err)
}

// Is makes errors.Is(err, object.ErrCorrupt) true.
func (e *CorruptError) Is(target error) bool { return target == object.ErrCorrupt }

// Unwrap returns the cause.
func (e *CorruptError) Unwrap() error { return e.Err }

// VersionError says that a file of the index was written in a newer version of
// the format than this program knows. It matches [object.ErrNewerFormat].
type VersionError struct {
	File    string // its path
	Version int
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("index file %q has format version %d, this program knows up to %d", e.File, e.Version, version)
}

// Is makes errors.Is(err, object.ErrNewerFormat) true.
func (e *VersionError) Is(target error) bool { return target == object.ErrNewerFormat }

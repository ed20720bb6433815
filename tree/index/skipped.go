package index

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/kist-vcs/kist/object"
)

// MaxReasonSize is how many bytes of the reason why a path was skipped are
// kept.
const MaxReasonSize = 255

type skipped = object.Skipped

// SetSkipped notes that what is at path in the worktree could not be read, and
// why: a commit then says that it does not hold all. The entry at the path, if
// any, is independent of it. The path may be one that no tree could hold, but
// for its shape: names with slashes between them; else it is a [*PathError].
// Of the reason, control characters and what goes beyond [MaxReasonSize] are
// dropped.
func (x *Index) SetSkipped(path, reason string) error {
	if err := checkSkippedPath(path); err != nil {
		return err
	}
	s := skipped{Path: path, Reason: cleanReason(reason)}
	notes := x.skippedNotes()
	if i, ok := notes.find(path); ok && x.skipped[i] == s {
		return nil
	}
	x.skipped = notes.put(s)
	x.changed = true
	return nil
}

// ClearSkipped notes that what is at path, and all below it, could be read or
// is gone. It reports whether anything there was skipped.
func (x *Index) ClearSkipped(path string) bool {
	list, ok := x.skippedNotes().clear(path)
	x.skipped, x.changed = list, x.changed || ok
	return ok
}

// Skipped returns the paths that could not be read when they were last staged,
// in the order of a walk. The slice is the index's and valid until it is next
// edited.
func (x *Index) Skipped() []object.Skipped { return x.skipped }

func checkSkippedPath(path string) error {
	if len(path) > maxPathSize || strings.IndexByte(path, 0) >= 0 {
		return &PathError{path, errors.New("too long, or with a NUL byte")}
	}
	for name := range strings.SplitSeq(path, "/") {
		if name == "" || name == "." || name == ".." {
			return &PathError{path, fmt.Errorf("%q is not a name", name)}
		}
	}
	return nil
}

func cleanReason(reason string) string {
	reason = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(reason, "\ufffd"))
	if len(reason) > MaxReasonSize {
		end := MaxReasonSize
		for !utf8.RuneStart(reason[end]) {
			end--
		}
		reason = reason[:end]
	}
	return reason
}

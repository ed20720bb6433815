package worktree

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/kist-vcs/kist/tree"
)

// CollisionError means that a name cannot be written beside Other, because
// this file system ignores the difference between them.
type CollisionError struct {
	Other string // a path; empty: the folder cannot be listed
}

func (e *CollisionError) Error() string {
	if e.Other == "" {
		return "the file system treats the name as equal to another one"
	}
	return fmt.Sprintf("the file system treats the name as equal to %q", e.Other)
}

// checkSpelling returns a [*CollisionError] with a name if d has a name only in another
// spelling. Some file systems, or some folders in them, ignore the case of names, or other
// differences. Their inode numbers need not show it. So checkSpelling lists the folder, unless the
// name in other case is absent: then the folder respects case.
func checkSpelling(d folder, name string) error {
	if swapped, ascii := swapCase(name); ascii {
		if swapped == name {
			return nil
		}
		if _, err := d.lstat(swapped); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
	}

	var l listing
	if d.readNames(&l) != nil {
		return nil
	}
	other := ""
	for i := range l.entries {
		found := l.nameAt(i)
		if found == name {
			return nil
		}
		if foldCase(found) == foldCase(name) {
			other = strings.Clone(found)
		}
	}

	if _, err := d.lstat(name); err != nil {
		return nil // removed meanwhile
	}
	return &CollisionError{other}
}

// swapCase returns a name with small ASCII letters for capital ones, and the reverse. It reports
// whether the name has only ASCII characters.
func swapCase(name string) (swapped string, ascii bool) {
	ascii = true
	swapped = strings.Map(func(r rune) rune {
		switch {
		case r >= utf8.RuneSelf:
			ascii = false
		case unicode.IsUpper(r):
			return unicode.ToLower(r)
		case unicode.IsLower(r):
			return unicode.ToUpper(r)
		}
		return r
	}, name)
	return swapped, ascii
}

// foldCase returns the same string for all names that differ only in case.
func foldCase(name string) string {
	if !utf8.ValidString(name) {
		return name
	}
	return strings.Map(func(r rune) rune { return unicode.ToLower(unicode.ToUpper(r)) }, name)
}

// spellings remembers which folders have exactly the names of their paths.
type spellings struct {
	mu     sync.Mutex
	folder map[string]error // by path: a [*CollisionError] or nil
}

// noteFolder records the result for a folder.
func (s *spellings) noteFolder(path string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.folder == nil {
		s.folder = map[string]error{}
	}
	s.folder[path] = err
}

// checkFolder returns a [*CollisionError] if a folder, or one above it, has its name only in another
// spelling. Everything below it would be written into another folder, or removed there.
func (s *spellings) checkFolder(w *Worktree, path string) error {
	if path == "" {
		return nil
	}
	s.mu.Lock()
	err, known := s.folder[path]
	s.mu.Unlock()
	if known {
		return err
	}

	above, name := tree.Split(path)
	if err = s.checkFolder(w, above); err == nil {
		d, openErr := w.openFolder(above)
		if openErr != nil {
			return nil // the caller reports it
		}
		err = inFolder(above, checkSpelling(d, name))
		d.Close()
	}
	s.noteFolder(path, err)
	return err
}

// inFolder adds the path of a folder to the name in a [*CollisionError].
func inFolder(dir string, err error) error {
	if c, ok := errors.AsType[*CollisionError](err); ok && c.Other != "" {
		return &CollisionError{tree.Join(dir, c.Other)}
	}
	return err
}

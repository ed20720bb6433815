package index

import (
	"fmt"
	"strings"

	"github.com/kist-vcs/kist/object"
)

// PathError says that a path cannot be in an index, and why.
type PathError struct {
	Path string
	Err  error
}

func (e *PathError) Error() string { return fmt.Sprintf("path %q: %v", e.Path, e.Err) }

// Unwrap returns why.
func (e *PathError) Unwrap() error { return e.Err }

func join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}

// split takes the last name off a path.
func split(path string) (dir, name string) {
	i := strings.LastIndexByte(path, '/')
	if i < 0 {
		return "", path
	}
	return path[:i], path[i+1:]
}

// checkPath checks a path other than the root's: every name in it, and how
// many there are.
func checkPath(path string) error {
	depth := 0
	for rest, more := path, true; more; depth++ {
		var name string
		name, rest, more = strings.Cut(rest, "/")
		if err := object.CheckName(name); err != nil {
			return &PathError{path, err}
		}
	}
	if depth > object.MaxDepth {
		return &PathError{path, fmt.Errorf("more than %d directories deep", object.MaxDepth)}
	}
	return nil
}

// comparePaths orders paths as a walk meets them: by the bytes of their names,
// name by name.
func comparePaths(a, b string) int {
	for {
		aName, aRest, aMore := strings.Cut(a, "/")
		bName, bRest, bMore := strings.Cut(b, "/")
		switch {
		case aName != bName:
			return strings.Compare(aName, bName)
		case !aMore && !bMore:
			return 0
		case !aMore:
			return -1
		case !bMore:
			return 1
		}
		a, b = aRest, bRest
	}
}

// below reports whether path is dir or lies below it.
func below(path, dir string) bool {
	return dir == "" || path == dir || len(path) > len(dir) && path[len(dir)] == '/' && path[:len(dir)] == dir
}

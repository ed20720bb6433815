package index

import (
	"fmt"
	"strings"

	"github.com/kist-vcs/kist/object"
)

// PathError is the reason why a path cannot be in an index.
type PathError struct {
	Path string
	Err  error
}

func (e *PathError) Error() string { return fmt.Sprintf("path %q: %v", e.Path, e.Err) }

// Unwrap returns the reason.
func (e *PathError) Unwrap() error { return e.Err }

// join returns the path of name in dir.
func join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}

// split returns the directory and the last name of a path.
func split(path string) (dir, name string) {
	i := strings.LastIndexByte(path, '/')
	if i < 0 {
		return "", path
	}
	return path[:i], path[i+1:]
}

// checkPath checks the names and the depth of a path other than the root's. Its error
// is a [*PathError].
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

// comparePaths compares two paths name by name, by the bytes of the names. This is
// the order of a walk.
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

package tree

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"strings"

	"github.com/kist-vcs/kist/object"
)

// Errors about paths. ErrNotExist is [fs.ErrNotExist].
var (
	ErrNotExist   = fs.ErrNotExist
	ErrNotDir     = errors.New("not a directory")
	ErrAbsolute   = errors.New("path begins with a slash")
	ErrOutside    = errors.New(`path has a ".." component`)
	ErrTooDeep    = fmt.Errorf("path of more than %d names", object.MaxDepth)
	ErrOutOfOrder = errors.New("path comes before one already edited")
	ErrIsRoot     = errors.New("is the root directory")
)

// PathError is an error about a path.
type PathError struct {
	Path string
	Err  error
}

func (e *PathError) Error() string { return fmt.Sprintf("%q: %v", e.Path, e.Err) }

// Unwrap returns the cause.
func (e *PathError) Unwrap() error { return e.Err }

// CleanPath returns p as a repository path, without empty and "." components:
// "./a//b/" becomes "a/b", and "." becomes "", the root. The error is a
// [*PathError] for absolute paths, "..", components that no entry may have
// ([object.CheckName]), and more than [object.MaxDepth] components.
func CleanPath(p string) (string, error) {
	if strings.HasPrefix(p, "/") {
		return "", &PathError{p, ErrAbsolute}
	}

	clean, depth := true, 0
	for name := range strings.SplitSeq(p, "/") {
		switch name {
		case "", ".":
			clean = false
			continue
		case "..":
			return "", &PathError{p, ErrOutside}
		}
		if err := object.CheckName(name); err != nil {
			return "", &PathError{p, err}
		}
		depth++
	}

	if depth > object.MaxDepth {
		return "", &PathError{p, ErrTooDeep}
	}
	if clean {
		return p, nil
	}

	names := make([]string, 0, depth)
	for name := range strings.SplitSeq(p, "/") {
		if name != "" && name != "." {
			names = append(names, name)
		}
	}

	return strings.Join(names, "/"), nil
}

// CheckPath returns a [*PathError] if no tree could have an entry at p, or if p is not as
// [CleanPath] returns it.
func CheckPath(p string) error {
	clean, err := CleanPath(p)
	if err == nil && (clean != p || p == "") {
		err = &PathError{p, errors.New("is not the path of an entry")}
	}
	return err
}

// ComparePaths orders paths as a walk visits them: a directory, then
// everything below it, then the next name, whatever bytes the names have. It
// returns a negative number, zero or a positive number.
func ComparePaths(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			switch {
			case a[i] == '/':
				return -1
			case b[i] == '/':
				return 1
			}
			return int(a[i]) - int(b[i])
		}
	}

	return len(a) - len(b)
}

// Below reports whether path is dir or lies below it. Everything lies below
// the root, "".
func Below(path, dir string) bool {
	return dir == "" || strings.HasPrefix(path, dir) && (len(path) == len(dir) || path[len(dir)] == '/')
}

// Join returns the path of name in directory dir.
func Join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}

// CommonFolder returns the longest path to which all of paths are equal or below, "" for the root.
func CommonFolder(paths []string) string {
	if len(paths) == 0 {
		return ""
	}
	common := paths[0]
	for _, path := range paths[1:] {
		for !Below(path, common) {
			common, _ = Split(common)
		}
	}
	return common
}

// GitFolder returns the beginning of a path that ends with its first form of the name .git
// ([object.IsGitName]), or "" if no name in the path is one.
func GitFolder(path string) string {
	for from := 0; from < len(path); {
		to := len(path)
		if i := strings.IndexByte(path[from:], '/'); i >= 0 {
			to = from + i
		}
		if object.IsGitName(path[from:to]) {
			return path[:to]
		}
		from = to + 1
	}
	return ""
}

// Split cuts a path into its directory and the last name.
func Split(path string) (dir, name string) {
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		return path[:i], path[i+1:]
	}
	return "", path
}

// pathDepth returns the number of names in path.
func pathDepth(path string) int {
	if path == "" {
		return 0
	}
	return strings.Count(path, "/") + 1
}

// ContentEqual reports whether two entries are equal for comparing versions:
// in type, mode, content, target, attributes, and, if both have it, full metadata. Name,
// mtime and hard-link group do not count. A nil entry equals only nil.
func ContentEqual(a, b *object.Entry) bool {
	return sameContent(a, b) && (a == nil || a.Mode == b.Mode && sameMetadata(a.Meta, b.Meta) && maps.Equal(a.Attrs, b.Attrs))
}

// sameContent is ContentEqual without mode, metadata and attributes.
func sameContent(a, b *object.Entry) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Type == b.Type && a.Size == b.Size && a.Content == b.Content && a.Target == b.Target && bytes.Equal(a.Inline, b.Inline)
}

func sameMetadata(a, b *object.Metadata) bool {
	if a == nil || b == nil {
		return true
	}
	return a.UID == b.UID && a.GID == b.GID && a.Owner == b.Owner && a.Group == b.Group && a.Device == b.Device &&
		maps.EqualFunc(a.Xattrs, b.Xattrs, bytes.Equal)
}

// sameRecord reports whether two entries do not differ in modification time and hard-link
// group, or one of them has no full metadata.
func sameRecord(a, b *object.Entry) bool {
	return a.Meta == nil || b.Meta == nil || a.MTime == b.MTime && a.Meta.HardLink == b.Meta.HardLink
}

// sameProperties reports whether two entries are equal in everything except
// content: mode, mtime, attributes and all metadata.
func sameProperties(a, b *object.Entry) bool {
	return a.Mode == b.Mode && a.MTime == b.MTime && maps.Equal(a.Attrs, b.Attrs) && (a.Meta == nil) == (b.Meta == nil) &&
		(a.Meta == nil || a.Meta.HardLink == b.Meta.HardLink && sameMetadata(a.Meta, b.Meta))
}

// isIdentical reports whether two entries of one name are the same in every
// field.
func isIdentical(a, b *object.Entry) bool {
	return sameContent(a, b) && a.Files == b.Files && sameProperties(a, b)
}

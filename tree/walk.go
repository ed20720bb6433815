package tree

import (
	"context"
	"errors"
	"io/fs"
	"strings"

	"github.com/kist-vcs/kist/object"
)

// Errors a [Walk] function returns to leave out a directory, or the rest.
var (
	SkipDir = fs.SkipDir // leave out what is below the directory; for anything else: the rest of its directory
	SkipAll = fs.SkipAll // end the walk
)

// Walk calls fn for every entry below the directory with the given root node,
// in path order: a directory before what is below it. It ends at the first
// error, that of fn included, unless it is [SkipDir] or [SkipAll]. Errors of
// reading are [*PathError] with the path of the directory, as are paths
// of more than [object.MaxDepth] names.
//
// One subtree may be linked to many times. If far more paths come of that than
// there are nodes for them, the error matches [ErrTooMany].
func Walk(ctx context.Context, r object.Reader, root object.ID, fn func(path string, e object.Entry) error) error {
	type dir struct {
		path string
		list *cursor
	}
	open := func(path string, id object.ID) (dir, error) {
		list, err := newCursor(ctx, r, id)
		if err != nil {
			return dir{}, &PathError{path, err}
		}
		return dir{path, list}, nil
	}
	top, err := open("", root)
	if err != nil {
		return err
	}
	seen := 0
	for stack := []dir{top}; len(stack) > 0; {
		d := stack[len(stack)-1]
		if err := d.list.toEntry(ctx); err != nil {
			return &PathError{d.path, err}
		}
		if d.list.done() {
			stack = stack[:len(stack)-1]
			continue
		}
		e := *d.list.entry()
		d.list.next()
		path := Join(d.path, e.Name)
		if len(stack) > object.MaxDepth {
			return &PathError{path, ErrTooDeep}
		}
		if seen++; seen == firstPaths {
			if err := checkExpansion(ctx, r, root); err != nil {
				return err
			}
		}
		switch err := fn(path, e); {
		case err == SkipAll:
			return nil
		case err == SkipDir && e.Type != object.TypeDir:
			stack = stack[:len(stack)-1]
		case err == SkipDir || err == nil && e.Type != object.TypeDir:
		case err != nil:
			return err
		default:
			sub, err := open(path, e.Content.ID)
			if err != nil {
				return err
			}
			stack = append(stack, sub)
		}
	}
	return nil
}

// Find returns the entry at a repository path. For "" it is an entry without a
// name and with mode 0755 for the root directory itself. A path that is not
// there gives a [*PathError] with [ErrNotExist], and one that leads through
// something other than a directory one with [ErrNotDir].
func Find(ctx context.Context, r object.Reader, root object.ID, path string) (object.Entry, error) {
	if path == "" {
		info, err := Stat(ctx, r, root)
		if err != nil {
			return object.Entry{}, err
		}
		return object.Entry{
			Type: object.TypeDir, Mode: defaultDirMode, Size: info.Bytes, Files: info.Files, Content: treeKey(root),
		}, nil
	}
	dir := root
	for at := 0; ; {
		name, more := path[at:], false
		if i := strings.IndexByte(name, '/'); i >= 0 {
			name, more = name[:i], true
		}
		e, err := object.Lookup(ctx, r, dir, name)
		at += len(name)
		switch {
		case errors.Is(err, object.ErrNoEntry):
			return object.Entry{}, &PathError{path, ErrNotExist}
		case err != nil:
			return object.Entry{}, &PathError{path[:at], err}
		case !more:
			return e, nil
		case e.Type != object.TypeDir:
			return object.Entry{}, &PathError{path, ErrNotDir}
		}
		dir = e.Content.ID
		at++
	}
}

// Info is a directory with its totals.
type Info struct {
	ID    object.ID // its root node
	Files uint64    // entries below it, at any depth, that are not directories
	Bytes uint64    // sum of the sizes of the files below it
}

// Stat returns a directory with its totals. It reads the directory itself, and
// takes the totals of the directories in it from their entries.
func Stat(ctx context.Context, r object.Reader, root object.ID) (Info, error) {
	info := Info{ID: root}
	for e, err := range object.Entries(ctx, r, root) {
		if err != nil {
			return Info{}, err
		}
		files, bytes := totals(&e)
		info.Files += files
		info.Bytes += bytes
	}
	return info, nil
}

// totals returns what an entry adds to the totals of its directory. A nil
// entry adds nothing.
func totals(e *object.Entry) (files, bytes uint64) {
	switch {
	case e == nil:
		return 0, 0
	case e.Type == object.TypeDir:
		return e.Files, e.Size
	}
	return 1, e.Size
}

// defaultDirMode is the mode of directories for which there is no recorded one.
const defaultDirMode = 0o755

func treeKey(id object.ID) object.Key { return object.Key{Kind: object.KindTree, ID: id} }

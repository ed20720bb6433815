package tree

import (
	"context"
	"errors"
	"io/fs"
	"strings"

	"github.com/kist-vcs/kist/object"
)

// SkipDir is returned by a [Walk] function to skip the content of a directory or, for
// another entry, the rest of its directory.
var SkipDir = fs.SkipDir

// Walk calls fn for every entry below the directory with the given root node,
// in path order: a directory comes before its content. It ends at the first
// error, also of fn, unless that is [SkipDir]. A read error is a
// [*PathError] with the path of the directory. So is the error for a path of
// more than [object.MaxDepth] names.
//
// Directories may share subtrees. If there are far more paths than nodes, the
// error matches [ErrTooMany].
func Walk(ctx context.Context, r object.Reader, root object.ID, fn func(path string, e object.Entry) error) error {
	if err := Bring(ctx, r, false, root); err != nil {
		return &PathError{"", err}
	}
	return WalkInto(ctx, r, root, func(string, object.ID) (bool, error) { return true, nil }, fn)
}

// WalkInto is [Walk], but reads a node only if into returns true. It calls
// into with the path of the directory and the node. A directory has a root
// node and, if it is large, further nodes below. An error of into ends the
// walk.
func WalkInto(
	ctx context.Context, r object.Reader, root object.ID,
	into func(path string, node object.ID) (bool, error), fn func(path string, e object.Entry) error,
) error {
	w := &treeWalk{r: r, into: into}
	if err := w.pushDir(ctx, "", root); err != nil {
		return err
	}
	for limit := NewLimit(r, root); ; {
		path, e, ok, err := w.nextEntry(ctx)
		if err != nil || !ok {
			return err
		}
		if err := limit.Step(ctx); err != nil {
			return err
		}
		switch err := fn(path, e); {
		case err == SkipDir && e.Type != object.TypeDir:
			w.stack = w.stack[:len(w.stack)-1]
		case err == SkipDir || err == nil && e.Type != object.TypeDir:
		case err != nil:
			return err
		default:
			if err := w.pushDir(ctx, path, e.Content.ID); err != nil {
				return err
			}
		}
	}
}

// treeWalk is the state of one walk.
type treeWalk struct {
	r     object.Reader
	into  func(path string, node object.ID) (bool, error)
	stack []walkedDir // from the root directory down
}

type walkedDir struct {
	path string
	list *cursor
}

// pushDir begins a directory, unless into skips its root node.
func (w *treeWalk) pushDir(ctx context.Context, path string, id object.ID) error {
	if reads, err := w.into(path, id); err != nil || !reads {
		return err
	}
	list, err := newCursor(ctx, w.r, path, id)
	if err != nil {
		return &PathError{path, err}
	}
	w.stack = append(w.stack, walkedDir{path, list})
	return nil
}

// nextEntry returns the next entry, and whether there is one.
func (w *treeWalk) nextEntry(ctx context.Context) (path string, e object.Entry, ok bool, err error) {
	for len(w.stack) > 0 {
		d := w.stack[len(w.stack)-1]
		switch height := d.list.height(); {
		case height < 0:
			w.stack = w.stack[:len(w.stack)-1]
		case height > 0:
			reads, err := w.into(d.path, d.list.child().ID)
			if err != nil {
				return d.path, e, false, err
			}
			if !reads {
				d.list.next()
			} else if err := d.list.enterChild(ctx); err != nil {
				return d.path, e, false, &PathError{d.path, err}
			}
		default:
			e = *d.list.entry()
			d.list.next()
			path = Join(d.path, e.Name)
			if len(w.stack) > object.MaxDepth {
				return path, e, false, &PathError{path, ErrTooDeep}
			}
			return path, e, true, nil
		}
	}

	return "", e, false, nil
}

// Find returns the entry at a repository path. For "" it returns an entry for
// the root directory, without a name and with mode 0755. The error is a
// [*PathError] with [ErrNotExist] if the path does not exist, and with
// [ErrNotDir] if a parent is no directory.
func Find(ctx context.Context, r object.Reader, root object.ID, path string) (object.Entry, error) {
	if path == "" {
		info, err := ReadInfo(ctx, r, root)
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

// Key returns the key of the root node.
func (i Info) Key() object.Key { return treeKey(i.ID) }

// ReadInfo returns a directory with its totals. It reads only the directory
// itself: the entries of subdirectories have their totals. Nodes that r passes
// over do not count.
func ReadInfo(ctx context.Context, r object.Reader, root object.ID) (Info, error) {
	info := Info{ID: root}
	for e, err := range object.Entries(ctx, r, root) {
		if object.PassOver(r, "", treeKey(root), err) {
			break
		}
		if err != nil {
			return Info{}, err
		}
		files, bytes := totalsOf(&e)
		info.Files += files
		info.Bytes += bytes
	}
	return info, nil
}

// totalsOf returns the share of an entry in the totals of its directory, 0 for
// nil.
func totalsOf(e *object.Entry) (files, bytes uint64) {
	switch {
	case e == nil:
		return 0, 0
	case e.Type == object.TypeDir:
		return e.Files, e.Size
	}
	return 1, e.Size
}

// defaultDirMode is the mode of directories without a recorded mode.
const defaultDirMode = 0o755

func treeKey(id object.ID) object.Key { return object.Key{Kind: object.KindTree, ID: id} }

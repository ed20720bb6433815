package tree

import (
	"context"
	"strings"

	"github.com/kist-vcs/kist/object"
)

// Editor makes a new version of a directory from changes in path order
// ([ComparePaths]). One path may be edited several times in a row. It updates
// the totals of directories. It reads and writes only the nodes on the way to
// changed paths. It keeps directories that become empty.
//
// An Editor holds a few nodes per level of the present directories. It is not
// safe for concurrent use. Do not use it after an error or [Editor.Finish].
type Editor struct {
	rw    object.ReadWriter
	base  Info
	stack []*openDir // from the root in; set by the first edit
	last  string     // path edited last
	begun bool
}

// NewEditor returns an editor of the directory base; a zero ID means an empty
// directory. The totals of the result start from those of base ([ReadInfo]).
func NewEditor(rw object.ReadWriter, base Info) *Editor {
	return &Editor{rw: rw, base: base}
}

// Set sets the entry at path and replaces any other. The entry's name comes
// from path. A directory brings everything below it. Missing parents are made
// with mode 0755. The error is a [*PathError] with [ErrNotDir] if a parent is
// no directory.
func (e *Editor) Set(ctx context.Context, path string, entry object.Entry) error {
	return e.editEntry(ctx, path, true, func(d *openDir, old *object.Entry) (*object.Entry, error) {
		return &entry, nil
	})
}

// SetDir makes path a directory with these properties: mode, mtime, metadata and attributes.
// The content of an existing directory stays. Anything else is replaced by an
// empty directory.
func (e *Editor) SetDir(ctx context.Context, path string, properties object.Entry) error {
	return e.editEntry(ctx, path, true, func(d *openDir, old *object.Entry) (*object.Entry, error) {
		return e.withProperties(ctx, old, properties)
	})
}

// Offer makes path a directory if, after all edits, it is not empty. A new
// directory gets the properties. An existing directory is removed if it ends up
// empty. Any other entry at path stays.
func (e *Editor) Offer(ctx context.Context, path string, properties object.Entry) error {
	return e.editEntry(ctx, path, false, func(d *openDir, old *object.Entry) (*object.Entry, error) {
		if old != nil && old.Type != object.TypeDir {
			return old, nil
		}
		d.offered = true
		if old != nil {
			return old, nil
		}
		return e.withProperties(ctx, nil, properties)
	})
}

// Remove removes the entry at path with everything below it. It does nothing
// if the path does not exist.
func (e *Editor) Remove(ctx context.Context, path string) error {
	return e.editEntry(ctx, path, false, func(d *openDir, old *object.Entry) (*object.Entry, error) {
		return nil, nil
	})
}

// RemoveOrOffer removes the entry at path. If it is a directory, it is removed only if, after all
// edits, it is empty.
func (e *Editor) RemoveOrOffer(ctx context.Context, path string) error {
	return e.editEntry(ctx, path, false, func(d *openDir, old *object.Entry) (*object.Entry, error) {
		if old == nil || old.Type != object.TypeDir {
			return nil, nil
		}
		d.offered = true
		return old, nil
	})
}

// Finish writes the directory and returns it with its totals.
func (e *Editor) Finish(ctx context.Context) (Info, error) {
	if err := e.openRoot(ctx); err != nil {
		return Info{}, err
	}

	for len(e.stack) > 1 {
		if err := e.closeInnermost(ctx); err != nil {
			return Info{}, err
		}
	}

	root := e.stack[0]
	id, err := root.writeRest(ctx)
	if err != nil {
		return Info{}, &PathError{"", err}
	}

	return Info{ID: id, Files: e.base.Files + root.files, Bytes: e.base.Bytes + root.bytes}, nil
}

// editEntry moves to path and replaces its entry by the result of change. If create
// is false, it does nothing in a directory that does not exist.
func (e *Editor) editEntry(ctx context.Context, path string, create bool, change func(*openDir, *object.Entry) (*object.Entry, error)) error {
	switch {
	case path == "":
		return &PathError{path, ErrIsRoot}
	case pathDepth(path) > object.MaxDepth:
		return &PathError{path, ErrTooDeep}
	case e.begun && ComparePaths(path, e.last) < 0:
		return &PathError{path, ErrOutOfOrder}
	}

	if err := e.openRoot(ctx); err != nil {
		return err
	}

	e.last = strings.Clone(path)
	dir, name := Split(path)
	for !Below(dir, e.stack[len(e.stack)-1].path) {
		if err := e.closeInnermost(ctx); err != nil {
			return err
		}
	}

	for len(e.stack[len(e.stack)-1].path) < len(dir) {
		if ok, err := e.openNext(ctx, dir, create); err != nil || !ok {
			return err
		}
	}

	d := e.stack[len(e.stack)-1]
	old, err := d.moveTo(ctx, name)
	if err != nil {
		return &PathError{d.path, err}
	}

	d.offered = false
	new, err := change(d, old)
	if err != nil {
		return &PathError{path, err}
	}
	if new != nil {
		new.Name = name
	}

	d.current = new
	return nil
}

// openRoot opens the root directory.
func (e *Editor) openRoot(ctx context.Context) error {
	if e.begun {
		return nil
	}
	root, err := openDirectory(ctx, e.rw, "", e.base.ID)
	if err != nil {
		return &PathError{"", err}
	}
	e.stack, e.begun = append(e.stack, root), true
	return nil
}

// openNext opens the next directory on the way to dir. If it is missing, openNext
// makes it or, without create, reports false.
func (e *Editor) openNext(ctx context.Context, dir string, create bool) (bool, error) {
	d := e.stack[len(e.stack)-1]
	name, _, _ := strings.Cut(strings.TrimPrefix(dir[len(d.path):], "/"), "/")
	path := Join(d.path, name)
	old, err := d.moveTo(ctx, name)
	if err != nil {
		return false, &PathError{d.path, err}
	}

	switch {
	case old == nil && !create, old != nil && old.Type != object.TypeDir && !create:
		return false, nil
	case old == nil:
		if old, err = e.withProperties(ctx, nil, object.Entry{Mode: defaultDirMode}); err != nil {
			return false, &PathError{path, err}
		}
		old.Name = name
		d.current = old
	case old.Type != object.TypeDir:
		return false, &PathError{path, ErrNotDir}
	}

	sub, err := openDirectory(ctx, e.rw, path, old.Content.ID)
	if err != nil {
		return false, &PathError{path, err}
	}

	e.stack = append(e.stack, sub)
	return true, nil
}

// closeInnermost closes the innermost directory and gives its parent its new node.
func (e *Editor) closeInnermost(ctx context.Context) error {
	d := e.stack[len(e.stack)-1]
	e.stack = e.stack[:len(e.stack)-1]
	id, err := d.writeRest(ctx)
	if err != nil {
		return &PathError{d.path, err}
	}

	parent := e.stack[len(e.stack)-1]
	entry := *parent.current
	entry.Content = treeKey(id)
	entry.Files += d.files
	entry.Size += d.bytes
	parent.current = &entry
	return nil
}

// withProperties returns the directory old, or an empty one, with other properties.
func (e *Editor) withProperties(ctx context.Context, old *object.Entry, properties object.Entry) (*object.Entry, error) {
	dir := object.Entry{Type: object.TypeDir, Mode: properties.Mode, MTime: properties.MTime, Meta: properties.Meta, Attrs: properties.Attrs}
	if old != nil && old.Type == object.TypeDir {
		dir.Name, dir.Content, dir.Files, dir.Size = old.Name, old.Content, old.Files, old.Size
		return &dir, nil
	}
	_, data := object.EmptyTree()
	id, err := e.rw.Put(ctx, object.KindTree, data)
	dir.Content = treeKey(id)
	return &dir, err
}

// openDir is an open directory of an [Editor]. Entries before the current name
// are in the new list. Later ones are not read yet.
type openDir struct {
	path  string
	id    object.ID
	base  *cursor
	out   *object.TreeWriter
	dirty bool // out differs from base

	name    string        // the current name, "" before the first
	was     *object.Entry // the entry it had in base
	current *object.Entry // the entry it has now
	offered bool          // remove current if it is an empty directory

	files, bytes uint64 // growth of the totals, modulo 2^64
}

func openDirectory(ctx context.Context, rw object.ReadWriter, path string, id object.ID) (*openDir, error) {
	base, err := newCursor(ctx, rw, path, id)
	if err != nil {
		return nil, err
	}
	return &openDir{path: path, id: id, base: base, out: object.NewTreeWriter(rw)}, nil
}

// moveTo makes name the current name and returns its entry or nil.
func (d *openDir) moveTo(ctx context.Context, name string) (*object.Entry, error) {
	if d.name == name {
		return d.current, nil
	}
	if err := d.writeCurrent(ctx); err != nil {
		return nil, err
	}
	if err := d.copyBase(ctx, name); err != nil {
		return nil, err
	}

	d.name = name
	if !d.base.isPastEnd() && d.base.entry().Name == name {
		d.was = popEntry(d.base)
		d.current = d.was
	}

	return d.current, nil
}

// writeCurrent writes the current entry.
func (d *openDir) writeCurrent(ctx context.Context) error {
	was, now := d.was, d.current
	if d.offered && now != nil && now.Type == object.TypeDir && isEmpty(now.Content.ID) {
		now = nil
	}

	d.name, d.was, d.current, d.offered = "", nil, nil, false
	if (was == nil) != (now == nil) || was != nil && !isIdentical(was, now) {
		d.dirty = true
		oldFiles, oldBytes := totalsOf(was)
		newFiles, newBytes := totalsOf(now)
		d.files += newFiles - oldFiles
		d.bytes += newBytes - oldBytes
	}
	if now == nil {
		return nil
	}

	return d.out.Add(ctx, *now)
}

// copyBase copies entries of base, up to the first that is not before name, or all
// if name is empty. It copies whole nodes unread if the new list would have
// the same nodes.
func (d *openDir) copyBase(ctx context.Context, name string) error {
	c := d.base
	for !c.isPastEnd() {
		height := c.height()
		if height == 0 {
			if name != "" && c.entry().Name >= name {
				return nil
			}
			if err := d.out.Add(ctx, *c.entry()); err != nil {
				return err
			}
			c.next()
			continue
		}
		copied := false
		if (name == "" || c.child().Last < name) && !c.isRightmost() {
			var err error
			if copied, err = d.out.AddNode(ctx, uint8(height), c.child()); err != nil {
				return err
			}
		}
		if copied {
			c.next()
		} else if err := c.enterChild(ctx); err != nil {
			return err
		}
	}

	return nil
}

// writeRest writes the rest of the directory and returns its root node.
func (d *openDir) writeRest(ctx context.Context) (object.ID, error) {
	if err := d.writeCurrent(ctx); err != nil {
		return object.ID{}, err
	}
	if !d.dirty && !d.id.IsZero() {
		return d.id, nil
	}
	if err := d.copyBase(ctx, ""); err != nil {
		return object.ID{}, err
	}
	return d.out.Finish(ctx)
}

var emptyID, _ = object.EmptyTree()

// isEmpty reports whether id is the node of the empty directory.
func isEmpty(id object.ID) bool { return id == emptyID }

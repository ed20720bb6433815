package tree

import (
	"context"

	"github.com/kist-vcs/kist/object"
)

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
	if err := d.flush(ctx); err != nil {
		return nil, err
	}
	if err := d.copy(ctx, name); err != nil {
		return nil, err
	}

	d.name = name
	if !d.base.done() && d.base.entry().Name == name {
		d.was = take(d.base)
		d.current = d.was
	}

	return d.current, nil
}

// flush writes the current entry.
func (d *openDir) flush(ctx context.Context) error {
	was, now := d.was, d.current
	if d.offered && now != nil && now.Type == object.TypeDir && isEmpty(now.Content.ID) {
		now = nil
	}

	d.name, d.was, d.current, d.offered = "", nil, nil, false
	if (was == nil) != (now == nil) || was != nil && !identical(was, now) {
		d.dirty = true
		oldFiles, oldBytes := totals(was)
		newFiles, newBytes := totals(now)
		d.files += newFiles - oldFiles
		d.bytes += newBytes - oldBytes
	}
	if now == nil {
		return nil
	}

	return d.out.Add(ctx, *now)
}

// copy copies entries of base, up to the first that is not before name, or all
// if name is empty. It copies whole nodes unread if the new list would have
// the same nodes.
func (d *openDir) copy(ctx context.Context, name string) error {
	c := d.base
	for !c.done() {
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
		if (name == "" || c.child().Last < name) && !c.rightmost() {
			var err error
			if copied, err = d.out.AddNode(ctx, uint8(height), c.child()); err != nil {
				return err
			}
		}
		if copied {
			c.next()
		} else if err := c.expand(ctx); err != nil {
			return err
		}
	}

	return nil
}

// finish writes the rest of the directory and returns its root node.
func (d *openDir) finish(ctx context.Context) (object.ID, error) {
	if err := d.flush(ctx); err != nil {
		return object.ID{}, err
	}
	if !d.dirty && !d.id.IsZero() {
		return d.id, nil
	}
	if err := d.copy(ctx, ""); err != nil {
		return object.ID{}, err
	}
	return d.out.Finish(ctx)
}

var emptyID, _ = object.EmptyTree()

// isEmpty reports whether id is the node of the empty directory.
func isEmpty(id object.ID) bool { return id == emptyID }

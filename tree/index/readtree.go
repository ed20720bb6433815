package index

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
)

// FromTree returns an Index of what the tree root holds, without stat data.
// The zero ID stands for nothing.
func FromTree(ctx context.Context, r object.Reader, root object.ID) (*Index, error) {
	x := New()
	if err := x.ReadTree(ctx, r, root); err != nil {
		return nil, err
	}
	return x, nil
}

// ReadTree makes the index hold what a tree holds, the zero ID standing for
// nothing, and clears all conflicts and skipped paths. Entries that have the
// same content in both keep their stat data; directories whose tree is known
// to be the one to read are not read. A tree that stands for far too many paths
// gives an error that matches [tree.ErrTooMany]. After an error the index is
// partly changed.
func (x *Index) ReadTree(ctx context.Context, r object.Reader, root object.ID) error {
	return x.ReadTreeAt(ctx, r, "", root)
}

// ReadTreeAt is ReadTree for the directory at path and all below it. Missing
// directories above are made, as [Index.Set] does.
func (x *Index) ReadTreeAt(ctx context.Context, r object.Reader, path string, root object.ID) error {
	depth := 0
	if path != "" {
		if err := checkPath(path); err != nil {
			return err
		}
		depth = 1 + strings.Count(path, "/")
	}
	x.clearNotes(path)
	d := x.makeDirs(path)
	if root.IsZero() {
		x.empty(d)
		return nil
	}
	t := treeReader{x: x, r: r, limit: tree.NewLimit(r, root), todo: []treeDir{{d, root, depth}}}
	for i := 0; i < len(t.todo); i++ {
		if err := t.read(ctx, t.todo[i]); errors.Is(err, tree.ErrTooMany) {
			return err // about all of the tree
		} else if err != nil {
			return fmt.Errorf("read tree of %q: %w", t.todo[i].d.Path(), err)
		}
	}
	for i := len(t.todo) - 1; i >= 0; i-- {
		d := t.todo[i].d
		if d.tree.ID == t.todo[i].tree {
			continue
		}
		d.tree = d.total()
		d.tree.ID = t.todo[i].tree
		x.touch(d)
	}
	return nil
}

// total adds up the totals of what d holds, whose sub-directories' are known.
func (d *Dir) total() (t TreeInfo) {
	for e, sub := range d.Children() {
		if sub != nil {
			t.Files += sub.tree.Files
			t.Bytes += sub.tree.Bytes
		} else {
			t.Files++
			t.Bytes += e.Size
		}
	}
	return t
}

type treeReader struct {
	x     *Index
	r     object.Reader
	limit *tree.Limit
	todo  []treeDir // each directory after the one above it
}

// treeDir is a directory, the tree to read into it, and how deep it lies.
type treeDir struct {
	d     *Dir
	tree  object.ID
	depth int
}

// read reads one directory and notes those in it as to be read.
func (t *treeReader) read(ctx context.Context, td treeDir) error {
	d := td.d
	if d.tree.ID == td.tree {
		return nil
	}
	var old []string // names that have yet to be met or removed
	for e, sub := range d.Children() {
		if sub != nil {
			old = append(old, sub.name)
		} else {
			old = append(old, e.Name)
		}
	}
	for o, err := range object.Entries(ctx, t.r, td.tree) {
		if err != nil {
			return err
		}
		if err := t.limit.Step(ctx); err != nil {
			return err
		}
		for len(old) > 0 && old[0] < o.Name {
			t.x.removeChild(d, old[0])
			old = old[1:]
		}
		if len(old) > 0 && old[0] == o.Name {
			old = old[1:]
		}
		if td.depth >= object.MaxDepth {
			return fmt.Errorf("more than %d directories deep", object.MaxDepth)
		}
		if err := t.child(td, &o); err != nil {
			return err
		}
	}
	for _, name := range old {
		t.x.removeChild(d, name)
	}
	return nil
}

// child puts what a tree has into the directory.
func (t *treeReader) child(td treeDir, o *object.Entry) error {
	if o.Type == object.TypeDir {
		if o.Meta != nil || !o.MTime.IsZero() {
			return errors.New("directory with metadata beyond the portable fields")
		}
		sub := t.x.makeSub(td.d, o.Name)
		t.x.setMode(sub, o.Mode)
		t.todo = append(t.todo, treeDir{sub, o.Content.ID, td.depth + 1})
		return nil
	}
	e := NewEntry(*o, Stat{})
	if err := checkEntry(&e); err != nil {
		return fmt.Errorf("%q: %w", o.Name, err)
	}
	if old := td.d.entries.get(o.Name); old != nil && old.SameContent(&e) {
		e.Stat = old.Stat
	}
	t.x.setEntry(td.d, o.Name, e)
	return nil
}

// removeChild removes the entry or sub-directory of d called name.
func (x *Index) removeChild(d *Dir, name string) {
	if i, ok := d.findSub(name); ok {
		x.dropSub(d, i)
		return
	}
	x.removeEntry(d, name)
}

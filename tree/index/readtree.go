package index

import (
	"context"
	"errors"
	"fmt"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
)

// FromTree returns an Index with the content of the tree root, without stat data. A
// zero ID gives an empty index.
func FromTree(ctx context.Context, r object.Reader, root object.ID) (*Index, error) {
	x := New()
	if err := x.ReadTree(ctx, r, root); err != nil {
		return nil, err
	}
	return x, nil
}

// ReadTree replaces the content of the index by that of a tree, and clears all
// conflicts and skipped paths. A zero ID empties the index. Entries with the same
// content in both keep their stat data. A directory that has the right known tree is
// not read. If r is [object.Lenient], a directory that it passes over is of unknown
// content, see [Index.SetLost].
//
// A tree that stands for far too many paths gives an error that matches
// [tree.ErrTooMany]. After an error the index is partly changed.
func (x *Index) ReadTree(ctx context.Context, r object.Reader, root object.ID) error {
	x.changed = x.clearBelow("") || x.changed
	if root.IsZero() {
		x.empty(x.root)
		return nil
	}

	t := treeReader{x: x, r: r, limit: tree.NewLimit(r, root), todo: []treeDir{{x.root, TreeInfo{ID: root}, 0}}}
	for i := 0; i < len(t.todo); i++ {
		td, known := t.todo[i], len(t.todo)
		err := t.read(ctx, td)
		switch path := td.d.Path(); {
		case errors.Is(err, tree.ErrTooMany):
			return err // it concerns the tree and not one directory
		case i > 0 && object.PassOver(r, path, td.tree.key(), err):
			t.todo = t.todo[:known]
			x.setLost(td.d, td.tree)
		case err != nil:
			return fmt.Errorf("read tree of %q: %w", path, err)
		}
	}

	for i := len(t.todo) - 1; i >= 0; i-- {
		d := t.todo[i].d
		if d.tree.ID == t.todo[i].tree.ID {
			continue
		}
		d.tree = d.total()
		d.tree.ID = t.todo[i].tree.ID
		x.touch(d)
	}
	return nil
}

// total returns the totals of d's tree. The totals of its sub-directories are known.
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

// treeReader is one call of ReadTree.
type treeReader struct {
	x     *Index
	r     object.Reader
	limit *tree.Limit
	todo  []treeDir // a directory comes after the one above it
}

// treeDir is a directory, its depth, and the tree to read into it.
type treeDir struct {
	d     *Dir
	tree  TreeInfo // of the root the ID alone
	depth int
}

// read reads one directory, and adds its sub-directories to the list.
func (t *treeReader) read(ctx context.Context, td treeDir) error {
	d := td.d
	if d.tree.ID == td.tree.ID {
		return nil
	}

	var old []string // the names in d that the tree may not have
	for e, sub := range d.Children() {
		if sub != nil {
			old = append(old, sub.name)
		} else {
			old = append(old, e.Name)
		}
	}

	for o, err := range object.Entries(ctx, t.r, td.tree.ID) {
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

// child puts one child of a tree into the directory.
func (t *treeReader) child(td treeDir, o *object.Entry) error {
	if o.Type == object.TypeDir {
		if o.Meta != nil || !o.MTime.IsZero() {
			return errors.New("directory with metadata beyond the portable fields")
		}
		sub := t.x.makeSub(td.d, o.Name)
		t.x.setMode(sub, o.Mode)
		t.todo = append(t.todo, treeDir{sub, TreeInfo{o.Content.ID, o.Files, o.Size}, td.depth + 1})
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

// CopyTrees copies the known trees of from for directories that have the same content
// in both. So the trees written from an index get into one that was loaded later.
func (x *Index) CopyTrees(from *Index) {
	if x == from {
		return
	}
	type pair struct{ to, from *Dir }
	pairs := []pair{{x.root, from.root}}
	for i := 0; i < len(pairs); i++ {
		p := pairs[i]
		for _, sub := range p.to.subs {
			if !sub.tree.ID.IsZero() {
				continue
			}
			if other := p.from.Subdir(sub.name); other != nil {
				pairs = append(pairs, pair{sub, other})
			}
		}
	}
	for i := len(pairs) - 1; i >= 0; i-- {
		if p := pairs[i]; p.to.tree.ID.IsZero() && !p.from.tree.ID.IsZero() && sameContent(p.to, p.from) {
			p.to.tree = p.from.tree
			x.touch(p.to)
		}
	}
}

// sameContent reports whether two directories make the same tree.
func sameContent(a, b *Dir) bool {
	if b.Lost() {
		return false
	}
	if a.entries.n != b.entries.n || len(a.subs) != len(b.subs) {
		return false
	}
	for i, sub := range a.subs {
		o := b.subs[i]
		if sub.name != o.name || sub.mode != o.mode || sub.tree.ID.IsZero() || sub.tree.ID != o.tree.ID {
			return false
		}
	}
	i, j := 0, 0 // place in b's entries
	for e := range a.entries.all() {
		o := b.entries.blocks[i][j]
		if o.Stat = e.Stat; o != *e {
			return false
		}
		if j++; j == len(b.entries.blocks[i]) {
			i, j = i+1, 0
		}
	}
	return true
}

package index

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

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

// ReadTree replaces the content of the index by the content of a tree, and clears all
// conflicts and skipped paths. A zero ID empties the index. Entries with the same
// content in both keep their stat data. A directory that has the right known tree is
// not read. If r is [object.Lenient] and passes over a directory, the directory is one of
// unknown content, see [Index.SetLost].
//
// A tree that stands for far too many paths gives an error that matches
// [tree.ErrTooMany]. After an error the index is partly changed.
//
// Of a directory that is left out, it replaces only the known tree.
func (x *Index) ReadTree(ctx context.Context, r object.Reader, root object.ID) error {
	return ReadTreeIn(ctx, x, r, root, nil)
}

// readTree is [Index.ReadTree] by t.
func readTree(ctx context.Context, t treeReader, root object.ID) error {
	x := t.x
	x.changed = x.clearBelow("") || x.changed
	if root.IsZero() {
		x.clearDir(x.root)
		return nil
	}

	t.todo = []treeDir{{x.root, tree.Info{ID: root}, 0}}
	for i := 0; i < len(t.todo); i++ {
		td, known := t.todo[i], len(t.todo)
		err := t.readDir(ctx, td)
		switch path := td.d.Path(); {
		case errors.Is(err, tree.ErrTooMany):
			return err // it concerns the tree and not one directory
		case i > 0 && object.PassOver(t.r, path, td.tree.Key(), err):
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
		d.tree = d.sumTotals()
		d.tree.ID = t.todo[i].tree.ID
		x.markDirty(d)
	}

	return nil
}

// sumTotals returns the totals of d's tree. The totals of its sub-directories are known.
func (d *Dir) sumTotals() (t tree.Info) {
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

	leaves func(path string) bool // a new directory at path is left out
}

// treeDir is a directory, its depth, and the tree to read into it.
type treeDir struct {
	d     *Dir
	tree  tree.Info // for the root, only the ID is set
	depth int
}

// readDir reads one directory, and adds its sub-directories to the list.
func (t *treeReader) readDir(ctx context.Context, td treeDir) error {
	d := td.d
	if d.tree.ID == td.tree.ID {
		return nil
	}
	if d.leftOut {
		d.tree = td.tree
		t.x.markDirty(d)
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
		if err := t.putChild(td, &o); err != nil {
			return err
		}
	}

	for _, name := range old {
		t.x.removeChild(d, name)
	}

	return nil
}

// putChild puts one child of a tree into the directory.
func (t *treeReader) putChild(td treeDir, o *object.Entry) error {
	if o.Type == object.TypeDir {
		meta, lossy := encodeMeta(o)
		if lossy || o.Meta == nil && !o.MTime.IsZero() {
			return errors.New("directory with a time, but no metadata")
		}
		known := t.x.dirs
		sub := t.x.makeSub(td.d, o.Name)
		setProperties(t.x, sub, o.Mode, o.MTime, meta)
		if t.x.dirs > known && t.leaves(sub.Path()) {
			setAsLeftOut(t.x, sub)
		}
		t.todo = append(t.todo, treeDir{sub, tree.Info{ID: o.Content.ID, Files: o.Files, Bytes: o.Size}, td.depth + 1})
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
			x.markDirty(p.to)
		}
	}
}

// sameContent reports whether two directories make the same tree.
func sameContent(a, b *Dir) bool {
	if b.Lost() || a.leftOut || b.leftOut {
		return false
	}
	if a.entries.n != b.entries.n || len(a.subs) != len(b.subs) {
		return false
	}
	for i, sub := range a.subs {
		o := b.subs[i]
		if sub.name != o.name || sub.mode != o.mode || sub.mtime != o.mtime || sub.meta != o.meta || sub.tree.ID.IsZero() || sub.tree.ID != o.tree.ID {
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

// WriteTree writes the changed directories as trees, keeps the trees as known trees,
// and returns that of the root. It rewrites known trees that are missing in w. Time and
// memory depend on the size of the change. It returns a [*ConflictError] if there are
// conflicts, and the errors of w.
func (x *Index) WriteTree(ctx context.Context, w object.ReadWriter) (tree.Info, error) {
	if err := Unresolved(x.conflicts); err != nil {
		return tree.Info{}, err
	}

	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxBehind)
	behind := &writeBehind{w, group}
	t := treeWriter{w: behind, written: make(map[*Dir]tree.Info)}
	info, err := t.writeTrees(ctx, x.root)
	if stored := group.Wait(); stored != nil {
		err = stored // the error of root is only its effect
	}
	if err != nil {
		return tree.Info{}, err
	}

	for d, info := range t.written {
		if d.tree != info {
			d.tree = info
			x.markDirty(d)
		}
	}

	return info, nil
}

// PreviewTree writes the same trees as WriteTree, but does not keep them as known trees.
// It ignores conflicts and uses the entries of the index.
func (x *Index) PreviewTree(ctx context.Context, w object.ReadWriter) (tree.Info, error) {
	t := treeWriter{w: w, written: make(map[*Dir]tree.Info)}
	return t.writeTrees(ctx, x.root)
}

// treeWriter writes directories. A directory comes after its sub-directories.
type treeWriter struct {
	w       object.ReadWriter
	written map[*Dir]tree.Info
}

// writeTrees writes the missing trees of d and of all directories below.
func (t *treeWriter) writeTrees(ctx context.Context, d *Dir) (tree.Info, error) {
	todo, err := t.findUnknown(ctx, []*Dir{d})
	if err != nil || len(todo) == 0 {
		return d.tree, err
	}
	type level struct {
		d    *Dir
		subs []*Dir // to write before d
	}

	var stack []level
	down := func(d *Dir) error {
		subs, err := t.findUnknown(ctx, d.subs)
		stack = append(stack, level{d, subs})
		return err
	}

	if err := down(d); err != nil {
		return tree.Info{}, err
	}
	for len(stack) > 0 {
		top := &stack[len(stack)-1]
		if len(top.subs) > 0 {
			sub := top.subs[0]
			top.subs = top.subs[1:]
			if err := down(sub); err != nil {
				return tree.Info{}, err
			}
			continue
		}
		info, err := t.writeDir(ctx, top.d)
		if err != nil {
			return tree.Info{}, fmt.Errorf("write tree of %q: %w", top.d.Path(), err)
		}
		t.written[top.d] = info
		stack = stack[:len(stack)-1]
	}

	return t.written[d], nil
}

// findUnknown returns the directories whose trees are unknown, or missing in the store.
// The tree of a lost directory may be missing, and so may that of one that is left out.
func (t *treeWriter) findUnknown(ctx context.Context, dirs []*Dir) ([]*Dir, error) {
	var keys []object.Key
	for _, d := range dirs {
		if !d.tree.ID.IsZero() {
			keys = append(keys, d.tree.Key())
		}
	}

	gone := make(map[object.Key]bool)
	if len(keys) > 0 {
		missing, err := t.w.Missing(ctx, keys)
		if err != nil {
			return nil, fmt.Errorf("look for trees: %w", err)
		}
		for _, key := range missing {
			gone[key] = true
		}
	}

	var unknown []*Dir
	for _, d := range dirs {
		if d.tree.ID.IsZero() || gone[d.tree.Key()] && !d.Lost() && !d.leftOut {
			unknown = append(unknown, d)
		}
	}

	return unknown, nil
}

// writeDir writes one directory. The trees of its sub-directories are known.
func (t *treeWriter) writeDir(ctx context.Context, d *Dir) (tree.Info, error) {
	var info tree.Info
	w := object.NewTreeWriter(t.w)
	for e, sub := range d.Children() {
		var o object.Entry
		if sub == nil {
			o = e.Object()
			info.Files++
			info.Bytes += o.Size
		} else {
			below, ok := t.written[sub]
			if !ok {
				below = sub.tree
			}
			o = sub.treeEntry(below)
			info.Files += below.Files
			info.Bytes += below.Bytes
		}
		if err := w.Add(ctx, o); err != nil {
			return tree.Info{}, err
		}
	}

	id, err := w.Finish(ctx)
	info.ID = id
	return info, err
}

// treeEntry returns the entry of d in the tree above. T is the tree of d.
func (d *Dir) treeEntry(t tree.Info) object.Entry {
	e := d.Properties()
	e.Size, e.Files, e.Content = t.Bytes, t.Files, t.Key()
	return e
}

// maxBehind is the largest number of nodes that are stored at a time.
const maxBehind = 16

// writeBehind stores objects in the background, since their IDs are known before. The
// objects cannot be read until group.Wait returns. Wait returns the first error, which
// also ends the context.
type writeBehind struct {
	object.ReadWriter
	group *errgroup.Group
}

// Put implements [object.Writer].
func (b *writeBehind) Put(ctx context.Context, kind object.Kind, data []byte) (object.ID, error) {
	data = bytes.Clone(data)
	b.group.Go(func() error {
		_, err := b.ReadWriter.Put(ctx, kind, data)
		return err
	})
	return object.Sum(data), ctx.Err()
}

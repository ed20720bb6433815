package index

import (
	"bytes"
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/kist-vcs/kist/object"
)

// WriteTree writes the changed directories as trees, keeps the trees as known trees,
// and returns that of the root. It rewrites known trees that are missing in w. Time and
// memory depend on the size of the change. It returns a [*ConflictError] if there are
// conflicts, and the errors of w.
func (x *Index) WriteTree(ctx context.Context, w object.ReadWriter) (TreeInfo, error) {
	if len(x.conflicts) > 0 {
		paths := make([]string, len(x.conflicts))
		for i := range x.conflicts {
			paths[i] = x.conflicts[i].Path
		}
		return TreeInfo{}, &ConflictError{paths}
	}

	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxBehind)
	behind := &writeBehind{w, group}
	t := treeWriter{w: behind, written: make(map[*Dir]TreeInfo)}
	info, err := t.root(ctx, x.root)
	if stored := group.Wait(); stored != nil {
		err = stored // the error of root is only its effect
	}
	if err != nil {
		return TreeInfo{}, err
	}

	for d, info := range t.written {
		if d.tree != info {
			d.tree = info
			x.touch(d)
		}
	}
	return info, nil
}

// PreviewTree writes the same trees as WriteTree, but does not keep them as known trees.
// It ignores conflicts and uses the entries of the index.
func (x *Index) PreviewTree(ctx context.Context, w object.ReadWriter) (TreeInfo, error) {
	t := treeWriter{w: w, written: make(map[*Dir]TreeInfo)}
	return t.root(ctx, x.root)
}

// treeWriter writes directories. A directory comes after its sub-directories.
type treeWriter struct {
	w       object.ReadWriter
	written map[*Dir]TreeInfo
}

// root writes the missing trees of d and of all directories below.
func (t *treeWriter) root(ctx context.Context, d *Dir) (TreeInfo, error) {
	todo, err := t.unknown(ctx, []*Dir{d})
	if err != nil || len(todo) == 0 {
		return d.tree, err
	}
	type level struct {
		d    *Dir
		subs []*Dir // to write before d
	}

	var stack []level
	down := func(d *Dir) error {
		subs, err := t.unknown(ctx, d.subs)
		stack = append(stack, level{d, subs})
		return err
	}

	if err := down(d); err != nil {
		return TreeInfo{}, err
	}
	for len(stack) > 0 {
		top := &stack[len(stack)-1]
		if len(top.subs) > 0 {
			sub := top.subs[0]
			top.subs = top.subs[1:]
			if err := down(sub); err != nil {
				return TreeInfo{}, err
			}
			continue
		}
		info, err := t.write(ctx, top.d)
		if err != nil {
			return TreeInfo{}, fmt.Errorf("write tree of %q: %w", top.d.Path(), err)
		}
		t.written[top.d] = info
		stack = stack[:len(stack)-1]
	}
	return t.written[d], nil
}

// unknown returns the directories whose trees are unknown, or missing in the store.
// The tree of a directory of unknown content need not be there.
func (t *treeWriter) unknown(ctx context.Context, dirs []*Dir) ([]*Dir, error) {
	var keys []object.Key
	for _, d := range dirs {
		if !d.tree.ID.IsZero() {
			keys = append(keys, d.tree.key())
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
		if d.tree.ID.IsZero() || gone[d.tree.key()] && !d.Lost() {
			unknown = append(unknown, d)
		}
	}
	return unknown, nil
}

func (t TreeInfo) key() object.Key { return object.Key{Kind: object.KindTree, ID: t.ID} }

// write writes one directory. The trees of its sub-directories are known.
func (t *treeWriter) write(ctx context.Context, d *Dir) (TreeInfo, error) {
	var info TreeInfo
	w := object.NewTreeWriter(t.w)
	for e, sub := range d.Children() {
		var o object.Entry
		if sub == nil {
			o = e.Object()
			info.Files++
			info.Bytes += o.Size
		} else {
			tree, ok := t.written[sub]
			if !ok {
				tree = sub.tree
			}
			o = sub.object(tree)
			info.Files += tree.Files
			info.Bytes += tree.Bytes
		}
		if err := w.Add(ctx, o); err != nil {
			return TreeInfo{}, err
		}
	}
	id, err := w.Finish(ctx)
	info.ID = id
	return info, err
}

// object returns the entry of d in the tree above. T is the tree of d.
func (d *Dir) object(t TreeInfo) object.Entry {
	return object.Entry{Name: d.name, Type: object.TypeDir, Mode: d.mode, Size: t.Bytes, Files: t.Files, Content: t.key()}
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

package index

import (
	"bytes"
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/kist-vcs/kist/object"
)

// WriteTree writes the directories that have changed as trees, remembers these
// in the index, and returns the root's. Trees that are remembered but missing
// in w are written again. Time and memory follow what has changed. While there
// are conflicts it gives a [*ConflictError]; errors of w are passed on.
func (x *Index) WriteTree(ctx context.Context, w object.ReadWriter) (TreeInfo, error) {
	if len(x.conflicts) > 0 {
		paths := make([]string, len(x.conflicts))
		for i := range x.conflicts {
			paths[i] = x.conflicts[i].Path
		}
		return TreeInfo{}, &ConflictError{paths}
	}
	behind := newWriteBehind(ctx, w)
	t := treeWriter{w: behind, written: make(map[*Dir]TreeInfo)}
	info, err := t.root(behind.ctx, x.root)
	if stored := behind.group.Wait(); stored != nil {
		err = stored // the other is only that nothing more was wanted
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

// PreviewTree writes the same trees as WriteTree would, to be looked at, and
// does not remember them. Conflicts do not matter to it: it takes the entries
// that are there.
func (x *Index) PreviewTree(ctx context.Context, w object.ReadWriter) (TreeInfo, error) {
	t := treeWriter{w: w, written: make(map[*Dir]TreeInfo)}
	return t.root(ctx, x.root)
}

// treeWriter writes directories, each after those below it.
type treeWriter struct {
	w       object.ReadWriter
	written map[*Dir]TreeInfo
}

// root writes what is missing of d and all below it.
func (t *treeWriter) root(ctx context.Context, d *Dir) (TreeInfo, error) {
	todo, err := t.unknown(ctx, []*Dir{d})
	if err != nil || len(todo) == 0 {
		return d.tree, err
	}
	type level struct {
		d    *Dir
		subs []*Dir // to be written before d
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

// unknown returns those of dirs whose trees are not known, or not there.
func (t *treeWriter) unknown(ctx context.Context, dirs []*Dir) ([]*Dir, error) {
	var keys []object.Key
	for _, d := range dirs {
		if !d.tree.ID.IsZero() {
			keys = append(keys, d.tree.key())
		}
	}
	lost := make(map[object.Key]bool)
	if len(keys) > 0 {
		missing, err := t.w.Missing(ctx, keys)
		if err != nil {
			return nil, fmt.Errorf("look for trees: %w", err)
		}
		for _, key := range missing {
			lost[key] = true
		}
	}
	var unknown []*Dir
	for _, d := range dirs {
		if d.tree.ID.IsZero() || lost[d.tree.key()] {
			unknown = append(unknown, d)
		}
	}
	return unknown, nil
}

func (t TreeInfo) key() object.Key { return object.Key{Kind: object.KindTree, ID: t.ID} }

// write writes one directory; those below it are known.
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

// object returns the entry of d in the tree above, d's tree being t.
func (d *Dir) object(t TreeInfo) object.Entry {
	return object.Entry{Name: d.name, Type: object.TypeDir, Mode: d.mode, Size: t.Bytes, Files: t.Files, Content: t.key()}
}

// maxBehind is how many nodes are stored at once, at most.
const maxBehind = 16

// writeBehind stores objects while more of them are made: what one is called is
// known before. They cannot be read until group.Wait has returned: it returns
// the first error, which also ends the context.
type writeBehind struct {
	object.ReadWriter
	ctx   context.Context
	group *errgroup.Group
}

func newWriteBehind(ctx context.Context, w object.ReadWriter) *writeBehind {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxBehind)
	return &writeBehind{w, ctx, group}
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

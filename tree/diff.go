package tree

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/kist-vcs/kist/object"
)

// Change is what happened to one path between two versions: Old is nil if it
// was added, New if it was removed.
type Change struct {
	Path string
	Old  *object.Entry
	New  *object.Entry

	// Of a file that was moved (see [DetectRenames]): where Old was, and how
	// much of the content stayed, in percent.
	From       string
	Similarity int
}

// DiffOptions says what [Diff] reports.
type DiffOptions struct {
	// Paths limits the comparison to these repository paths and what is below
	// them. Empty: everything.
	Paths []string

	// Recursive also reports what is below an added or removed directory, not
	// just the directory.
	Recursive bool

	// Paired reports a path that is a directory in one of them only as one
	// change, with Old and New, and not as two.
	Paired bool

	// Exact also reports entries that differ only in what [ContentEqual]
	// ignores: mtime, full metadata in one of them only.
	Exact bool
}

// Diff iterates over the changes from directory a to directory b, in path
// order. A zero ID stands for a directory that does not exist. Of a directory
// in both, only a change of its own mode or metadata is reported, before what
// changed below it. A path that is a directory in one of them only gives two
// changes, unless they are Paired: what was there was removed, what is there
// was added.
//
// Nodes that both directories have are skipped by ID, so time and memory go
// with what changed. An error is yielded once, with a zero Change, and ends
// the iteration; it is a [*PathError] with the path of the directory. Like
// [Walk], Diff gives up with [ErrTooMany].
func Diff(ctx context.Context, r object.Reader, a, b object.ID, opts DiffOptions) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		d := differ{ctx: ctx, r: r, opts: opts, yield: yield, limit: NewLimit(r, a, b)}
		if err := d.run(a, b); err != nil && err != errStopped {
			yield(Change{}, err)
		}
	}
}

// errStopped ends a comparison whose caller has seen enough.
var errStopped = errors.New("stopped")

type differ struct {
	ctx   context.Context
	r     object.Reader
	opts  DiffOptions
	yield func(Change, error) bool
	limit *Limit // counts paths that are not identical, reported or not
	stack []pair // from the outermost directory in
	depth int    // components of the path that the first pair is at
}

// pair is a directory in both versions; one of them may be empty.
type pair struct {
	path string
	a, b *cursor
}

func (d *differ) run(a, b object.ID) error {
	if len(d.opts.Paths) == 0 {
		return d.directory("", a, b)
	}
	paths := slices.SortedFunc(slices.Values(d.opts.Paths), ComparePaths)
	for i, path := range paths {
		if i > 0 && Below(path, paths[i-1]) {
			paths[i] = paths[i-1] // done
			continue
		}
		if path == "" {
			return d.directory("", a, b)
		}
		old, err := d.find(a, path)
		if err != nil {
			return err
		}
		new, err := d.find(b, path)
		if err != nil {
			return err
		}
		if old == nil && new == nil {
			continue
		}
		d.depth = depth(path)
		if err := d.entries(path, old, new); err != nil {
			return err
		}
		if err := d.drain(); err != nil {
			return err
		}
	}
	return nil
}

// find returns the entry at path, or nil.
func (d *differ) find(root object.ID, path string) (*object.Entry, error) {
	if root.IsZero() {
		return nil, nil
	}
	e, err := Find(d.ctx, d.r, root, path)
	if errors.Is(err, ErrNotExist) || errors.Is(err, ErrNotDir) {
		return nil, nil
	}
	if dir, _ := Split(path); object.PassOver(d.r, dir, object.Key{Kind: object.KindTree}, err) {
		return nil, nil
	}
	return &e, err
}

// directory compares two directories with all that is below them.
func (d *differ) directory(path string, a, b object.ID) error {
	if err := d.push(path, a, b); err != nil {
		return err
	}
	return d.drain()
}

// push puts two directories on the stack, to be compared next.
func (d *differ) push(path string, a, b object.ID) error {
	if a == b {
		return nil
	}
	ca, err := newCursor(d.ctx, d.r, path, a)
	if err != nil {
		return &PathError{path, err}
	}
	cb, err := newCursor(d.ctx, d.r, path, b)
	if err != nil {
		return &PathError{path, err}
	}
	d.stack = append(d.stack, pair{path, ca, cb})
	return nil
}

// drain compares what is on the stack.
func (d *differ) drain() error {
	for len(d.stack) > 0 {
		p := d.stack[len(d.stack)-1]
		old, new, err := p.next(d.ctx)
		if err != nil {
			return &PathError{p.path, err}
		}
		if old == nil && new == nil {
			d.stack = d.stack[:len(d.stack)-1]
			continue
		}
		path := Join(p.path, cmp.Or(old, new).Name)
		if d.depth+len(d.stack) > object.MaxDepth {
			return &PathError{path, ErrTooDeep}
		}
		if err := d.entries(path, old, new); err != nil {
			return err
		}
	}
	return nil
}

// next returns copies of the entries of the next name that is not the same in
// both, nil where there is none; both are nil at the end. What both have in
// the same nodes is skipped.
func (p *pair) next(ctx context.Context) (old, new *object.Entry, err error) {
	for {
		if err := p.align(ctx); err != nil {
			return nil, nil, err
		}
		a, b := p.a, p.b
		switch {
		case a.done() && b.done():
			return nil, nil, nil
		case b.done() || !a.done() && a.entry().Name < b.entry().Name:
			return take(a), nil, nil
		case a.done() || b.entry().Name < a.entry().Name:
			return nil, take(b), nil
		case !identical(a.entry(), b.entry()):
			return take(a), take(b), nil
		}
		a.next()
		b.next()
	}
}

// align moves both cursors to entries, or to the end. It steps over nodes that
// both are at, and otherwise reads the higher one, so that the two meet again
// after a difference.
func (p *pair) align(ctx context.Context) error {
	a, b := p.a, p.b
	for {
		ha, hb := a.height(), b.height()
		if ha <= 0 && hb <= 0 {
			return nil
		}
		if ha == hb && a.child().ID == b.child().ID {
			a.next()
			b.next()
			continue
		}
		if ha >= hb {
			if err := a.expand(ctx); err != nil {
				return err
			}
		}
		if hb >= ha {
			if err := b.expand(ctx); err != nil {
				return err
			}
		}
	}
}

// take steps over an entry and returns a copy of it.
func take(c *cursor) *object.Entry {
	e := *c.entry()
	c.next()
	return &e
}

// entries compares the entries of one path, of which one may be nil, and puts
// what is to be compared below them on the stack.
func (d *differ) entries(path string, old, new *object.Entry) error {
	if err := d.limit.Step(d.ctx); err != nil {
		return err
	}
	oldDir, newDir := dirID(old), dirID(new)
	switch {
	case !oldDir.IsZero() && !newDir.IsZero():
		if old.Mode != new.Mode || !sameMetadata(old.Meta, new.Meta) || d.opts.Exact && !sameAttributes(old, new) {
			if err := d.report(path, old, new); err != nil {
				return err
			}
		}
		return d.push(path, oldDir, newDir)
	case oldDir.IsZero() && newDir.IsZero():
		if old == nil || new == nil || !ContentEqual(old, new) || d.opts.Exact && !identical(old, new) {
			return d.report(path, old, new)
		}
		return nil
	}
	if old != nil && new != nil && !d.opts.Paired {
		if err := d.report(path, old, nil); err != nil {
			return err
		}
		old = nil
	}
	if err := d.report(path, old, new); err != nil {
		return err
	}
	if d.opts.Recursive {
		return d.push(path, oldDir, newDir)
	}
	return nil
}

func (d *differ) report(path string, old, new *object.Entry) error {
	if !d.yield(Change{Path: path, Old: old, New: new}, nil) {
		return errStopped
	}
	return nil
}

// dirID returns the root node of an entry that is a directory, or the zero ID.
func dirID(e *object.Entry) object.ID {
	if e == nil || e.Type != object.TypeDir {
		return object.ID{}
	}
	return e.Content.ID
}

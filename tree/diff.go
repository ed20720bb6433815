package tree

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"maps"
	"slices"

	"github.com/kist-vcs/kist/object"
)

// Change is the difference of one path between two versions. Old is nil if the
// path was added, New if it was removed.
type Change struct {
	Path string
	Old  *object.Entry
	New  *object.Entry

	// From and Similarity are set for a moved file (see [DetectRenames]): the
	// path of Old, and the unchanged share of the content, in percent.
	From       string
	Similarity int
}

// IsFolder reports whether the change is of a folder: an empty one came or went, or its
// permission bits changed.
func (c Change) IsFolder() bool {
	e := c.New
	if e == nil {
		e = c.Old
	}
	return e != nil && e.Type == object.TypeDir
}

// Letter returns git's letter for a change: A (added), D (deleted), R (renamed), T (of another
// type) or M (modified).
func (c Change) Letter() byte {
	switch {
	case c.Old == nil:
		return 'A'
	case c.New == nil:
		return 'D'
	case c.From != "":
		return 'R'
	case c.Old.Type != c.New.Type:
		return 'T'
	}
	return 'M'
}

// DiffOptions select the changes that [Diff] reports.
type DiffOptions struct {
	// Paths limits the comparison to these repository paths and the paths
	// below them. Empty means everything.
	Paths []string

	// Recursive also reports the paths below an added or removed directory,
	// not only the directory.
	Recursive bool

	// Paired reports one change, with Old and New, instead of two if a path is
	// a directory on one side only.
	Paired bool

	// Recorded also reports files, symlinks and special files of full metadata that differ
	// only in the modification time or in the files they are hard links of.
	Recorded bool

	// Exact also reports entries that differ only in details that
	// [ContentEqual] ignores: mtime, or full metadata on one side only.
	Exact bool

	// Dirs also reports directories in which only the content differs.
	Dirs bool

	// Whole, if not nil, selects directories that differ as a whole: Diff reports one
	// change for such a directory, even if only its content differs, and reads none of
	// it. It needs Paired.
	Whole func(path string) bool
}

// Diff iterates over the changes from directory a to directory b, in path
// order. A zero ID means a directory that does not exist. For a directory in
// both, it reports only a change of its own mode or metadata, before the
// changes below it. A path that is a directory on one side only gives two
// changes, a removal and an addition, unless Paired is set.
//
// Nodes in both directories are skipped by ID, so time and memory depend on
// the number of changes. An error is yielded once, with a zero Change, and
// ends the iteration. It is a [*PathError] with the path of the directory.
// Like [Walk], Diff may end with [ErrTooMany].
func Diff(ctx context.Context, r object.Reader, a, b object.ID, opts DiffOptions) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		d := differ{r: r, opts: opts, yield: yield, limit: NewLimit(r, a, b)}
		if err := d.diffRoots(ctx, a, b); err != nil && err != errStopped {
			yield(Change{}, err)
		}
	}
}

// errStopped ends a comparison when the caller stops the iteration.
var errStopped = errors.New("stopped")

type differ struct {
	r     object.Reader
	opts  DiffOptions
	yield func(Change, error) bool
	limit *Limit    // counts paths that are not identical, reported or not
	stack []dirPair // from the outermost directory in
	depth int       // components of the path that the first pair is at
}

// dirPair is a directory in both versions; one of them may be empty.
type dirPair struct {
	path string
	a, b *cursor
}

func (d *differ) diffRoots(ctx context.Context, a, b object.ID) error {
	if len(d.opts.Paths) == 0 {
		return d.compareDirs(ctx, "", a, b)
	}

	paths := slices.SortedFunc(slices.Values(d.opts.Paths), ComparePaths)
	for i, path := range paths {
		if i > 0 && Below(path, paths[i-1]) {
			paths[i] = paths[i-1] // compared already
			continue
		}
		if path == "" {
			return d.compareDirs(ctx, "", a, b)
		}
		old, err := d.findEntry(ctx, a, path)
		if err != nil {
			return err
		}
		new, err := d.findEntry(ctx, b, path)
		if err != nil {
			return err
		}
		if old == nil && new == nil {
			continue
		}
		d.depth = pathDepth(path)
		if err := d.compareEntries(ctx, path, old, new); err != nil {
			return err
		}
		if err := d.comparePairs(ctx); err != nil {
			return err
		}
	}

	return nil
}

// findEntry returns the entry at path, or nil.
func (d *differ) findEntry(ctx context.Context, root object.ID, path string) (*object.Entry, error) {
	if root.IsZero() {
		return nil, nil
	}
	e, err := Find(ctx, d.r, root, path)
	if errors.Is(err, ErrNotExist) || errors.Is(err, ErrNotDir) {
		return nil, nil
	}
	if dir, _ := Split(path); object.PassOver(d.r, dir, object.Key{Kind: object.KindTree}, err) {
		return nil, nil
	}
	return &e, err
}

// compareDirs compares two directories with everything below them.
func (d *differ) compareDirs(ctx context.Context, path string, a, b object.ID) error {
	if d.opts.Recursive || !a.IsZero() && !b.IsZero() {
		if err := bringDifference(ctx, d.r, a, b, d.opts.Whole); err != nil {
			return &PathError{path, err}
		}
	}
	if err := d.pushPair(ctx, path, a, b); err != nil {
		return err
	}
	return d.comparePairs(ctx)
}

// pushPair puts two directories on the stack for comparison.
func (d *differ) pushPair(ctx context.Context, path string, a, b object.ID) error {
	if a == b {
		return nil
	}

	ca, err := newCursor(ctx, d.r, path, a)
	if err != nil {
		return &PathError{path, err}
	}

	cb, err := newCursor(ctx, d.r, path, b)
	if err != nil {
		return &PathError{path, err}
	}

	d.stack = append(d.stack, dirPair{path, ca, cb})
	return nil
}

// comparePairs compares the directories on the stack.
func (d *differ) comparePairs(ctx context.Context) error {
	for len(d.stack) > 0 {
		p := d.stack[len(d.stack)-1]
		old, new, err := p.nextDifference(ctx)
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
		if err := d.compareEntries(ctx, path, old, new); err != nil {
			return err
		}
	}

	return nil
}

// nextDifference returns copies of the two entries of the next name that differs. An
// entry is nil if its side does not have the name; both are nil at the end.
// Nodes in both lists are skipped.
func (p *dirPair) nextDifference(ctx context.Context) (old, new *object.Entry, err error) {
	for {
		if err := p.alignCursors(ctx); err != nil {
			return nil, nil, err
		}
		a, b := p.a, p.b
		switch {
		case a.isPastEnd() && b.isPastEnd():
			return nil, nil, nil
		case b.isPastEnd() || !a.isPastEnd() && a.entry().Name < b.entry().Name:
			return popEntry(a), nil, nil
		case a.isPastEnd() || b.entry().Name < a.entry().Name:
			return nil, popEntry(b), nil
		case !isIdentical(a.entry(), b.entry()):
			return popEntry(a), popEntry(b), nil
		}
		a.next()
		b.next()
	}
}

// alignCursors moves both cursors to entries, or to the end. If both stand on the
// same node, it steps over it. Otherwise it reads the higher node, so that the
// cursors meet again after a difference.
func (p *dirPair) alignCursors(ctx context.Context) error {
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
			if err := a.enterChild(ctx); err != nil {
				return err
			}
		}
		if hb >= ha {
			if err := b.enterChild(ctx); err != nil {
				return err
			}
		}
	}
}

// popEntry steps over an entry and returns a copy of it.
func popEntry(c *cursor) *object.Entry {
	e := *c.entry()
	c.next()
	return &e
}

// compareEntries compares the entries of one path and puts directories on the stack.
// One entry may be nil.
func (d *differ) compareEntries(ctx context.Context, path string, old, new *object.Entry) error {
	if err := d.limit.Step(ctx); err != nil {
		return err
	}

	oldDir, newDir := dirID(old), dirID(new)
	switch {
	case oldDir != newDir && d.opts.Whole != nil && d.opts.Whole(path):
		return d.yieldChange(path, old, new)
	case !oldDir.IsZero() && !newDir.IsZero():
		if d.opts.Dirs && oldDir != newDir || d.dirDiffers(old, new) {
			if err := d.yieldChange(path, old, new); err != nil {
				return err
			}
		}
		return d.pushPair(ctx, path, oldDir, newDir)
	case oldDir.IsZero() && newDir.IsZero():
		if d.fileDiffers(old, new) {
			return d.yieldChange(path, old, new)
		}
		return nil
	}

	if old != nil && new != nil && !d.opts.Paired {
		if err := d.yieldChange(path, old, nil); err != nil {
			return err
		}
		old = nil
	}
	if err := d.yieldChange(path, old, new); err != nil {
		return err
	}
	if d.opts.Recursive {
		return d.pushPair(ctx, path, oldDir, newDir)
	}

	return nil
}

// fileDiffers reports whether two entries that are no directories differ. One may be nil.
func (d *differ) fileDiffers(old, new *object.Entry) bool {
	return old == nil || new == nil || !ContentEqual(old, new) || d.opts.Exact && !isIdentical(old, new) || d.opts.Recorded && !sameRecord(old, new)
}

// dirDiffers reports whether two entries of directories differ, apart from content.
func (d *differ) dirDiffers(old, new *object.Entry) bool {
	return old.Mode != new.Mode || !sameMetadata(old.Meta, new.Meta) || !maps.Equal(old.Attrs, new.Attrs) || d.opts.Exact && !sameProperties(old, new)
}

func (d *differ) yieldChange(path string, old, new *object.Entry) error {
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

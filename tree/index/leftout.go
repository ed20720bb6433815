package index

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
)

// ErrLeftOut is matched by every [*LeftOutError].
var ErrLeftOut = errors.New("in a folder that is left out of the worktree")

// LeftOutError is the error for an edit in a directory whose content the index does not
// have. The edit would replace everything else in it.
type LeftOutError struct {
	Path string
	Dir  string // the directory that is left out
}

func (e *LeftOutError) Error() string {
	return fmt.Sprintf("path %q is %v: %q", e.Path, ErrLeftOut, e.Dir)
}

// Is makes errors.Is(err, ErrLeftOut) true.
func (e *LeftOutError) Is(target error) bool { return target == ErrLeftOut }

// LeftOut reports whether the directory is left out of the worktree: it has a known tree,
// and the index does not have its entries and sub-directories.
func (d *Dir) LeftOut() bool { return d.leftOut }

// HasLeftOut reports whether a directory is left out.
func HasLeftOut(x *Index) bool { return x.leftOut > 0 }

// LeavesOut reports whether a directory, or one below it, is left out.
func LeavesOut(d *Dir) bool { return d.leftOut || slices.ContainsFunc(d.subs, LeavesOut) }

// LeftOutDirs yields the directories that are left out, with their paths.
func LeftOutDirs(x *Index) iter.Seq2[string, *Dir] {
	return func(yield func(string, *Dir) bool) {
		if x.leftOut == 0 {
			return
		}
		for path, d := range x.Dirs() {
			if d.leftOut && !yield(path, d) {
				return
			}
		}
	}
}

// LeftOutAt returns the directory that is left out, at path or above it, or nil.
func LeftOutAt(x *Index, path string) *Dir {
	if x.leftOut == 0 {
		return nil
	}
	d := x.root
	for more := path != ""; more && d != nil && !d.leftOut; {
		var name string
		name, path, more = strings.Cut(path, "/")
		d = d.Subdir(name)
	}
	if d == nil || !d.leftOut {
		return nil
	}
	return d
}

// checkNotLeftOut returns a [*LeftOutError] if path lies below a directory that is left out.
// Each edit of a path calls it.
func checkNotLeftOut(x *Index, path string) error {
	dir, _ := tree.Split(path)
	if d := LeftOutAt(x, dir); path != "" && d != nil {
		return &LeftOutError{Path: path, Dir: d.Path()}
	}
	return nil
}

// SetLeftOut puts a directory at path that is left out of the worktree, with the properties
// and the tree of e. It replaces an entry or directory there, as [Index.Set] does. The error is a
// [*tree.PathError] if no tree could hold the path or e, and a [*LeftOutError] below another such
// directory. After an error, nothing is changed.
func SetLeftOut(x *Index, path string, e object.Entry) error {
	if err := tree.CheckPath(path); err != nil {
		return err
	}
	if err := checkNotLeftOut(x, path); err != nil {
		return err
	}
	meta, lossy := encodeMeta(&e)
	t := tree.Info{ID: e.Content.ID, Files: e.Files, Bytes: e.Size}
	if lossy || e.Mode&^0o7777 != 0 || e.MTime.Nsec >= 1e9 || e.Content.Kind != object.KindTree || t.ID.IsZero() {
		return &tree.PathError{Path: path, Err: errors.New("not a directory's entry")}
	}

	x.changed = x.clearBelow(path) || x.changed
	dir, name := tree.Split(path)
	above := x.makeDirs(dir)
	d := above.Subdir(name)
	if d == nil || !d.leftOut {
		if d != nil {
			i, _ := above.findSub(name)
			x.cutSub(above, i)
		}
		d = x.makeSub(above, name)
		setAsLeftOut(x, d)
	}
	if d.tree != t {
		above.forgetTrees()
		d.tree = t
		x.markDirty(d)
	}
	setProperties(x, d, e.Mode, e.MTime, meta)
	return nil
}

// setAsLeftOut makes a new and empty directory one that is left out. The caller sets its tree.
func setAsLeftOut(x *Index, d *Dir) {
	d.leftOut = true
	x.leftOut++
}

// reopen replaces a directory that is left out by an empty one with the same properties and
// known tree, and returns it.
func reopen(x *Index, d *Dir) *Dir {
	above := d.parent
	i, _ := above.findSub(d.name)
	x.cutSub(above, i)
	now := &Dir{name: d.name, parent: above, mode: d.mode, mtime: d.mtime, meta: d.meta, tree: d.tree}
	above.subs = slices.Insert(above.subs, i, now)
	x.dirs++
	x.markDirty(now)
	return now
}

// OpenLeftOut reads the tree of the directory at path, if it is left out. Then the index has
// its entries, without stat data. Its sub-directories are left out. Known trees stay.
// After an error, the index is partly changed.
func OpenLeftOut(ctx context.Context, x *Index, r object.Reader, path string) error {
	d := x.Dir(path)
	if d == nil || !d.leftOut {
		return nil
	}
	t := d.tree
	d = reopen(x, d)
	d.tree = tree.Info{} // so that the edits below forget no tree above
	read := treeReader{x: x, r: r, limit: tree.NewLimit(r, t.ID), leaves: func(string) bool { return true }}
	if err := read.readDir(ctx, treeDir{d, t, strings.Count(path, "/") + 1}); err != nil {
		return fmt.Errorf("read tree of %q: %w", path, err)
	}
	for _, sub := range read.todo {
		sub.d.tree = sub.tree
	}
	d.tree = t
	return nil
}

// ReadTreeIn is [Index.ReadTree], but a new directory outside of the cone is left out. A
// directory that is left out already is left out afterwards, too, if the tree has it.
func ReadTreeIn(ctx context.Context, x *Index, r object.Reader, root object.ID, cone *tree.Cone) error {
	return readTree(ctx, treeReader{x: x, r: r, limit: tree.NewLimit(r, root), leaves: func(path string) bool { return !cone.Has(path) }}, root)
}

// versionOf returns the version of the files of the index.
func versionOf(x *Index) byte {
	if x.leftOut > 0 {
		return versionSparse
	}
	return versionFull
}

package index

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
)

// Set puts e at path, under the name of the path. It replaces the entry at path, or the
// directory with everything below it, and clears the conflicts and skipped paths at
// path and below. It makes missing directories above, and they replace entries with
// their names. Known trees are kept if e changes nothing but stat data.
//
// If no tree could hold the path or the entry, Set changes nothing and returns a
// [*tree.PathError]. In a directory that is left out, the error is a [*LeftOutError].
func (x *Index) Set(path string, e Entry) error {
	if err := tree.CheckPath(path); err != nil {
		return err
	}
	if err := checkEntry(&e); err != nil {
		return &tree.PathError{Path: path, Err: err}
	}
	if err := checkNotLeftOut(x, path); err != nil {
		return err
	}
	x.changed = x.clearBelow(path) || x.changed
	dir, name := tree.Split(path)
	x.setEntry(x.makeDirs(dir), name, e)
	return nil
}

// setEntry is Set for an entry of d, without its checks.
func (x *Index) setEntry(d *Dir, name string, e Entry) {
	old := d.entries.get(name)
	if old == nil {
		if i, ok := d.findSub(name); ok {
			x.dropSub(d, i)
		}
		x.trackEdit(d, name, false)
		e.Name = x.arena.keepString(name)
		d.entries.put(e)
		x.entries++
		x.markDirty(d)
		d.forgetTrees()
		return
	}
	e.Name = old.Name
	if *old == e {
		return
	}
	x.trackEdit(d, name, true)
	stat := *old
	stat.Stat = e.Stat
	*old = e
	x.markDirty(d)
	if stat != e {
		d.forgetTrees()
	}
}

// SetStat replaces the stat data of the entry at path, and reports whether there is
// one. Known trees and conflicts are kept.
func (x *Index) SetStat(path string, st Stat) bool {
	dir, name := tree.Split(path)
	d := x.Dir(dir)
	if d == nil {
		return false
	}
	e := d.entries.get(name)
	if e == nil {
		return false
	}
	if e.Stat != st {
		x.trackEdit(d, name, true)
		e.Stat = st
		x.markDirty(d)
	}
	return true
}

// SetAttrs replaces the attributes of the entry or directory at path. Stat data, conflicts
// and skipped paths stay. The error is a [*tree.PathError]; it matches [fs.ErrNotExist] if
// there is nothing at path.
func (x *Index) SetAttrs(path string, attrs map[string]string) error {
	if err := checkNotLeftOut(x, path); err != nil {
		return err
	}
	dir, name := tree.Split(path)
	d := x.Dir(dir)
	var e *Entry
	var sub *Dir
	if d != nil && path != "" {
		e, sub = d.entries.get(name), d.Subdir(name)
	}

	fits := false
	switch {
	case e != nil:
		changed := *e
		if fits = changed.SetAttrs(attrs); fits {
			x.setEntry(d, name, changed)
		}
	case sub != nil:
		o, meta := sub.Properties(), ""
		o.SetAttrs(attrs)
		if meta, fits = encodeFitting(&o); fits {
			setProperties(x, sub, o.Mode, o.MTime, meta)
		}
	default:
		return &tree.PathError{Path: path, Err: fs.ErrNotExist}
	}
	if !fits {
		return &tree.PathError{Path: path, Err: errors.New("an entry cannot have these attributes beside its other metadata")}
	}
	return nil
}

// SetDir sets the mode, mtime, metadata and attributes of the directory at path ("" is the
// root). It makes the directory, and those above it, as [Index.Set] does. The content of an existing
// directory stays. SetDir clears the conflict and the skipped path at path, but none
// below it.
func (x *Index) SetDir(path string, properties object.Entry) error {
	properties.Type = object.TypeDir
	meta, lossy := encodeMeta(&properties)
	switch {
	case properties.Mode&^0o7777 != 0:
		return &tree.PathError{Path: path, Err: fmt.Errorf("mode %#o has more than permission bits", properties.Mode)}
	case lossy || properties.MTime.Nsec >= 1e9:
		return &tree.PathError{Path: path, Err: errors.New("metadata that a directory cannot have")}
	}

	if path != "" {
		if err := tree.CheckPath(path); err != nil {
			return err
		}
		if err := checkNotLeftOut(x, path); err != nil {
			return err
		}
		x.changed = x.clearAt(path) || x.changed
	}
	setProperties(x, x.makeDirs(path), properties.Mode, properties.MTime, meta)
	return nil
}

func setProperties(x *Index, d *Dir, mode uint16, mtime object.Time, meta string) {
	if !hasMetadata(meta) {
		mtime = object.Time{}
	}
	if d.mode == mode && d.mtime == mtime && d.meta == meta {
		return
	}
	d.mode, d.mtime, d.meta = mode, mtime, meta
	x.markDirty(d)
	if d.parent != nil {
		d.parent.forgetTrees()
	}
}

// Remove removes the entry at path, or the directory with everything below it, and
// clears the conflicts and skipped paths there and below. It reports whether there was
// any of these. The directory above is kept, even if it is empty. Removing "" empties
// the root.
func (x *Index) Remove(path string) bool {
	removed := x.clearBelow(path)
	x.changed = x.changed || removed
	if path == "" {
		return x.clearDir(x.root) || removed
	}
	dir, name := tree.Split(path)
	d := x.Dir(dir)
	if d == nil {
		return removed
	}
	if i, ok := d.findSub(name); ok {
		x.dropSub(d, i)
		return true
	}
	return x.removeEntry(d, name) || removed
}

func (x *Index) removeEntry(d *Dir, name string) bool {
	if d.entries.get(name) == nil {
		return false
	}
	x.trackEdit(d, name, true)
	d.entries.remove(name)
	x.entries--
	x.markDirty(d)
	d.forgetTrees()
	return true
}

// clearDir removes the content of d, and reports whether there was any.
func (x *Index) clearDir(d *Dir) bool {
	if d.entries.n == 0 && len(d.subs) == 0 {
		return false
	}
	for len(d.subs) > 0 {
		x.dropSub(d, len(d.subs)-1)
	}

	for e := range d.entries.all() {
		x.trackEdit(d, e.Name, true)
	}

	x.entries -= d.entries.n
	d.entries = entryList{}
	x.markDirty(d)
	d.forgetTrees()
	return true
}

// dropSub removes the i-th sub-directory of d and everything below it.
func (x *Index) dropSub(d *Dir, i int) {
	x.cutSub(d, i)
	x.markDirty(d)
	d.forgetTrees()
}

// cutSub is dropSub without effect on d and the directories above.
func (x *Index) cutSub(d *Dir, i int) {
	sub := d.subs[i]
	for s := range sub.recorded(true) {
		x.dirs--
		x.entries -= s.entries.n
		if s.leftOut {
			x.leftOut--
		}
	}

	if d.inBase && sub.inBase && !x.fold {
		if d.removed == nil {
			d.removed = make(map[string]struct{})
		}
		d.removed[sub.name] = struct{}{}
		x.tracked++
	}
	d.subs = slices.Delete(d.subs, i, i+1)
}

// makeDirs returns the directory at a checked path. It makes the directory, and those
// above it, if they are missing.
func (x *Index) makeDirs(path string) *Dir {
	d := x.root
	for more := path != ""; more; {
		var name string
		name, path, more = strings.Cut(path, "/")
		d = x.makeSub(d, name)
	}
	return d
}

// makeSub returns the sub-directory of d called name. It makes the directory if it is
// missing, and replaces an entry of that name.
func (x *Index) makeSub(d *Dir, name string) *Dir {
	i, ok := d.findSub(name)
	if ok {
		return d.subs[i]
	}
	x.removeEntry(d, name)
	sub := &Dir{name: x.arena.keepString(name), parent: d, mode: defaultDirMode}
	d.subs = slices.Insert(d.subs, i, sub)
	x.dirs++
	x.markDirty(sub)
	d.forgetTrees()
	return sub
}

// Move moves the entry at from, or the directory with everything below it, to the path
// to. It replaces the entry or directory there, and makes missing directories above,
// as [Index.Set] does. The moved stat data and known trees are kept. Move clears the
// conflicts and skipped paths at both paths and below.
//
// An error is a [*tree.PathError], and then nothing is changed. It matches [fs.ErrNotExist]
// if there is nothing at from.
func (x *Index) Move(from, to string) error {
	for _, path := range []string{from, to} {
		if err := tree.CheckPath(path); err != nil {
			return err
		}
		if err := checkNotLeftOut(x, path); err != nil {
			return err
		}
	}

	dir, name := tree.Split(from)
	d := x.Dir(dir)
	if d == nil || d.entries.get(name) == nil && d.Subdir(name) == nil {
		return &tree.PathError{Path: from, Err: fs.ErrNotExist}
	}
	switch {
	case from == to:
		return nil
	case tree.Below(to, from):
		return &tree.PathError{Path: to, Err: fmt.Errorf("lies in %q, which is to be moved there", from)}
	case tree.Below(from, to):
		return &tree.PathError{Path: to, Err: fmt.Errorf("holds %q, which is to be moved there", from)}
	}

	if e := d.entries.get(name); e != nil {
		moved := *e
		x.Remove(from)
		return x.Set(to, moved)
	}

	sub := d.Subdir(name)
	if strings.Count(to, "/")+1+sub.pathDepth() > object.MaxDepth {
		return &tree.PathError{Path: to, Err: errors.New("too deep for the directory to be moved there")}
	}
	x.Remove(from)
	x.Remove(to)
	x.attachDir(to, sub)
	return nil
}

// pathDepth returns the largest number of names in a path below d, 0 if d is empty.
func (d *Dir) pathDepth() int {
	height := 0
	levels := []*Dir{d}
	for ; len(levels) > 0; height++ {
		var next []*Dir
		entries := false
		for _, l := range levels {
			next = append(next, l.subs...)
			entries = entries || l.entries.n > 0
		}
		if len(next) == 0 && !entries {
			break
		}
		levels = next
	}

	return height
}

// attachDir puts a directory that was removed at a free path.
func (x *Index) attachDir(path string, sub *Dir) {
	dir, name := tree.Split(path)
	d := x.makeDirs(dir)
	i, _ := d.findSub(name)
	sub.name, sub.parent = x.arena.keepString(name), d
	for s := range sub.recorded(true) {
		s.dirty, s.inBase, s.edits, s.removed = true, false, nil, nil
		x.dirs++
		x.entries += s.entries.n
		if s.leftOut {
			x.leftOut++
		}
	}

	d.subs = slices.Insert(d.subs, i, sub)
	x.markDirty(d)
	d.forgetTrees()
}

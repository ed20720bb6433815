package index

import (
	"fmt"
	"slices"
	"strings"
)

// Set puts an entry at path, whatever its Name says, in place of what is
// there: an entry, or a directory with all below it. Missing directories above
// are made, in place of entries of their names. It clears the conflicts and
// skipped paths at the path and below it. If only the stat data differ from the entry that is
// there, cached trees stay. A path or entry that no tree could hold is a
// [*PathError], and changes nothing.
func (x *Index) Set(path string, e Entry) error {
	if err := checkPath(path); err != nil {
		return err
	}
	if err := checkEntry(&e); err != nil {
		return &PathError{path, err}
	}
	x.clearNotes(path)
	dir, name := split(path)
	x.setEntry(x.makeDirs(dir), name, e)
	return nil
}

func (x *Index) setEntry(d *Dir, name string, e Entry) {
	old := d.entries.get(name)
	if old == nil {
		if i, ok := d.findSub(name); ok {
			x.dropSub(d, i)
		}
		x.track(d, name, false)
		e.Name = x.arena.keep(name)
		d.entries.put(e)
		x.entries++
		x.touch(d)
		d.forget()
		return
	}
	e.Name = old.Name
	if *old == e {
		return
	}
	x.track(d, name, true)
	stat := *old
	stat.Stat = e.Stat
	*old = e
	x.touch(d)
	if stat != e {
		d.forget()
	}
}

// SetStat replaces the stat data of the entry at path and reports whether
// there is one. Cached trees and conflicts stay.
func (x *Index) SetStat(path string, st Stat) bool {
	dir, name := split(path)
	d := x.Dir(dir)
	if d == nil {
		return false
	}
	e := d.entries.get(name)
	if e == nil {
		return false
	}
	if e.Stat != st {
		x.track(d, name, true)
		e.Stat = st
		x.touch(d)
	}
	return true
}

// SetDir makes sure that there is a directory at path ("" is the root) and
// sets its permission bits. An entry at path goes, and missing directories
// above are made, as [Index.Set] does. What a directory holds stays. It clears
// the path's own conflict, and that it was skipped.
func (x *Index) SetDir(path string, mode uint16) error {
	if mode&^0o7777 != 0 {
		return &PathError{path, fmt.Errorf("mode %#o is not of permission bits", mode)}
	}
	if path != "" {
		if err := checkPath(path); err != nil {
			return err
		}
		x.clearOwnNotes(path)
	}
	x.setMode(x.makeDirs(path), mode)
	return nil
}

func (x *Index) setMode(d *Dir, mode uint16) {
	if d.mode == mode {
		return
	}
	d.mode = mode
	x.touch(d)
	if d.parent != nil {
		d.parent.forget()
	}
}

// Remove removes what is at path, an entry or a directory with all below it,
// and clears the conflicts and skipped paths there and below. It reports whether there was
// anything. The directory above stays, even if it is empty now. Removing ""
// empties the root.
func (x *Index) Remove(path string) bool {
	removed := x.clearNotes(path)
	if path == "" {
		return x.empty(x.root) || removed
	}
	dir, name := split(path)
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
	x.track(d, name, true)
	d.entries.remove(name)
	x.entries--
	x.touch(d)
	d.forget()
	return true
}

// empty removes all that d holds and reports whether it held anything.
func (x *Index) empty(d *Dir) bool {
	if d.entries.n == 0 && len(d.subs) == 0 {
		return false
	}
	for len(d.subs) > 0 {
		x.dropSub(d, len(d.subs)-1)
	}
	for e := range d.entries.all() {
		x.track(d, e.Name, true)
	}
	x.entries -= d.entries.n
	d.entries = list{}
	x.touch(d)
	d.forget()
	return true
}

// dropSub removes d's i-th sub-directory and all below it.
func (x *Index) dropSub(d *Dir, i int) {
	x.cutSub(d, i)
	x.touch(d)
	d.forget()
}

// cutSub is dropSub but for what an edit means for the directories above.
func (x *Index) cutSub(d *Dir, i int) {
	sub := d.subs[i]
	for s := range sub.recorded(true) {
		x.dirs--
		x.entries -= s.entries.n
	}
	if d.inBase && sub.inBase && !x.fold {
		if d.lost == nil {
			d.lost = make(map[string]struct{})
		}
		d.lost[sub.name] = struct{}{}
		x.tracked++
	}
	d.subs = slices.Delete(d.subs, i, i+1)
}

// makeDirs returns the directory at a path that has been checked, and makes
// what is missing of it.
func (x *Index) makeDirs(path string) *Dir {
	d := x.root
	for more := path != ""; more; {
		var name string
		name, path, more = strings.Cut(path, "/")
		d = x.makeSub(d, name)
	}
	return d
}

// makeSub returns d's sub-directory called name, and makes it if there is
// none, in place of an entry of that name.
func (x *Index) makeSub(d *Dir, name string) *Dir {
	i, ok := d.findSub(name)
	if ok {
		return d.subs[i]
	}
	x.removeEntry(d, name)
	sub := &Dir{name: x.arena.keep(name), parent: d, mode: DefaultDirMode}
	d.subs = slices.Insert(d.subs, i, sub)
	x.dirs++
	x.touch(sub)
	d.forget()
	return sub
}

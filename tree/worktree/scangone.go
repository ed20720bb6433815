package worktree

import (
	"io/fs"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
)

// addUnseen reports the names of the folder that are only in the index.
func (d *dirScan) addUnseen() {
	if d.only != nil || d.tracked == nil || d.seen == d.tracked.Len()+len(d.tracked.Subdirs()) {
		return
	}

	there := make(map[string]struct{}, len(d.list.entries))
	for i := range d.list.entries {
		there[d.list.name(i)] = struct{}{}
	}

	for entry, sub := range d.tracked.Children() {
		switch {
		case entry != nil:
			if _, ok := there[entry.Name]; !ok {
				d.report(entry.Name, Found{State: Deleted, Old: entry})
			}
		default:
			if _, ok := there[sub.Name()]; !ok {
				d.deleted(sub.Name(), sub)
			}
		}
	}
}

// deleted reports a folder and everything that the index has below it.
func (d *dirScan) deleted(name string, sub *index.Dir) {
	item := d.report(name, Found{State: Deleted, Dir: true})
	item.below = new(scanned)
	d.deleteBelow(item.below, item.found.Path, sub)
}

// deleteBelow reports everything that the index has below a folder.
func (d *dirScan) deleteBelow(out *scanned, path string, dir *index.Dir) {
	for entry, sub := range dir.Children() {
		item := scanItem{}
		if entry != nil {
			item.name = entry.Name
			item.found = d.keep(Found{Path: tree.Join(path, entry.Name), State: Deleted, Old: entry})
		} else {
			item.name = sub.Name()
			item.found = d.keep(Found{Path: tree.Join(path, sub.Name()), State: Deleted, Dir: true})
			item.below = new(scanned)
			d.deleteBelow(item.below, item.found.Path, sub)
		}
		out.items = append(out.items, item)
	}
}

// missing reports a selected name that does not exist, or that is no folder
// though a path below it was selected.
func (d *dirScan) missing(n *scanName) {
	name := n.name
	switch {
	case n.kid != nil:
		path := d.join(name)
		item := scanItem{name: path[len(path)-len(name):], below: new(scanned)}
		d.missingBelow(item.below, path, n.sub, n.kid)
		d.out.items = append(d.out.items, item)
	case n.entry != nil:
		d.report(name, Found{State: Deleted, Old: n.entry})
	case n.sub != nil:
		d.deleted(name, n.sub)
	default:
		path := d.join(name)
		d.report(name, Found{State: Absent, Err: pathError("stat", path, fs.ErrNotExist)})
	}
}

func (d *dirScan) missingBelow(out *scanned, path string, dir *index.Dir, only *selection) {
	for name, kid := range only.kids {
		at := tree.Join(path, name)
		item := scanItem{name: name}
		var sub *index.Dir
		var entry *index.Entry
		if dir != nil {
			sub, entry = dir.Subdir(name), dir.Entry(name)
		}
		switch {
		case kid != nil:
			item.below = new(scanned)
			d.missingBelow(item.below, at, sub, kid)
		case entry != nil:
			item.found = d.keep(Found{Path: at, State: Deleted, Old: entry})
		case sub != nil:
			item.found = d.keep(Found{Path: at, State: Deleted, Dir: true})
			item.below = new(scanned)
			d.deleteBelow(item.below, at, sub)
		default:
			item.found = d.keep(Found{Path: at, State: Absent, Err: pathError("stat", at, fs.ErrNotExist)})
		}
		out.items = append(out.items, item)
	}
}

// has reports whether a name may be in the folder. It is sure only if the folder was listed.
func (d *dirScan) has(name string) bool {
	if d.only != nil {
		return true // the folder was not listed
	}
	for i := range d.list.entries {
		if int(d.list.entries[i].size) == len(name) && d.list.name(i) == name {
			return true
		}
	}
	return false
}

// ignores reports whether an untracked name is ignored.
func (d *dirScan) ignores(name string, isDir bool) bool {
	switch {
	case d.ignored:
		return true
	case d.o.IncludeIgnored:
		return false
	case d.isCache && name != CacheTag:
		return true
	}
	ignored, _ := d.matcher.Match(d.join(name), isDir)
	return ignored
}

// readIgnoreFile adds the folder's own patterns to those of its parents.
func (d *dirScan) readIgnoreFile() {
	d.badIgnore = false
	if d.ignored || d.o.IncludeIgnored || !d.has(IgnoreFile) {
		return
	}

	path := d.join(IgnoreFile)
	patterns, err := readPatterns(d.folder, d.path)
	switch {
	case err != nil:
		d.badIgnore = true
		d.report(IgnoreFile, Found{State: Unreadable, Type: object.TypeFile, Old: d.trackedEntry(IgnoreFile), Err: pathError("read", path, err)})
	case patterns != nil:
		d.matcher = d.matcher.Push(patterns)
	}
}

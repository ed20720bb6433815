package worktree

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree/index"
)

// dirScan scans folders one after the other, in one goroutine.
type dirScan struct {
	*scanner
	*scanTask
	list   listing
	folder folder
	block  []Found // memory for results
	subs   []*scanTask
	count  int
	seen   int // tracked names that exist

	isCache   bool // the folder is a cache and its content is ignored
	badIgnore bool // the ignore file was reported as unreadable
}

// scan compares the selected names of a folder with the index.
func (d *dirScan) scan(t *scanTask) {
	d.scanTask, d.subs, d.count, d.seen = t, d.subs[:0], 0, 0
	if err := d.open(); err != nil {
		d.unreadable(err)
		return
	}
	defer d.folder.Close()
	d.readIgnoreFile()
	d.isCache = d.o.ExcludeCaches && d.has(CacheTag) && isCacheTag(d.folder)
	d.allNames()
	if d.failure() == nil {
		d.addUnseen()
	}
}

// names compares names from up to to of the listing.
func (d *dirScan) names(from, to int) {
	for i := from; i < to; i++ {
		if i%1024 == 1023 && d.failure() != nil {
			return
		}
		if d.only == nil {
			d.name(i, d.list.name(i), nil, false)
		} else if name := d.list.name(i); d.only.kids[name] != nil {
			d.name(i, name, d.only.kids[name], false)
		} else {
			d.name(i, name, nil, true)
		}
	}
}

// open opens the task's folder and lists its names, or only the selected ones.
func (d *dirScan) open() (err error) {
	if d.folder, err = d.w.openFolder(d.path); err != nil {
		return err
	}
	if d.only != nil {
		d.list.reset()
		for name := range d.only.kids {
			d.list.add(name, 0)
		}
		return nil
	}

	err = d.folder.list(&d.list)

	// Sorted names match the order of the index, and often that in which the
	// files were made. So lookups jump less through memory, here and in the
	// system.
	d.list.sort()
	if err == nil && d.depth >= object.MaxDepth && len(d.list.entries) > 0 {
		err = fmt.Errorf("it contains paths more than %d folders deep", object.MaxDepth)
	}
	if err != nil {
		d.folder.Close()
		err = pathError("read", d.path, err)
	}

	return err
}

// unreadable reports the task's folder as unreadable or deleted.
func (d *dirScan) unreadable(err error) {
	d.out.replaces = true
	switch {
	case d.path != "" && errors.Is(err, fs.ErrNotExist): // removed since its parent was listed
		if d.tracked != nil {
			d.out.self = &Found{Path: d.path, State: Deleted, Dir: true}
			d.deleteBelow(d.out, d.path, d.tracked)
		}
	default:
		d.out.self = &Found{Path: d.path, State: Unreadable, Type: object.TypeDir, Dir: true, Err: err}
	}
	d.count++
}

// name compares name i of the listing with the index. If only part of the
// content below it is selected, kid is that part. Leaf means that the name
// itself is a selected path.
func (d *dirScan) name(i int, name string, kid *selection, leaf bool) {
	if d.path == "" && name == d.w.opt.RepoName || name == IgnoreFile && d.badIgnore {
		if d.trackedEntry(name) != nil {
			d.seen++
		}
		return
	}

	kind := d.list.entries[i].kind
	entry, sub := d.lookup(name, kind)
	known := entry != nil || sub != nil
	if !known && !leaf && d.o.NoUntracked {
		return
	}
	if err := object.CheckName(name); err != nil {
		f := Found{State: Nested, Dir: kind == modeDir, Err: err}
		if len(name) > object.MaxNameSize {
			f.State = Unreadable
		}
		d.report(name, f)
		return
	}

	var st fileStat
	var err error
	if kind == 0 {
		st, err = d.folder.listed(&d.list, i)
		kind = st.mode & modeType
	}

	ignored := err == nil && (!known || sub != nil) && d.ignores(name, kind == modeDir)
	if !known && ignored && !leaf && kid == nil && !d.o.ListIgnored {
		return
	}
	if err == nil && st.mode == 0 {
		st, err = d.folder.listed(&d.list, i)
	}

	switch {
	case err == nil && kid != nil && !st.isDir():
		d.missing(name, entry, sub, kid)
	case err == nil:
		if known {
			d.seen++
		}
		d.compare(name, &st, entry, sub, kid, ignored)
	case errors.Is(err, fs.ErrNotExist): // selected, or removed since the folder was listed
		if known {
			d.seen++
		}
		if known || d.only != nil {
			d.missing(name, entry, sub, kid)
		}
	default:
		if known {
			d.seen++
		}
		path := d.join(name)
		d.report(name, Found{State: Unreadable, Old: entry, Err: pathError("stat", path, err)})
	}
}

// lookup returns the index's entry or folder of a name, or neither.
func (d *dirScan) lookup(name string, kind uint32) (*index.Entry, *index.Dir) {
	if d.tracked == nil {
		return nil, nil
	}
	if kind == modeDir {
		if sub := d.tracked.Subdir(name); sub != nil {
			return nil, sub
		}
	}
	if entry := d.tracked.Entry(name); entry != nil || kind == modeDir {
		return entry, nil
	}
	return nil, d.tracked.Subdir(name)
}

func (d *dirScan) trackedEntry(name string) *index.Entry {
	if d.tracked == nil {
		return nil
	}
	return d.tracked.Entry(name)
}

// compare reports a name if it differs from the index.
func (d *dirScan) compare(name string, st *fileStat, entry *index.Entry, sub *index.Dir, kid *selection, ignored bool) {
	stat := st.indexStat(0)
	if entry != nil && entry.Stat.Same(stat) && !entry.Stat.Racy() {
		return
	}

	f := Found{Type: st.entryType(), Dir: st.isDir(), Mode: st.perm(), Stat: stat, Old: entry}
	switch {
	case entry != nil && entry.Type == f.Type:
		f.Mode = d.w.opt.recorded(f.Mode, entry.Mode)
	case sub != nil && f.Dir:
		f.Mode = d.w.opt.recorded(f.Mode, sub.Mode())
	}

	switch {
	case st.isDir() && d.w.isRepo(st):
		f.State = Nested
		d.report(name, f)
		return
	case st.isDir():
		d.compareDir(name, f, sub, kid, ignored)
		return
	case f.Type != object.TypeFile && f.Type != object.TypeSymlink:
		f.State = Special
	case entry != nil && entry.Type == f.Type:
		f.State = Modified
	case entry != nil || sub != nil:
		f.State = TypeChanged
	case ignored:
		f.State = Ignored
	default:
		f.State = Untracked
	}
	if entry == nil && sub == nil && d.o.NoUntracked {
		return
	}

	item := d.report(name, f)
	if sub != nil {
		item.below = new(scanned)
		d.deleteBelow(item.below, item.found.Path, sub)
	}
}

// compareDir is compare for folders.
func (d *dirScan) compareDir(name string, f Found, sub *index.Dir, kid *selection, ignored bool) {
	switch {
	case sub != nil && (sub.Mode() == f.Mode || kid != nil):
	case sub != nil:
		f.State = ModeChanged
	case f.Old != nil:
		f.State = TypeChanged
	case d.o.NoUntracked:
		if kid != nil {
			d.missing(name, nil, nil, kid)
		}
		return
	case ignored:
		f.State = Ignored
	default:
		f.State = Untracked
	}

	path := d.join(name)
	item := scanItem{name: path[len(path)-len(name):]}
	if f.State != 0 && (kid == nil || f.State != Ignored) {
		f.Path = path
		item.found = d.keep(f)
	}
	if sub != nil || !d.o.CollapseUntracked || kid != nil && ignored {
		item.below = new(scanned)
		d.subs = append(d.subs, &scanTask{
			path: path, depth: d.depth + 1, tracked: sub, only: kid, matcher: d.matcher, ignored: ignored, out: item.below,
		})
	}
	if item.found != nil || item.below != nil {
		d.out.items = append(d.out.items, item)
	}
}

// join returns the path of a name in the folder. The result never shares
// memory with the name, which may belong to the listing.
func (d *dirScan) join(name string) string {
	if d.path == "" {
		return strings.Clone(name)
	}
	return d.path + "/" + name
}

// report adds the result for a name.
func (d *dirScan) report(name string, f Found) *scanItem {
	f.Path = d.join(name)
	d.out.items = append(d.out.items, scanItem{name: f.Path[len(f.Path)-len(name):], found: d.keep(f)})
	return &d.out.items[len(d.out.items)-1]
}

// keep copies f into a block of many, to save allocations.
func (d *dirScan) keep(f Found) *Found {
	if len(d.block) == cap(d.block) {
		d.block = make([]Found, 0, 64)
	}
	d.block = append(d.block, f)
	d.count++
	return &d.block[len(d.block)-1]
}

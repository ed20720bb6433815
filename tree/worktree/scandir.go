package worktree

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
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

	marker    string   // the file that excludes the rest of the folder; "": none
	dev       uint64   // the folder's file system
	badIgnore []string // the ignore files that were reported as unreadable
}

// scanFolder compares the selected names of a folder with the index.
func (d *dirScan) scanFolder(t *scanTask) {
	d.scanTask, d.subs, d.count, d.seen = t, d.subs[:0], 0, 0
	if err := d.openAndList(); err != nil {
		d.reportUnreadable(err)
		return
	}
	defer d.folder.Close()

	if d.isRoot && !d.o.EmptyRoots && d.only == nil && len(d.list.entries) == 0 && d.tracked != nil && d.tracked.Len()+len(d.tracked.Subdirs()) > 0 {
		d.reportUnreadable(pathError("read", d.path, ErrEmptyRoot))
		return
	}
	d.readIgnoreFiles()
	d.marker = d.findMarker()
	d.readSelf()
	d.allNames()
	if d.firstError() == nil {
		d.addUnseen()
	}
}

// readSelf notes the folder's file system, and the folder if it is an anchor.
func (d *dirScan) readSelf() {
	d.dev = 0
	if !d.o.Exclude.OneFileSystem && d.o.Anchors == nil {
		return
	}
	if st, err := d.folder.lstat(""); err == nil {
		d.dev = st.dev
		d.noteAnchor(&st)
	}
}

// compareNames compares names from up to to of the listing.
func (d *dirScan) compareNames(from, to int) {
	for i := from; i < to; i++ {
		if i%1024 == 1023 && d.firstError() != nil {
			return
		}
		name := d.list.nameAt(i)
		if d.only == nil {
			d.compareName(i, name, nil, false)
			continue
		}
		kid := d.only.children[name]
		d.compareName(i, name, kid, kid == nil)
	}
}

// openAndList opens the task's folder and lists its names, or only the selected ones.
func (d *dirScan) openAndList() (err error) {
	if d.folder, err = d.w.openFolder(d.path); err != nil {
		return err
	}
	if names := cmp.Or(d.only, d.roots); names != nil {
		d.list.reset()
		for name := range names.children {
			d.list.addName(name, 0)
		}
		return nil
	}

	err = d.folder.readNames(&d.list)

	// Sorted names match the order of the index, and often that in which the
	// files were made. So lookups jump less through memory, here and in the
	// system.
	d.list.sortNames()
	if err == nil && d.depth >= object.MaxDepth && len(d.list.entries) > 0 {
		err = fmt.Errorf("it contains paths more than %d folders deep", object.MaxDepth)
	}
	if err != nil {
		d.folder.Close()
		err = pathError("read", d.path, err)
	}

	return err
}

// reportUnreadable reports the task's folder as unreadable or deleted.
func (d *dirScan) reportUnreadable(err error) {
	d.out.replaces = true
	switch {
	case d.leftOut && errors.Is(err, fs.ErrNotExist):
	case d.path != "" && errors.Is(err, fs.ErrNotExist): // removed since its parent was listed
		if d.tracked == nil && d.o.Anchors != nil || d.tracked != nil && !index.LeavesOut(d.tracked) {
			d.out.self = &Found{Path: d.path, State: Deleted, Dir: true, Vanished: true}
		}
		if d.tracked != nil {
			d.deleteBelow(d.out, d.path, d.tracked, false)
		}
	default:
		d.out.self = &Found{Path: d.path, State: Unreadable, Type: object.TypeDir, Dir: true, Err: err}
	}
	d.count++
}

// scanName is a name in a folder that is compared with the index.
type scanName struct {
	name    string
	entry   *index.Entry // the index's entry, or nil
	sub     *index.Dir   // the index's folder, or nil
	kid     *selection   // the selected part of the content below it; nil: all
	roots   *selection   // the roots below it; nil: all
	ignored bool
	mounted bool // another file system is mounted there, and excluded

	excluded, vanished bool // the reason why it is missing, see [Found]
}

// trackedName returns the name of one of [index.Dir.Children].
func trackedName(entry *index.Entry, sub *index.Dir) scanName {
	if entry != nil {
		return scanName{name: entry.Name, entry: entry}
	}
	return scanName{name: sub.Name(), sub: sub}
}

// isTracked reports whether the index has the name.
func (n *scanName) isTracked() bool { return n.entry != nil || n.sub != nil }

// compareName compares name i of the listing with the index. If only part of the
// content below it is selected, kid is that part. Leaf means that the name
// itself is a selected path.
func (d *dirScan) compareName(i int, name string, kid *selection, leaf bool) {
	kind := d.list.entries[i].kind
	n := scanName{name: name, kid: kid}
	n.entry, n.sub = d.findTracked(name, kind)
	if d.skipsName(&n) || d.hidesGit(&n, leaf) {
		return
	}
	if !n.isTracked() && !leaf && d.o.NoUntracked {
		return
	}
	if err := object.CheckName(name); err != nil {
		f := Found{State: Nested, Dir: kind == modeDir, Err: err}
		if len(name) > object.MaxNameSize {
			f.State = Unreadable
		}
		d.addFound(name, f)
		return
	}

	var st fileStat
	var err error
	if kind == 0 {
		st, err = d.folder.lstatListed(&d.list, i)
		kind = st.mode & modeType
	}
	n.ignored = err == nil && n.entry == nil && d.isIgnored(&n, kind == modeDir)
	if !n.isTracked() && n.ignored && !leaf && kid == nil && !d.o.ListIgnored {
		return
	}
	if err == nil && st.mode == 0 {
		st, err = d.folder.lstatListed(&d.list, i)
	}
	if err == nil && d.excludeName(&n, &st, leaf) {
		return
	}
	d.judgeName(&n, &st, err)
}

// excludeName applies [ScanOptions.Exclude] to a name. It reports whether nothing else has to
// be done for the name.
func (d *dirScan) excludeName(n *scanName, st *fileStat, leaf bool) bool {
	if d.o.IncludeIgnored {
		return false
	}
	if d.o.Exclude.OneFileSystem && d.roots == nil && d.dev != 0 && !leaf && st.isDir() && st.dev != d.dev {
		d.leaveMount(n)
	}
	switch {
	case !d.excludesName(n.name, st):
		return false
	case n.isTracked() && d.o.Exclude.Drop:
		d.seen++
		n.excluded = true
		d.reportMissing(n)
		return true
	case n.isTracked():
		n.ignored = n.ignored || n.entry == nil
		return false
	}

	n.ignored = true
	return !leaf && n.kid == nil && !d.o.ListIgnored
}

// leaveMount leaves out a folder where another file system is mounted, except the roots at
// or below it.
func (d *dirScan) leaveMount(n *scanName) {
	path := d.joinPath(n.name)
	var below []string
	for _, root := range d.w.opt.Roots {
		switch {
		case root == path:
			return
		case tree.Below(root, path):
			below = append(below, root[len(path)+1:])
		}
	}

	n.roots, _ = newSelection(below) // Scan has checked all roots
	n.mounted = n.roots == nil
}

// leavesOut reports whether a name is the repository's own folder, or an ignore file that
// was reported as unreadable.
func (d *dirScan) leavesOut(name string) bool {
	return name == d.w.repoBase && d.path == d.w.repoDir || slices.Contains(d.badIgnore, name)
}

// judgeName reports a name by its state. Err is the error of reading the state.
func (d *dirScan) judgeName(n *scanName, st *fileStat, err error) {
	if d.roots != nil {
		if bad := d.checkRoot(n, st, err); bad != nil {
			d.addFound(n.name, Found{State: Unreadable, Old: n.entry, Dir: n.sub != nil, Err: pathError("stat", d.joinPath(n.name), bad)})
			return
		}
	}
	if err == nil && n.kid != nil && !st.isDir() {
		d.reportMissing(n)
		return
	}
	if n.isTracked() {
		d.seen++
	}
	switch {
	case err == nil:
		d.compareStat(n, st)
	case errors.Is(err, fs.ErrNotExist): // selected, or removed since the folder was listed
		switch n.vanished = d.only == nil; {
		case n.isTracked() || d.only != nil:
			d.reportMissing(n)
		case d.o.Anchors != nil:
			d.addFound(n.name, Found{State: Deleted, Vanished: true})
		}
	default:
		d.addFound(n.name, Found{State: Unreadable, Old: n.entry, Err: pathError("stat", d.joinPath(n.name), err)})
	}
}

// skipsName reports whether the scan skips a name: the repository's own folder, or a path that
// is neither a root nor above or below one. It reports such a path as missing.
func (d *dirScan) skipsName(n *scanName) bool {
	if d.roots != nil {
		seen := false
		if n.roots, seen = d.roots.children[n.name]; !seen {
			n.excluded = true
			d.reportMissing(n)
		}
		return !seen
	}
	if !d.leavesOut(n.name) {
		return false
	}
	if d.trackedEntry(n.name) != nil {
		d.seen++
	}
	return true
}

// ErrEmptyRoot means that a folder of [Options.Roots] is empty, though files of it are tracked.
var ErrEmptyRoot = errors.New("empty, though it had files; is its disk mounted?")

// ErrInPlaceOfLeftOut means that a file is in the place of a folder that is left out of the worktree.
var ErrInPlaceOfLeftOut = errors.New("in the place of a folder that is left out of the worktree")

// The other reasons why a root cannot be read.
var (
	errRootMissing = errors.New("configured, but does not exist")
	errRootSymlink = errors.New("a symlink, which is not followed; configure the path that it leads to")
)

// checkRoot returns the reason why a root, or a folder above one, cannot be read. Err is
// the error of reading its state.
func (d *dirScan) checkRoot(n *scanName, st *fileStat, err error) error {
	switch {
	case d.leavesOut(n.name):
		return errRepository
	case errors.Is(err, fs.ErrNotExist):
		return errRootMissing
	case err == nil && st.entryType() == object.TypeSymlink:
		return errRootSymlink
	case err == nil && n.roots != nil && !st.isDir():
		return errRootMissing
	}
	return nil
}

// findTracked returns the index's entry or folder of a name, or neither.
func (d *dirScan) findTracked(name string, kind uint32) (*index.Entry, *index.Dir) {
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

// findPerm returns the permission bits of a name.
func (d *dirScan) findPerm(name string, st *fileStat) foundPerm {
	return d.w.opt.findPerm(st, func(want wantXattr) (map[string][]byte, error) { return d.folder.xattrs(name, want) })
}

// compareStat reports a name if it differs from the index.
func (d *dirScan) compareStat(n *scanName, st *fileStat) {
	stat := st.indexStat(0)
	if n.entry != nil && n.entry.Stat.Same(stat) && !n.entry.Stat.Racy() {
		return
	}

	f := Found{Type: st.entryType(), Dir: st.isDir(), Mode: st.perm(), Stat: stat, Old: n.entry}
	switch {
	case n.entry != nil && n.entry.Type == f.Type:
		f.Mode = d.w.opt.modeToRecord(d.folder, d.findPerm(n.name, st), n.entry.Mode, false)
	case n.sub != nil && f.Dir:
		f.Mode = d.w.opt.modeToRecord(d.folder, d.findPerm(n.name, st), n.sub.Mode(), true)
	}

	switch {
	case f.Dir && d.w.isRepo(st):
		f.State = Nested
		d.addFound(n.name, f)
		return
	case f.Dir && len(d.w.opt.Remotes) > 0 && slices.Contains(d.w.opt.Remotes, d.joinPath(n.name)):
		f.State, f.Err = Nested, ErrRemote
		d.addFound(n.name, f)
		return
	case f.Dir:
		d.compareDir(n, f, st)
		return
	case n.sub != nil && index.LeavesOut(n.sub):
		f.State, f.Err = Unreadable, ErrInPlaceOfLeftOut
		d.addFound(n.name, f)
		return
	case !n.isTracked() && d.o.NoUntracked:
		return
	}

	f.State = d.fileState(n, f.Type)

	item := d.addFound(n.name, f)
	if n.sub != nil {
		item.below = new(scanned)
		d.deleteBelow(item.below, item.found.Path, n.sub, false)
	}
}

// fileState returns the state of a name that is no folder, and that has other stat
// data than the index.
func (d *dirScan) fileState(n *scanName, now object.EntryType) PathState {
	switch {
	case now != object.TypeFile && now != object.TypeSymlink && (now == 0 || !d.w.opt.Metadata):
		return Special
	case n.entry != nil && n.entry.Type == now:
		return Modified
	case n.isTracked():
		return TypeChanged
	case n.ignored:
		return Ignored
	}
	return Untracked
}

// compareDir is compare for folders.
func (d *dirScan) compareDir(n *scanName, f Found, st *fileStat) {
	name, sub, kid := n.name, n.sub, n.kid
	properties, err := d.w.describeDir(d.folder, name, st, sub)
	left, err := splitLeft(err)
	if err != nil && kid == nil {
		d.addFound(name, Found{State: Unreadable, Type: f.Type, Dir: true, Err: pathError("read", d.joinPath(name), err)})
		return
	}
	f.Mode, f.Properties = properties.Mode, &properties
	if left != nil {
		f.Err = left
	}
	switch {
	case sub != nil && (sub.LeftOut() || kid != nil || d.sameDir(sub, &properties)):
	case sub != nil:
		f.State = ModeChanged
	case f.Old != nil:
		f.State = TypeChanged
	case d.o.NoUntracked:
		if kid != nil {
			d.reportMissing(&scanName{name: name, kid: kid})
		}
		return
	case n.ignored:
		f.State = Ignored
	default:
		f.State = Untracked
	}

	path := d.joinPath(name)
	item := scanItem{name: path[len(path)-len(name):]}
	if f.State != 0 && (kid == nil || f.State != Ignored) {
		f.Path, f.LeftOut = path, d.leftOut
		item.found = d.copyFound(f)
	}
	item.below = d.belowDir(n, path)
	if item.found != nil || item.below != nil {
		d.out.items = append(d.out.items, item)
	}
}

// sameDir reports whether a folder has the properties in the index. Its time counts only
// with [ScanOptions.Times].
func (d *dirScan) sameDir(sub *index.Dir, now *object.Entry) bool {
	if was := sub.Properties(); !d.o.Times && was.Meta != nil && now.Meta != nil {
		same := *now
		same.MTime = was.MTime
		return sub.SameProperties(&same)
	}
	return sub.SameProperties(now)
}

// belowDir returns the results below a folder, which a later task may fill in. It returns
// nil if there are none.
func (d *dirScan) belowDir(n *scanName, path string) *scanned {
	switch {
	case n.mounted:
		if n.sub == nil || !d.o.Exclude.Drop {
			return nil
		}
		below := new(scanned)
		d.deleteBelow(below, path, n.sub, true)
		return below
	case n.sub == nil && d.o.CollapseUntracked && !(n.kid != nil && n.ignored):
		return nil
	}

	below := new(scanned)
	tracked, leftOut := n.sub, d.leftOut
	if tracked != nil && tracked.LeftOut() {
		tracked, leftOut = nil, true
	}
	d.subs = append(d.subs, &scanTask{
		path: path, depth: d.depth + 1, tracked: tracked, leftOut: leftOut, only: n.kid, roots: n.roots, isRoot: d.roots != nil && n.roots == nil, above: d.dev,
		matcher: d.matcher, ignored: n.ignored, out: below,
	})
	return below
}

// joinPath returns the path of a name in the folder. The result never shares
// memory with the name, which may belong to the listing.
func (d *dirScan) joinPath(name string) string {
	if d.path == "" {
		return strings.Clone(name)
	}
	return d.path + "/" + name
}

// addFound adds the result for a name.
func (d *dirScan) addFound(name string, f Found) *scanItem {
	f.Path, f.LeftOut = d.joinPath(name), d.leftOut
	d.out.items = append(d.out.items, scanItem{name: f.Path[len(f.Path)-len(name):], found: d.copyFound(f)})
	return &d.out.items[len(d.out.items)-1]
}

// copyFound copies f into a block of many, to save allocations.
func (d *dirScan) copyFound(f Found) *Found {
	if len(d.block) == cap(d.block) {
		d.block = make([]Found, 0, 64)
	}
	d.block = append(d.block, f)
	d.count++
	return &d.block[len(d.block)-1]
}

// A folder of at least wideFolder names is split among all workers, wideStep
// names at a time.
const (
	wideFolder = 4096
	wideStep   = 512
)

// allNames compares all names of the listing with the index.
func (d *dirScan) allNames() {
	n := len(d.list.entries)
	if n < wideFolder || d.w.opt.Jobs == 1 {
		d.compareNames(0, n)
		return
	}

	parts := make([]dirScan, d.w.opt.Jobs)
	var next atomic.Int64
	var workers sync.WaitGroup
	for i := range parts {
		task := *d.scanTask
		task.out = new(scanned)
		parts[i] = dirScan{scanner: d.scanner, scanTask: &task, list: d.list, folder: d.folder,
			marker: d.marker, dev: d.dev, badIgnore: d.badIgnore}
		workers.Go(func() {
			for d.firstError() == nil {
				to := int(next.Add(wideStep))
				if to-wideStep >= n {
					return
				}
				parts[i].compareNames(to-wideStep, min(to, n))
			}
		})
	}

	workers.Wait()
	for i := range parts {
		p := &parts[i]
		d.out.items = append(d.out.items, p.out.items...)
		d.subs = append(d.subs, p.subs...)
		d.count += p.count
		d.seen += p.seen
	}
}

// addUnseen reports the names of the folder that are only in the index.
func (d *dirScan) addUnseen() {
	if d.only != nil || d.tracked == nil || d.seen == d.tracked.Len()+len(d.tracked.Subdirs()) {
		return
	}

	there := make(map[string]struct{}, len(d.list.entries))
	for i := range d.list.entries {
		there[d.list.nameAt(i)] = struct{}{}
	}

	for entry, sub := range d.tracked.Children() {
		n := trackedName(entry, sub)
		if _, ok := there[n.name]; !ok {
			n.excluded = d.roots != nil
			d.reportMissing(&n)
		}
	}
}

// deleteBelow reports everything that the index has below a folder as missing, or as excluded.
func (d *dirScan) deleteBelow(out *scanned, path string, dir *index.Dir, excluded bool) {
	for entry, sub := range dir.Children() {
		n := trackedName(entry, sub)
		n.excluded = excluded
		d.missingAt(out, tree.Join(path, n.name), &n)
	}
}

// reportMissing reports a name of the folder that does not exist, or that is no folder though a
// path below it was selected.
func (d *dirScan) reportMissing(n *scanName) { d.missingAt(d.out, d.joinPath(n.name), n) }

// missingAt is missing for a name at any path.
func (d *dirScan) missingAt(out *scanned, path string, n *scanName) {
	item := scanItem{name: path[len(path)-len(n.name):]}
	switch {
	case n.kid != nil:
		item.below = new(scanned)
		for name, kid := range n.kid.children {
			below := scanName{name: name, kid: kid, excluded: n.excluded}
			if n.sub != nil {
				below.sub, below.entry = n.sub.Subdir(name), n.sub.Entry(name)
			}
			d.missingAt(item.below, tree.Join(path, name), &below)
		}
	case n.sub != nil && n.sub.LeftOut():
		return
	case n.entry != nil:
		item.found = d.copyFound(Found{Path: path, State: Deleted, Old: n.entry, Excluded: n.excluded, Vanished: n.vanished})
	case n.sub != nil:
		if !index.LeavesOut(n.sub) { // otherwise, only its files are deleted
			item.found = d.copyFound(Found{Path: path, State: Deleted, Dir: true, Excluded: n.excluded, Vanished: n.vanished})
		}
		item.below = new(scanned)
		d.deleteBelow(item.below, path, n.sub, n.excluded)
	default:
		item.found = d.copyFound(Found{Path: path, State: Absent, Err: pathError("stat", path, fs.ErrNotExist)})
	}
	out.items = append(out.items, item)
}

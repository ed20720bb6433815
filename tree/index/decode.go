package index

import (
	"fmt"
	"slices"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
)

// decoder reads directory records into an index. It cuts directories, entries and lists
// from a few large slices.
type decoder struct {
	*blockReader
	x       *Index
	based   bool // the records are the difference from x, which has the base
	base    bool // the records are those of a base
	dirs    []Dir
	subs    []*Dir
	blocks  [][]Entry
	room    []Entry // for the entries of the next blocks
	entries uint64  // not read yet
	strings uint64  // bytes not read yet
	stack   []dirLevel
	touched []*Dir // directories with a record

	announced uint64 // number of sub-directories that later records can have
}

// dirLevel is a directory on the path to the current one.
type dirLevel struct {
	d    *Dir
	left uint64 // number of records of sub-directories that are not read yet
	last string // name of the last sub-directory
}

// readRecords reads the records. C has their totals, which must fit the size of the file.
func (r *decoder) readRecords(c recordCounts, size uint64) error {
	switch {
	case r.bad:
		return errTruncated
	case c.dirs > size/minDirSize || c.entries > size/minEntrySize || c.strings > size || c.dirs == 0 && !r.based:
		return errCounts
	}

	r.dirs = make([]Dir, 0, c.dirs)
	r.subs = make([]*Dir, 0, c.dirs)
	r.entries = c.entries
	r.blocks = make([][]Entry, 0, c.dirs+c.entries/blockSize)
	r.touched = make([]*Dir, 0, c.dirs)
	r.strings = c.strings
	r.announced = max(c.dirs, 1) - 1
	r.x.arena.grow(int(c.strings), 0)

	for range c.dirs {
		if err := r.beginRecord(); err != nil {
			return err
		}
		if err := r.readDir(); err != nil {
			return err
		}
	}

	for _, l := range r.stack {
		if l.left > 0 {
			return errCounts
		}
	}

	if r.strings != 0 || r.entries != 0 {
		return errCounts
	}
	return r.checkTrees()
}

// checkTrees checks that a directory with a known tree has only such sub-directories.
func (r *decoder) checkTrees() error {
	for _, d := range r.touched {
		if d.tree.ID.IsZero() {
			continue
		}
		for _, sub := range d.subs {
			if sub.tree.ID.IsZero() {
				return fmt.Errorf("directory %q has a tree, %q in it has none: %w", d.Path(), sub.name, errCanonical)
			}
		}
	}
	return nil
}

// readDir reads one directory: its own record, and the records of its entries.
func (r *decoder) readDir() error {
	rec, err := r.dirRecord(&r.x.arena)
	if err != nil {
		return err
	}
	name, fresh := r.x.arena.keepBytes(rec.name), rec.flags&flagFresh != 0
	if err := r.countStrings(len(name)); err != nil {
		return err
	}
	if rec.subs > r.announced {
		return errCounts
	}
	r.announced -= rec.subs

	d, err := r.placeDir(name, fresh)
	if err != nil {
		return err
	}
	if leftOut := rec.flags&flagLeftOut != 0; fresh && leftOut {
		d.leftOut = true
		r.x.leftOut++
	} else if leftOut != d.leftOut {
		return fmt.Errorf("directory %q: %w", d.Path(), errCanonical)
	}
	d.mode, d.mtime, d.meta = rec.mode, rec.mtime, rec.meta
	d.tree, d.dirty = rec.tree, !r.base
	r.touched = append(r.touched, d)
	if len(r.stack) > object.MaxDepth || len(r.stack) == object.MaxDepth && rec.entries > 0 {
		return fmt.Errorf("more than %d directories deep", object.MaxDepth)
	}
	r.stack = append(r.stack, dirLevel{d: d, left: rec.subs})

	if fresh {
		at := len(r.subs)
		r.subs = r.subs[:at+int(rec.subs)]
		d.subs = r.subs[at:at:len(r.subs)]
		return r.readNewEntries(d, rec.entries)
	}
	if err := r.removeSubs(d, rec.removed); err != nil {
		return err
	}
	return r.readEdits(d, rec.entries)
}

// countStrings counts n bytes of strings as read.
func (r *decoder) countStrings(n int) error {
	if uint64(n) > r.strings {
		return errCounts
	}
	r.strings -= uint64(n)
	return nil
}

// placeDir returns the directory of a record. It makes the directory if it is fresh.
func (r *decoder) placeDir(name string, fresh bool) (*Dir, error) {
	if len(r.touched) == 0 {
		if name != "" || fresh == r.based {
			return nil, errCanonical
		}
		r.x.root.inBase = r.base || r.based
		return r.x.root, nil
	}
	for len(r.stack) > 0 && r.stack[len(r.stack)-1].left == 0 {
		r.stack = r.stack[:len(r.stack)-1]
	}

	if len(r.stack) == 0 {
		return nil, errCounts
	}
	up := &r.stack[len(r.stack)-1]
	if name <= up.last {
		return nil, errCanonical
	}
	up.left--
	up.last = name

	i, ok := up.d.findSub(name)
	switch {
	case !fresh && (!ok || !up.d.subs[i].inBase):
		return nil, fmt.Errorf("change of directory %q, which the base does not have", tree.Join(up.d.Path(), name))
	case !fresh:
		return up.d.subs[i], nil
	case ok || up.d.entries.get(name) != nil:
		return nil, fmt.Errorf("%q is there twice", tree.Join(up.d.Path(), name))
	}

	if err := object.CheckName(name); err != nil {
		return nil, err
	}
	r.dirs = append(r.dirs, Dir{name: name, parent: up.d, inBase: r.base})
	d := &r.dirs[len(r.dirs)-1]
	up.d.subs = slices.Insert(up.d.subs, i, d)
	r.x.dirs++
	return d, nil
}

// roomSize is the number of entries in one allocation. With one allocation for all, the
// garbage collector would scan, and so commit, memory that is not used yet.
const roomSize = 16 * blockSize

// readNewEntries reads the n entries of a new directory.
func (r *decoder) readNewEntries(d *Dir, n uint64) error {
	if n > r.entries {
		return errCounts
	}
	r.x.entries += int(n)
	at := len(r.blocks)
	last := ""
	for left := int(n); left > 0; {
		block := r.makeEntries(min(left, blockSize))
		for i := range block {
			e := &block[i]
			if err := r.readEntry(d, e, last); err != nil {
				return err
			}
			if e.Type == 0 {
				return errCanonical
			}
			last = e.Name
		}
		r.blocks = append(r.blocks, block)
		left -= len(block)
	}

	d.entries = entryList{blocks: r.blocks[at:len(r.blocks):len(r.blocks)], n: int(n)}
	return nil
}

// makeEntries returns room for n entries, and counts them as read.
func (r *decoder) makeEntries(n int) []Entry {
	if len(r.room) < n {
		r.room = make([]Entry, min(r.entries, roomSize))
	}
	block := r.room[:n:n]
	r.room = r.room[n:]
	r.entries -= uint64(n)
	return block
}

// readEntry reads the record of one entry. Its name must come after last.
func (r *decoder) readEntry(d *Dir, e *Entry, last string) error {
	if err := r.beginRecord(); err != nil {
		return err
	}
	if !r.decodeEntry(e, &r.x.arena) {
		return fmt.Errorf("entry %q: %w", tree.Join(d.Path(), e.Name), errCanonical)
	}
	if err := r.countStrings(e.stringSize()); err != nil {
		return err
	}
	if e.Name <= last {
		return fmt.Errorf("entry %q: %w", tree.Join(d.Path(), e.Name), errCanonical)
	}
	if err := object.CheckName(e.Name); err != nil {
		return err
	}
	if e.Type == 0 {
		return nil
	}
	if err := checkEntry(e); err != nil {
		return fmt.Errorf("entry %q: %w", tree.Join(d.Path(), e.Name), err)
	}
	return nil
}

// removeSubs reads the names of n sub-directories of the base that were removed or
// replaced.
func (r *decoder) removeSubs(d *Dir, n uint64) error {
	last := ""
	for range n {
		if err := r.beginRecord(); err != nil {
			return err
		}
		name := r.x.arena.keepBytes(r.readName())
		if r.bad || name <= last {
			return errCanonical
		}
		if err := r.countStrings(len(name)); err != nil {
			return err
		}
		i, ok := d.findSub(name)
		if !ok {
			return fmt.Errorf("removal of directory %q, which the base does not have", tree.Join(d.Path(), name))
		}
		r.x.cutSub(d, i)
		last = name
	}
	return nil
}

// readEdits reads the records of n entries that were set or removed since the base.
func (r *decoder) readEdits(d *Dir, n uint64) error {
	last := ""
	for range n {
		var e Entry
		if err := r.readEntry(d, &e, last); err != nil {
			return err
		}
		last = e.Name
		exists := d.entries.get(e.Name) != nil
		r.x.trackEdit(d, e.Name, exists)
		switch {
		case e.Type == 0 && !exists:
			return fmt.Errorf("removal of entry %q, which the base does not have", tree.Join(d.Path(), e.Name))
		case e.Type == 0:
			d.entries.remove(e.Name)
			r.x.entries--
		case d.Subdir(e.Name) != nil:
			return fmt.Errorf("%q is there twice", tree.Join(d.Path(), e.Name))
		default:
			d.entries.put(e)
			if !exists {
				r.x.entries++
			}
		}
	}
	return nil
}

package index

import (
	"fmt"
	"io"
	"slices"

	"github.com/kist-vcs/kist/object"
)

// decoder reads directory records into an index. The directories, entries and
// lists that they make are cut from a few large slices.
type decoder struct {
	*blockReader
	x       *Index
	based   bool // the records say what differs from what x holds
	base    bool // they are the base's
	dirs    []Dir
	subs    []*Dir
	blocks  [][]Entry
	room    []Entry // for the next entries
	entries uint64  // still to come
	strings uint64  // bytes still to come
	stack   []level
	touched []*Dir // all that had a record

	announced uint64 // sub-directories that records may still announce
}

// level is a directory on the way to the one being read.
type level struct {
	d    *Dir
	left uint64 // records of its sub-directories still to come
	last string // name of the one before
}

// readBase reads a base file of the given size into a new Index.
func readBase(r io.Reader, size uint64) (*Index, uint32, error) {
	b, err := newBlockReader(r, kindBase)
	if err != nil {
		return nil, 0, err
	}
	if err := b.begin(); err != nil {
		return nil, 0, err
	}
	c := b.counts()
	x := New()
	d := decoder{blockReader: b, x: x, base: true}
	if err := d.read(c, size); err != nil {
		return nil, 0, err
	}
	sum, err := b.finish()
	return x, sum, err
}

func (b *blockReader) counts() counts {
	return counts{b.uvarint(), b.uvarint(), b.uvarint()}
}

// read reads the records that c counts from a file of the given size.
func (r *decoder) read(c counts, size uint64) error {
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
	r.x.arena.grow(int(c.strings))
	for range c.dirs {
		if err := r.begin(); err != nil {
			return err
		}
		if err := r.dir(); err != nil {
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

// checkTrees checks that what is below a known tree is known too.
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

// dirRecord is what a directory's record begins with.
type dirRecord struct {
	flags               byte
	name                []byte // valid until the next block is read
	mode                uint16
	tree                TreeInfo
	subs, lost, entries uint64 // records that follow
}

// dirRecord reads what a directory's record begins with.
func (f *fields) dirRecord() (d dirRecord, err error) {
	d.flags = f.u8()
	d.name = f.name()
	d.mode = f.u16()
	if d.flags&flagTree != 0 {
		f.id(d.tree.ID[:])
		d.tree.Files, d.tree.Bytes = f.uvarint(), f.uvarint()
		f.bad = f.bad || d.tree.ID.IsZero()
	}
	d.subs = f.uvarint()
	if d.flags&flagFresh == 0 {
		d.lost = f.uvarint()
	}
	d.entries = f.uvarint()
	if f.bad || d.flags&^(flagFresh|flagTree) != 0 || d.mode&^0o7777 != 0 {
		return d, errCanonical
	}
	return d, nil
}

// dir reads one directory: its own record, and those of its entries.
func (r *decoder) dir() error {
	rec, err := r.dirRecord()
	if err != nil {
		return err
	}
	name, fresh := r.x.arena.keepBytes(rec.name), rec.flags&flagFresh != 0
	if err := r.used(len(name)); err != nil {
		return err
	}
	if rec.subs > r.announced {
		return errCounts
	}
	r.announced -= rec.subs

	d, err := r.place(name, fresh)
	if err != nil {
		return err
	}
	d.mode, d.tree, d.dirty = rec.mode, rec.tree, !r.base
	r.touched = append(r.touched, d)
	if len(r.stack) > object.MaxDepth || len(r.stack) == object.MaxDepth && rec.entries > 0 {
		return fmt.Errorf("more than %d directories deep", object.MaxDepth)
	}
	r.stack = append(r.stack, level{d: d, left: rec.subs})
	if fresh {
		at := len(r.subs)
		r.subs = r.subs[:at+int(rec.subs)]
		d.subs = r.subs[at:at:len(r.subs)]
		return r.fresh(d, rec.entries)
	}
	if err := r.lose(d, rec.lost); err != nil {
		return err
	}
	return r.edit(d, rec.entries)
}

// used counts the bytes of strings that were read.
func (r *decoder) used(n int) error {
	if uint64(n) > r.strings {
		return errCounts
	}
	r.strings -= uint64(n)
	return nil
}

// place finds the directory that a record is about, or makes a new one.
func (r *decoder) place(name string, fresh bool) (*Dir, error) {
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
		return nil, fmt.Errorf("change of directory %q, which the base does not have", join(up.d.Path(), name))
	case !fresh:
		return up.d.subs[i], nil
	case ok || up.d.entries.get(name) != nil:
		return nil, fmt.Errorf("%q is there twice", join(up.d.Path(), name))
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

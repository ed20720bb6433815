package index

import (
	"encoding/binary"
	"io"
	"maps"
	"math"
	"slices"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
)

// The flags of an encoded directory.
const (
	flagFresh      = 1 << 0 // the record has the full directory, and not the difference from the base
	flagTree       = 1 << 1 // the record has the known tree
	flagProperties = 1 << 2 // the record has mtime and metadata
	flagLeftOut    = 1 << 3 // the directory is left out: it has a tree and nothing else
)

// recordCounts are the totals of the directory records of a file. A reader allocates by them.
type recordCounts struct {
	dirs    uint64 // records
	entries uint64 // in records with flagFresh
	strings uint64 // bytes of all names and data
}

// writeBase writes all directories as a base file.
func (x *Index) writeBase(w io.Writer) (size uint64, sum uint32, err error) {
	b := newBlockWriter(w, kindBase, versionOf(x))
	b.writeCounts(x.root.countRecords(true))
	b.endRecord()
	b.writeDirs(x.root, true)
	return b.close()
}

// writeHead writes a head: the difference from the base, conflicts and skipped paths.
// It returns errHeadFull if the difference takes more than limit bytes.
func (x *Index) writeHead(w io.Writer, limit uint64) error {
	base := x.file.base
	b := newBlockWriter(w, kindHead, versionOf(x))
	b.buf = append(b.buf, base.id[:]...)
	b.buf = binary.AppendUvarint(b.buf, base.size)
	b.buf = binary.LittleEndian.AppendUint32(b.buf, base.sum)
	b.buf = binary.AppendUvarint(b.buf, uint64(x.dirs))
	b.buf = binary.AppendUvarint(b.buf, uint64(x.entries))
	b.buf = binary.AppendUvarint(b.buf, uint64(len(x.conflicts)))
	b.buf = binary.AppendUvarint(b.buf, uint64(len(x.skipped)))
	b.writeCounts(x.root.countRecords(false))
	b.endRecord()
	b.limit = limit
	b.writeDirs(x.root, false)
	b.limit = math.MaxUint64
	for i := range x.conflicts {
		b.buf = appendConflict(b.buf, &x.conflicts[i])
		b.endRecord()
	}

	for i := range x.skipped {
		b.buf = appendText(appendText(b.buf, x.skipped[i].Path), x.skipped[i].Reason)
		b.endRecord()
	}

	_, _, err := b.close()
	return err
}

// writeCounts writes the totals.
func (b *blockWriter) writeCounts(c recordCounts) {
	b.buf = binary.AppendUvarint(b.buf, c.dirs)
	b.buf = binary.AppendUvarint(b.buf, c.entries)
	b.buf = binary.AppendUvarint(b.buf, c.strings)
}

// readCounts reads the totals.
func (b *blockReader) readCounts() recordCounts {
	return recordCounts{b.uvarint(), b.uvarint(), b.uvarint()}
}

// countRecords returns the totals of the records that [blockWriter.writeDirs] writes.
func (d *Dir) countRecords(all bool) (c recordCounts) {
	for d := range d.recorded(all) {
		c.dirs++
		c.strings += uint64(len(d.name))
		if all || !d.inBase {
			c.entries += uint64(d.entries.n)
			for e := range d.entries.all() {
				c.strings += uint64(e.stringSize())
			}
			continue
		}
		for name := range d.removed {
			c.strings += uint64(len(name))
		}
		for _, name := range d.editedNames() {
			c.strings += uint64(len(name))
			if e := d.entries.get(name); e != nil {
				c.strings += uint64(len(e.Data))
			}
		}
	}
	return c
}

// writeDirs writes the records of a directory and of those below it. Without all, it writes
// only the differences from the base.
func (b *blockWriter) writeDirs(root *Dir, all bool) {
	for d, subs := range root.recorded(all) {
		if all || !d.inBase {
			b.writeDirHead(d, flagFresh, subs)
			b.buf = binary.AppendUvarint(b.buf, uint64(d.entries.n))
			b.endRecord()
			for e := range d.entries.all() {
				if b.err != nil {
					return
				}
				b.buf = appendEntry(b.buf, e)
				b.endRecord()
			}
			continue
		}
		edited := d.editedNames()
		b.writeDirHead(d, 0, subs)
		b.buf = binary.AppendUvarint(b.buf, uint64(len(d.removed)))
		b.buf = binary.AppendUvarint(b.buf, uint64(len(edited)))
		b.endRecord()
		for _, name := range slices.Sorted(maps.Keys(d.removed)) {
			b.buf = appendName(b.buf, name)
			b.endRecord()
		}
		for _, name := range edited {
			if e := d.entries.get(name); e != nil {
				b.buf = appendEntry(b.buf, e)
			} else {
				b.buf = appendRemoved(b.buf, name)
			}
			b.endRecord()
		}
	}
}

// writeDirHead writes the first part of a directory's record.
func (b *blockWriter) writeDirHead(d *Dir, flags byte, subs int) {
	known := !d.tree.ID.IsZero()
	if known {
		flags |= flagTree
	}
	if d.meta != "" {
		flags |= flagProperties
	}
	if d.leftOut {
		flags |= flagLeftOut
	}
	b.buf = appendName(append(b.buf, flags), d.name)
	b.buf = binary.LittleEndian.AppendUint16(b.buf, d.mode)
	if d.meta != "" {
		b.buf = appendText(appendTime(b.buf, d.mtime), d.meta)
	}
	if known {
		b.buf = append(b.buf, d.tree.ID[:]...)
		b.buf = binary.AppendUvarint(b.buf, d.tree.Files)
		b.buf = binary.AppendUvarint(b.buf, d.tree.Bytes)
	}
	b.buf = binary.AppendUvarint(b.buf, uint64(subs))
}

// recorded yields the directories with a record, each before its
// sub-directories, with the number of sub-directories that have one. With all
// set, every directory has a record. Otherwise only directories that differ
// from the base do.
func (d *Dir) recorded(all bool) func(yield func(*Dir, int) bool) {
	return func(yield func(*Dir, int) bool) {
		if !all && !d.dirty {
			return
		}
		stack := []*Dir{d}
		for len(stack) > 0 {
			d := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			size := len(stack)
			for _, sub := range slices.Backward(d.subs) {
				if all || sub.dirty {
					stack = append(stack, sub)
				}
			}
			if !yield(d, len(stack)-size) {
				return
			}
		}
	}
}

// editedNames returns the names of the entries that differ from the base, sorted.
func (d *Dir) editedNames() []string {
	names := make([]string, 0, len(d.edits))
	for name, inBase := range d.edits {
		if inBase || d.entries.get(name) != nil {
			names = append(names, name)
		}
	}

	slices.Sort(names)
	return names
}

// dirRecord is the first part of a directory's record.
type dirRecord struct {
	flags                  byte
	name                   []byte // valid until the next block is read
	mode                   uint16
	mtime                  object.Time
	meta                   string
	tree                   tree.Info
	subs, removed, entries uint64 // number of records that follow
}

// dirRecord reads the first part of a directory's record.
func (f *fieldReader) dirRecord(a *arena) (d dirRecord, err error) {
	d.flags = f.u8()
	d.name = f.readName()
	d.mode = f.u16()
	if d.flags&flagProperties != 0 {
		d.mtime, d.meta = f.readTime(), f.decodeMeta(object.TypeDir, a)
		f.bad = f.bad || !hasMetadata(d.meta) && !d.mtime.IsZero()
	}
	if d.flags&flagTree != 0 {
		f.readID(d.tree.ID[:])
		d.tree.Files, d.tree.Bytes = f.uvarint(), f.uvarint()
		f.bad = f.bad || d.tree.ID.IsZero()
	}
	d.subs = f.uvarint()
	if d.flags&flagFresh == 0 {
		d.removed = f.uvarint()
	}
	d.entries = f.uvarint()
	if f.bad || d.flags&^(flagFresh|flagTree|flagProperties|flagLeftOut) != 0 || d.mode&^0o7777 != 0 {
		return d, errCanonical
	}
	if d.flags&flagLeftOut != 0 && (d.flags&flagTree == 0 || len(d.name) == 0 || d.subs+d.removed+d.entries != 0) {
		return d, errCanonical
	}
	return d, nil
}

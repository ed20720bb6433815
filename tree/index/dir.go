package index

import (
	"iter"
	"slices"
	"sort"
	"strings"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
)

// defaultDirMode is the mode of a directory until [Index.SetDir] sets another.
const defaultDirMode = 0o755

// Dir is a directory of an [Index]. Its methods only read.
type Dir struct {
	name    string
	parent  *Dir
	subs    []*Dir
	entries entryList
	tree    tree.Info // known tree; with a zero ID it is unknown here and in all directories above
	mode    uint16
	mtime   object.Time // only with metadata
	meta    string      // the encoded metadata and attributes; "": none
	leftOut bool        // only the tree is known here, see [Dir.LeftOut]

	// The difference from the base file.
	dirty   bool                // there is one, here or below
	inBase  bool                // the base has this directory; if not, edits and removed are empty
	edits   map[string]bool     // names of entries that were set or removed; true if the base has the entry
	removed map[string]struct{} // names of sub-directories of the base that were removed or replaced
}

// Name returns the last name of the directory's path, "" for the root.
func (d *Dir) Name() string { return d.name }

// Mode returns the permission bits (07777).
func (d *Dir) Mode() uint16 { return d.mode }

// Properties returns an entry with the directory's name, type, mode, mtime, metadata and
// attributes.
func (d *Dir) Properties() object.Entry {
	e := decodeMeta(d.meta)
	e.Name, e.Type, e.Mode, e.MTime = d.name, object.TypeDir, d.mode, d.mtime
	return e
}

// SameProperties reports whether the directory has the mode and attributes of e, and, if
// both have metadata, the same time and metadata.
func (d *Dir) SameProperties(e *object.Entry) bool {
	meta, _ := encodeMeta(e)
	return d.mode == e.Mode && sameMeta(d.meta, meta) &&
		(d.mtime == e.MTime || !hasMetadata(d.meta) || !hasMetadata(meta))
}

// Path returns the directory's path from the root, "" for the root.
func (d *Dir) Path() string {
	if d.parent == nil {
		return ""
	}
	var names []string
	for ; d.parent != nil; d = d.parent {
		names = append(names, d.name)
	}

	slices.Reverse(names)
	return strings.Join(names, "/")
}

// Tree returns the tree that the directory was last written as or read from, and
// false if the directory changed since. The store may no longer have the tree.
func (d *Dir) Tree() (tree.Info, bool) { return d.tree, !d.tree.ID.IsZero() }

// Len returns the number of the directory's own entries.
func (d *Dir) Len() int { return d.entries.n }

// Entry returns the directory's own entry called name, or nil. The caller must not
// change it. It is valid until the directory is edited.
func (d *Dir) Entry(name string) *Entry { return d.entries.get(name) }

// Entries yields the directory's own entries, sorted by the bytes of their names.
// The caller must not change an entry, nor edit the directory during the iteration.
func (d *Dir) Entries() iter.Seq[*Entry] { return d.entries.all() }

// Subdirs returns the sub-directories, sorted by the bytes of their names. The slice
// belongs to the index. It is valid until the directory is edited.
func (d *Dir) Subdirs() []*Dir { return d.subs }

// Subdir returns the sub-directory called name, or nil.
func (d *Dir) Subdir(name string) *Dir {
	if i, ok := d.findSub(name); ok {
		return d.subs[i]
	}
	return nil
}

// findSub returns the place of a sub-directory, and whether it exists.
func (d *Dir) findSub(name string) (int, bool) {
	return slices.BinarySearchFunc(d.subs, name, func(s *Dir, name string) int { return strings.Compare(s.name, name) })
}

// Children yields entries and sub-directories together, sorted by the bytes of their
// names, as in a tree. One value of each pair is nil.
func (d *Dir) Children() iter.Seq2[*Entry, *Dir] {
	return func(yield func(*Entry, *Dir) bool) {
		subs := d.subs
		for e := range d.entries.all() {
			for len(subs) > 0 && subs[0].name < e.Name {
				if !yield(nil, subs[0]) {
					return
				}
				subs = subs[1:]
			}
			if !yield(e, nil) {
				return
			}
		}
		for _, s := range subs {
			if !yield(nil, s) {
				return
			}
		}
	}
}

// Walk yields the directory and all below it, with their paths from the root. A
// directory comes before its sub-directories.
func (d *Dir) Walk() iter.Seq2[string, *Dir] {
	return func(yield func(string, *Dir) bool) {
		type level struct {
			path string
			subs []*Dir
		}
		path := d.Path()
		if !yield(path, d) {
			return
		}
		stack := []level{{path, d.subs}}
		for len(stack) > 0 {
			top := &stack[len(stack)-1]
			if len(top.subs) == 0 {
				stack = stack[:len(stack)-1]
				continue
			}
			sub := top.subs[0]
			top.subs = top.subs[1:]
			path := tree.Join(top.path, sub.name)
			if !yield(path, sub) {
				return
			}
			if len(sub.subs) > 0 {
				stack = append(stack, level{path, sub.subs})
			}
		}
	}
}

// All yields the entries of the directory and of all below it, with their paths from
// the root. The entries of a directory come before those of its sub-directories.
func (d *Dir) All() iter.Seq2[string, *Entry] {
	return func(yield func(string, *Entry) bool) {
		for path, dir := range d.Walk() {
			for e := range dir.entries.all() {
				if !yield(tree.Join(path, e.Name), e) {
					return
				}
			}
		}
	}
}

var emptyTree, _ = object.EmptyTree()

// SetLost makes the directory at path one of unknown content, with the properties of
// e. It has no entries, and a written tree has e in its place, though the tree of e is
// damaged or missing. Once something is set in it, it is an ordinary directory with only
// that entry. SetLost makes missing directories above, as [Index.Set] does.
func (x *Index) SetLost(path string, e object.Entry) error {
	if err := x.SetDir(path, e); err != nil {
		return err
	}
	d := x.Dir(path)
	if d.leftOut {
		d = reopen(x, d)
	}
	x.setLost(d, tree.Info{ID: e.Content.ID, Files: e.Files, Bytes: e.Size})
	return nil
}

func (x *Index) setLost(d *Dir, t tree.Info) {
	x.clearDir(d)
	if d.tree == t {
		return
	}
	if d.parent != nil && d.tree.ID != t.ID {
		d.parent.forgetTrees()
	}
	d.tree = t
	x.markDirty(d)
}

// Lost reports whether the directory is one of unknown content, see
// [Index.SetLost].
func (d *Dir) Lost() bool {
	return !d.leftOut && d.entries.n == 0 && len(d.subs) == 0 && !d.tree.ID.IsZero() && d.tree.ID != emptyTree
}

// LostDirs yields the lost directories.
func (x *Index) LostDirs() iter.Seq2[string, *Dir] {
	return func(yield func(string, *Dir) bool) {
		for path, d := range x.Dirs() {
			if d.Lost() && !yield(path, d) {
				return
			}
		}
	}
}

// blockSize is the largest number of entries in a block of a list.
const blockSize = 256

// entryList lists the entries of a directory, sorted by name. It keeps them in blocks, so
// that adding one to a million moves only a few hundred. No block is empty.
type entryList struct {
	blocks [][]Entry
	n      int
}

// find returns the block of a name, the place in the block, and whether the list has
// the name. If not, they are the place to insert it. Without blocks, b is 0.
func (l *entryList) find(name string) (b, i int, ok bool) {
	b = sort.Search(len(l.blocks), func(b int) bool {
		block := l.blocks[b]
		return block[len(block)-1].Name >= name
	})
	if b == len(l.blocks) {
		if b == 0 {
			return 0, 0, false
		}
		b--
		return b, len(l.blocks[b]), false
	}
	block := l.blocks[b]
	i = sort.Search(len(block), func(i int) bool { return block[i].Name >= name })
	return b, i, block[i].Name == name
}

// get returns the entry called name, or nil.
func (l *entryList) get(name string) *Entry {
	if b, i, ok := l.find(name); ok {
		return &l.blocks[b][i]
	}
	return nil
}

// put adds e, or replaces the entry with its name.
func (l *entryList) put(e Entry) {
	b, i, ok := l.find(e.Name)
	if ok {
		l.blocks[b][i] = e
		return
	}
	l.n++
	switch {
	case len(l.blocks) == 0:
		l.blocks = append(l.blocks, []Entry{e})
		return
	case len(l.blocks[b]) < blockSize:
	case b == len(l.blocks)-1 && i == blockSize: // names arrive in order: keep full blocks
		l.blocks = append(l.blocks, []Entry{e})
		return
	default:
		half := blockSize / 2
		l.blocks = slices.Insert(l.blocks, b+1, slices.Clone(l.blocks[b][half:]))
		clear(l.blocks[b][half:])
		l.blocks[b] = l.blocks[b][:half]
		if i > half {
			b, i = b+1, i-half
		}
	}

	l.blocks[b] = slices.Insert(l.blocks[b], i, e)
}

// remove removes the entry called name, and reports whether there was one.
func (l *entryList) remove(name string) bool {
	b, i, ok := l.find(name)
	if !ok {
		return false
	}
	l.n--
	if len(l.blocks[b]) == 1 {
		l.blocks = slices.Delete(l.blocks, b, b+1)
	} else {
		l.blocks[b] = slices.Delete(l.blocks[b], i, i+1)
	}
	return true
}

// all yields the entries in order.
func (l *entryList) all() iter.Seq[*Entry] {
	return func(yield func(*Entry) bool) {
		for _, block := range l.blocks {
			for i := range block {
				if !yield(&block[i]) {
					return
				}
			}
		}
	}
}

// arena copies short strings into a few large allocations. The copies do not keep
// alive the longer strings that they were cut from.
type arena struct {
	b *strings.Builder

	meta     *object.Entry // has the last metadata and attributes that were read
	metaText string
}

const arenaSize = 64 << 10

// grow makes room for at least n bytes. New room has size bytes, or n if that is more.
func (a *arena) grow(n, size int) {
	if a.b == nil || a.b.Cap()-a.b.Len() < n {
		a.b = new(strings.Builder)
		a.b.Grow(max(n, size))
	}
}

// keepString returns a copy of s.
func (a *arena) keepString(s string) string {
	a.grow(len(s), arenaSize)
	off := a.b.Len()
	a.b.WriteString(s)
	return a.b.String()[off:]
}

// keepBytes returns s as a string.
func (a *arena) keepBytes(s []byte) string {
	a.grow(len(s), arenaSize)
	off := a.b.Len()
	a.b.Write(s)
	return a.b.String()[off:]
}

package index

import (
	"iter"
	"slices"
	"strings"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
)

// defaultDirMode is the mode of a directory until [Index.SetDir] sets another.
const defaultDirMode = 0o755

// TreeInfo is a tree object and its totals.
type TreeInfo struct {
	ID    object.ID
	Files uint64 // entries below it at any depth, without directories
	Bytes uint64 // sum of their sizes
}

// Dir is a directory of an [Index]. Its methods only read.
type Dir struct {
	name    string
	parent  *Dir
	subs    []*Dir
	entries list
	tree    TreeInfo // known tree; with a zero ID it is unknown here and in all directories above
	mode    uint16

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
func (d *Dir) Tree() (TreeInfo, bool) { return d.tree, !d.tree.ID.IsZero() }

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

// SetLost makes the directory at path one of unknown content: it holds nothing,
// and trees that are written have t in its place, though t is damaged or missing.
// As soon as something is set in the directory, it is one like others, with only
// that in it. Missing directories above are made, as [Index.Set] does.
func (x *Index) SetLost(path string, mode uint16, t TreeInfo) error {
	if err := x.SetDir(path, mode); err != nil {
		return err
	}
	x.setLost(x.Dir(path), t)
	return nil
}

func (x *Index) setLost(d *Dir, t TreeInfo) {
	x.empty(d)
	if d.tree == t {
		return
	}
	if d.parent != nil && d.tree.ID != t.ID {
		d.parent.forget()
	}
	d.tree = t
	x.touch(d)
}

// Lost reports whether the directory is one of unknown content, see
// [Index.SetLost].
func (d *Dir) Lost() bool {
	return d.entries.n == 0 && len(d.subs) == 0 && !d.tree.ID.IsZero() && d.tree.ID != emptyTree
}

// LostDirs goes through the directories of unknown content.
func (x *Index) LostDirs() iter.Seq2[string, *Dir] {
	return func(yield func(string, *Dir) bool) {
		for path, d := range x.Dirs() {
			if d.Lost() && !yield(path, d) {
				return
			}
		}
	}
}

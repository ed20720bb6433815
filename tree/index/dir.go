package index

import (
	"iter"
	"slices"
	"strings"

	"github.com/kist-vcs/kist/object"
)

// DefaultDirMode is the mode of a directory made because an entry below it was
// set, until [Index.SetDir] says otherwise.
const DefaultDirMode = 0o755

// TreeInfo is a tree and its totals.
type TreeInfo struct {
	ID    object.ID
	Files uint64 // entries below it, at any depth, that are not directories
	Bytes uint64 // sum of the sizes of its files
}

// Dir is a directory of an [Index]. Its methods only read.
type Dir struct {
	name    string
	parent  *Dir
	subs    []*Dir
	entries list
	tree    TreeInfo // zero ID: not known; then that of every directory above is not known either
	mode    uint16

	// What differs from the base file.
	dirty  bool                // something does, here or below
	inBase bool                // the base has this directory, and edits and lost say what changed; else all is new
	edits  map[string]bool     // names of entries set or removed; true: the base has an entry of that name
	lost   map[string]struct{} // names of the base's sub-directories that are gone, or were made anew
}

// Name returns the directory's name within its parent, "" for the root.
func (d *Dir) Name() string { return d.name }

// Parent returns the directory above, nil for the root.
func (d *Dir) Parent() *Dir { return d.parent }

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

// Tree returns the tree that the directory was last written as or read from,
// and false if it has changed since. That the tree is in the store is not
// known; [Index.WriteTree] asks.
func (d *Dir) Tree() (TreeInfo, bool) { return d.tree, !d.tree.ID.IsZero() }

// Len returns the number of the directory's own entries.
func (d *Dir) Len() int { return d.entries.n }

// Entry returns the directory's own entry called name, nil if there is none
// (or a sub-directory has that name). The entry must not be changed, and is
// valid until the directory is next edited.
func (d *Dir) Entry(name string) *Entry { return d.entries.get(name) }

// Entries goes through the directory's own entries, those that are not
// directories, by the bytes of their names. The entries must not be changed,
// and are valid until the directory is next edited, which ends the iteration.
func (d *Dir) Entries() iter.Seq[*Entry] { return d.entries.all() }

// Subdirs returns the sub-directories, by the bytes of their names. The slice
// is the index's and valid until the directory is next edited.
func (d *Dir) Subdirs() []*Dir { return d.subs }

// Subdir returns the sub-directory called name, nil if there is none.
func (d *Dir) Subdir(name string) *Dir {
	if i, ok := d.findSub(name); ok {
		return d.subs[i]
	}
	return nil
}

func (d *Dir) findSub(name string) (int, bool) {
	return slices.BinarySearchFunc(d.subs, name, func(s *Dir, name string) int { return strings.Compare(s.name, name) })
}

// Children goes through entries and sub-directories together, by the bytes of
// their names, as in a tree. Of each pair one is nil.
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

// Walk goes through the directory and all below it, each before its
// sub-directories, with its path from the root.
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
			path := join(top.path, sub.name)
			if !yield(path, sub) {
				return
			}
			if len(sub.subs) > 0 {
				stack = append(stack, level{path, sub.subs})
			}
		}
	}
}

// All goes through the entries of the directory and all below it, with their
// paths from the root, directory by directory: those of a directory come
// before those of its sub-directories.
func (d *Dir) All() iter.Seq2[string, *Entry] {
	return func(yield func(string, *Entry) bool) {
		for path, dir := range d.Walk() {
			for e := range dir.entries.all() {
				if !yield(join(path, e.Name), e) {
					return
				}
			}
		}
	}
}

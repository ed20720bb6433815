package index

import (
	"iter"
	"strings"
)

// Index is the staging area in memory. The zero Index is not usable; see [New],
// [Load] and [Update]. It may be read by many goroutines at once while none
// edits it.
type Index struct {
	root      *Dir
	entries   int
	dirs      int // with the root
	conflicts []Conflict
	skipped   []skipped
	arena     arena

	file    fileState // the files it was loaded from or written to
	changed bool      // since then
	tracked int       // names in edits and lost of all directories
	fold    bool      // too much has changed to be kept beside the base: nothing is tracked any more
}

// New returns an empty Index: a root directory without entries.
func New() *Index {
	return &Index{root: &Dir{mode: DefaultDirMode, dirty: true}, dirs: 1}
}

// Root returns the root directory, which is always there.
func (x *Index) Root() *Dir { return x.root }

// Len returns the number of entries, directories not counted.
func (x *Index) Len() int { return x.entries }

// NumDirs returns the number of directories, the root among them.
func (x *Index) NumDirs() int { return x.dirs }

// HasDirs reports whether there is a directory other than the root.
func (x *Index) HasDirs() bool { return x.dirs > 1 }

// Dir returns the directory at path ("" is the root), nil if there is none.
func (x *Index) Dir(path string) *Dir {
	d := x.root
	for more := path != ""; more && d != nil; {
		var name string
		name, path, more = strings.Cut(path, "/")
		d = d.Subdir(name)
	}
	return d
}

// Entry returns the entry at path, nil if there is none or it is a directory.
// It must not be changed, and is valid until its directory is next edited.
func (x *Index) Entry(path string) *Entry {
	dir, name := split(path)
	d := x.Dir(dir)
	if d == nil {
		return nil
	}
	return d.Entry(name)
}

// Dirs goes through all directories with their paths; see [Dir.Walk].
func (x *Index) Dirs() iter.Seq2[string, *Dir] { return x.root.Walk() }

// All goes through all entries with their paths; see [Dir.All].
func (x *Index) All() iter.Seq2[string, *Entry] { return x.root.All() }

// Changed reports whether the index has been edited since it was loaded or
// written; stat data and cached trees count.
func (x *Index) Changed() bool { return x.changed }

// Package index has the staging area: the content of the next commit, with stat
// data by which a scan recognises an unchanged file without reading it.
//
// An [Index] is a tree of directories. Each [Dir] has its sorted entries, its
// sorted sub-directories, and the tree object it was last written as. An edit
// forgets the tree of the directory and of all above it, so the cost of a commit
// depends on the size of the change.
//
// On disk, the index is the file .kist/index: a small head that names a base file
// and has the changes since the base was written. See docs/format/index.md. [Load]
// reads the files, and only [Update] and [Replace] change them.
//
// An Index may be read by many goroutines at once while none edits it.
package index

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"strings"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
)

// Index is the staging area in memory. The zero Index is not usable; see [New],
// [Load] and [Update]. It may be read by many goroutines at once while none
// edits it.
type Index struct {
	root    *Dir
	entries int
	dirs    int // with the root
	leftOut int // number of directories that are left out
	pathNotes
	arena arena

	file    fileState // the files that it was loaded from or written to
	changed bool      // the index differs from the files
	tracked int       // number of names in edits and removed of all directories
	fold    bool      // the next save writes a new base; changes are no longer tracked
}

// New returns an empty Index: a root directory without entries.
func New() *Index {
	return &Index{root: &Dir{mode: defaultDirMode, dirty: true}, dirs: 1}
}

// Root returns the root directory. It always exists.
func (x *Index) Root() *Dir { return x.root }

// Len returns the number of entries, directories not counted.
func (x *Index) Len() int { return x.entries }

// Dir returns the directory at path ("" is the root), or nil.
func (x *Index) Dir(path string) *Dir {
	d := x.root
	for more := path != ""; more && d != nil; {
		var name string
		name, path, more = strings.Cut(path, "/")
		d = d.Subdir(name)
	}
	return d
}

// Entry returns the entry at path, or nil: directories have none. The caller must
// not change it. It is valid until its directory is edited.
func (x *Index) Entry(path string) *Entry {
	dir, name := tree.Split(path)
	d := x.Dir(dir)
	if d == nil {
		return nil
	}
	return d.Entry(name)
}

// Dirs yields all directories with their paths, as [Dir.Walk] does.
func (x *Index) Dirs() iter.Seq2[string, *Dir] { return x.root.Walk() }

// All yields all entries with their paths, as [Dir.All] does.
func (x *Index) All() iter.Seq2[string, *Entry] { return x.root.All() }

// Roots yields every object that the index names, for gc to keep and verify to look
// up: the contents of entries, known trees, and the contents of the sides of
// conflicts. It may yield an object more than once.
func (x *Index) Roots() iter.Seq[object.Key] {
	return func(yield func(object.Key) bool) {
		for d := range x.root.recorded(true) {
			if !d.tree.ID.IsZero() && !yield(d.tree.Key()) {
				return
			}
			for e := range d.entries.all() {
				if !e.Content.IsZero() && !yield(e.Content) {
					return
				}
			}
		}
		for _, c := range x.conflicts {
			for _, side := range []*object.Entry{c.Base, c.Ours, c.Theirs} {
				if side != nil && !side.Content.IsZero() && !yield(side.Content) {
					return
				}
			}
		}
	}
}

// markDirty records that d differs from the base, and the index from its files.
func (x *Index) markDirty(d *Dir) {
	x.changed = true
	for ; d != nil && !d.dirty; d = d.parent {
		d.dirty = true
	}
}

// trackEdit records that an entry of d will be set or removed, and whether it exists
// now. It must be called before each such change.
func (x *Index) trackEdit(d *Dir, name string, exists bool) {
	if !d.inBase || x.fold {
		return
	}
	if _, ok := d.edits[name]; ok {
		return
	}
	if d.edits == nil {
		d.edits = make(map[string]bool)
	}
	d.edits[name] = exists
	if x.tracked++; x.tracked > x.file.maxTracked() {
		x.fold = true
	}
}

// forgetTrees removes the known trees of d and all directories above it.
func (d *Dir) forgetTrees() {
	for ; d != nil && !d.tree.ID.IsZero(); d = d.parent {
		d.tree = tree.Info{}
	}
}

// The files of an index, in the .kist directory.
const (
	headName   = "index"
	headTemp   = "index.new"
	basePrefix = "index.base-"
	baseTemp   = "index.base.new"
	lockName   = "index.lock"
)

// minHeadSize is the number of bytes of changes that a head can always have.
const minHeadSize = 256 << 10

// fileState identifies the files that an index was loaded from or written to.
type fileState struct {
	head    [sha256.Size]byte // hash of the head's bytes; zero without a head
	base    baseRef
	entries int  // number in the base
	sparse  bool // the base has directories that are left out
	stale   bool // an update failed and left the index in an undefined state
}

// baseRef names a base file and identifies its content.
type baseRef struct {
	id   baseID // zero: there is no base, the head has everything
	size uint64 // bytes
	sum  uint32 // the checksum at its end
}

// baseID is the first half of the SHA-256 of a base file's bytes.
type baseID [16]byte

// fileName returns the name of the base file.
func (b baseRef) fileName() string { return basePrefix + hex.EncodeToString(b.id[:]) }

// maxHead returns the largest number of bytes of changes in a head. With more, a new
// base is written, which costs at most 32 times as much as that head.
func (f fileState) maxHead() uint64 { return max(minHeadSize, f.base.size/32) }

// maxTracked returns the largest number of changes that are tracked for a head.
func (f fileState) maxTracked() int { return max(8192, f.entries/16) }

// ErrDamaged is the kind of [*object.DamageError] for a file of the index. The staged
// changes are lost, but no commit is: without its files the index is empty, and can be
// rebuilt from a tree.
var ErrDamaged = errors.New("the index is damaged")

// Damaged returns the error for a damaged file of the index, or for a missing index.
func Damaged(file string, err error) error {
	return &object.DamageError{Name: filepath.Base(file), Err: err, Kind: ErrDamaged}
}

// VersionError is a file of the index in a newer format than this program knows. It
// matches [object.ErrNewerFormat].
type VersionError struct {
	File    string // its path
	Version int
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("index file %q has format version %d, this program knows up to %d", e.File, e.Version, versionSparse)
}

// Is makes errors.Is(err, object.ErrNewerFormat) true.
func (e *VersionError) Is(target error) bool { return target == object.ErrNewerFormat }

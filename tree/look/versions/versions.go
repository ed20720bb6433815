// Package versions keeps an index of history: the commits that changed each
// path, and the content before and after.
//
// The index is in the folder [Dir] below .kist. It is only a cache and can be
// deleted at any time. [Open] adds the missing commits. For each one, it records
// only the changed paths, so the index grows with the history.
// docs/format/versions.md describes the file.
//
// A file has a life. It begins in the commit and at the path where the file first
// appeared. These two give the file's ID ([FileID]). Renames, moves, deletion and
// re-creation at the same path continue the life.
package versions

import (
	"context"
	"errors"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
)

// Dir is the folder of the index, below the .kist folder.
const Dir = "versions"

// Index holds the changes of commits. It is in memory, so it stays as it is while
// other processes add to the file. One goroutine at a time may use it.
type Index struct {
	paths   pathList
	commits []commit     // by number, parents first
	changes list[change] // by commit
	sums    map[object.ID]object.ID

	commitNumbers map[object.ID]int32

	starts  []int32 // by path: where its changes begin in byPath
	byPath  []int32 // the changes, by path, chain and commit
	chains  []int32 // by chain: its first commit
	ends    []int32 // by chain: its last commit
	tips    []Tip   // HEAD first
	reached []bool  // by commit: a tip reaches it

	attributed map[string]bool // the paths that ever had attributes; nil until Attrs needs them

	disk indexFile

	damaged error // see Damaged
}

// Damaged returns the first damage that made the index or an answer incomplete, or nil.
func (x *Index) Damaged() error { return x.damaged }

// Tip is a name for a commit: HEAD, a branch or a tag.
type Tip struct {
	Name   string // full, as in "refs/heads/main"
	Commit object.ID
}

// commit is a commit in the index. Its chain is the run of first parents that it
// belongs to. In a chain the numbers of commits ascend.
type commit struct {
	id      object.ID
	parents []int32
	seconds int64 // the committer's time
	chain   int32
	expired bool // its content counts as that of its first parent
}

// firstParent returns the number of the first parent, or -1.
func (c *commit) firstParent() int32 {
	if len(c.parents) == 0 {
		return -1
	}
	return c.parents[0]
}

// change is the state of a path after a commit that differs there from its first
// parent.
type change struct {
	commit, path int32
	from         int32 // the path before a rename, or -1
	same         int32 // number of the first parent with the same state, whose history has the change; 0: none
	kind         object.EntryType
	flags        uint8
	mode         uint16
	manifest     bool
	size         uint64
	mtime        object.Time
	id           object.ID
	attrs        string // as encodeAttrs returns them
}

// The flags of a change. A removed path has the kind 0.
const (
	flagDir   = 1 << iota // the removed path was a folder
	flagMoved             // the removed file went on at another path
	flagAdded             // no parent has an entry of this kind, file or folder, at the path
)

func (c *change) isRemoval() bool { return c.kind == 0 }
func (c *change) isDir() bool     { return c.kind == object.TypeDir || c.flags&flagDir != 0 }
func (c *change) isMoved() bool   { return c.flags&flagMoved != 0 }

// Version is the state of a path after a commit that changed it. A merge counts
// if the path differs from all parents.
type Version struct {
	Number int // from 1 in the life of a file; 0: removed, or not numbered
	Commit object.ID
	Time   int64 // of the committer, in seconds since 1970
	Path   string
	From   string // the path before, if the file was renamed

	Type     object.EntryType // 0: the path was removed
	Moved    bool             // it was removed, and its file goes on at another path
	Added    bool             // no parent of the commit has an entry of this kind, file or folder, at this path
	Mode     uint16
	Size     uint64
	MTime    object.Time
	ID       object.ID // as of [tree.ContentID]
	Manifest bool      // ID is that of a manifest: the file has several chunks
}

// Entry returns the entry of a version, as far as the index has it: type, mode, size, mtime and
// the ID of the content. See [Version.Stored] for reading it.
func (v *Version) Entry() object.Entry {
	kind := object.KindChunk
	switch {
	case v.Type == object.TypeDir:
		kind = object.KindTree
	case v.Manifest:
		kind = object.KindManifest
	}
	return object.Entry{Type: v.Type, Mode: v.Mode, Size: v.Size, MTime: v.MTime, Content: object.Key{Kind: kind, ID: v.ID}}
}

// versionOf returns a change as a Version without a number.
func (x *Index) versionOf(c *change) Version {
	v := Version{
		Commit: x.commits[c.commit].id, Time: x.commits[c.commit].seconds, Path: x.paths.path(c.path),
		Type: c.kind, Moved: c.isMoved(), Added: c.flags&flagAdded != 0, Mode: c.mode,
		Size: c.size, MTime: c.mtime, ID: c.id, Manifest: c.manifest,
	}
	if c.from >= 0 {
		v.From = x.paths.path(c.from)
	}
	return v
}

// Open reads the index of a repository and adds the missing commits that HEAD,
// branches and tags reach. The result is complete even if the file cannot be
// written, as in a read-only repository. A damaged file is replaced. So is a
// file that was written before a commit expired, or came back. Progress, if not nil,
// receives the number of commits added so far. The index also has the history of the
// commits in also.
//
// If an object is damaged or missing, or a tree has far too many paths, Open warns: the
// history there is unknown, and is not written to the file. The content of an
// expired commit counts as that of the last commit before it with content.
func Open(ctx context.Context, r *kist.Repository, progress func(commits int), also ...object.ID) (*Index, error) {
	tips, err := findTips(ctx, r)
	if err != nil {
		return nil, err
	}
	for _, id := range also {
		tips = append(tips, Tip{Commit: id})
	}
	x, err := openAndUpdate(ctx, r, tips, progress)
	if err != nil {
		return nil, err
	}
	if live := x.noteReached(); 2*live < len(x.commits) {
		Discard(r.Dir()) // most of it is history that was given up; a failure does no harm
		if x, err = openAndUpdate(ctx, r, tips, progress); err != nil {
			return nil, err
		}
		x.noteReached()
	}
	x.sortChanges()
	return x, nil
}

func openAndUpdate(ctx context.Context, r *kist.Repository, tips []Tip, progress func(int)) (*Index, error) {
	x, err := loadFile(r.Dir())
	if err != nil {
		return nil, err
	}
	x.tips = tips
	return x, x.addCommits(ctx, r, progress)
}

// findTips returns the names of commits, HEAD first.
func findTips(ctx context.Context, r *kist.Repository) ([]Tip, error) {
	head, err := r.Refs().Head()
	if err != nil {
		return nil, err
	}
	names, err := r.Refs().List("")
	if err != nil {
		return nil, err
	}
	if !head.ID.IsZero() {
		names = slices.Insert(names, 0, refs.Ref{Name: "HEAD", ID: head.ID})
	}
	var tips []Tip
	for _, ref := range names {
		if ref.Target != "" {
			continue
		}
		id := ref.ID
		if strings.HasPrefix(ref.Name, refs.Tags) {
			id, err = refs.Peel(ctx, r.Objects(), id)
			if errors.Is(err, object.ErrLost) {
				continue
			} else if err != nil {
				return nil, err
			}
		}
		tips = append(tips, Tip{ref.Name, id})
	}
	return tips, nil
}

// noteReached notes the commits that tips reach, and returns their number.
func (x *Index) noteReached() (n int) {
	x.reached = x.reachedFrom(x.tips...)
	for _, reached := range x.reached {
		if reached {
			n++
		}
	}
	return n
}

// reachedFrom returns, by commit, whether one of the tips reaches it.
func (x *Index) reachedFrom(tips ...Tip) []bool {
	reached := make([]bool, len(x.commits))
	for _, tip := range tips {
		if at, ok := x.commitNumbers[tip.Commit]; ok {
			reached[at] = true
		}
	}
	for i := range slices.Backward(x.commits) {
		if reached[i] {
			for _, p := range x.commits[i].parents {
				reached[p] = true
			}
		}
	}
	return reached
}

// All yields all versions of all paths, in commits that a tip reaches, parents
// before children. It leaves out removed paths. Folders are among the versions, and
// the root, whose path is empty.
func (x *Index) All() iter.Seq[Version] {
	return func(yield func(Version) bool) {
		for i := range x.changes.len() {
			c := x.changes.at(i)
			if c.same == 0 && !c.isRemoval() && x.reached[c.commit] && !yield(x.versionOf(c)) {
				return
			}
		}
	}
}

// With yields the versions in All with one of the given IDs.
func (x *Index) With(ids map[object.ID]bool) iter.Seq[Version] {
	return func(yield func(Version) bool) {
		for i := range x.changes.len() {
			c := x.changes.at(i)
			if c.same == 0 && !c.isRemoval() && ids[c.id] && x.reached[c.commit] && !yield(x.versionOf(c)) {
				return
			}
		}
	}
}

// Tips returns the names of commits that the index starts from: HEAD, then refs
// by name.
func (x *Index) Tips() []Tip { return x.tips }

// Sum returns the SHA-256 of the bytes of a file with several chunks, by the ID
// of its manifest, if [Index.AddSums] has noted it. For all other files the ID is
// that hash.
func (x *Index) Sum(manifest object.ID) (object.ID, bool) {
	sum, ok := x.sums[manifest]
	return sum, ok
}

// AddSums notes hashes of files for [Index.Sum], and writes them to the index if
// possible.
func (x *Index) AddSums(ctx context.Context, sums map[object.ID]object.ID) {
	x.disk.appendBlock(ctx, func(w io.Writer) error {
		return x.encodeBlock(w, len(x.commits), x.changes.len(), x.paths.len(), sums)
	})
	for id, sum := range sums {
		x.sums[id] = sum
	}
}

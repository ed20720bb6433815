package stage

import (
	"cmp"
	"errors"
	"io/fs"
	"slices"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/worktree"
)

// edit is the change of the index that follows from one path in the worktree.
type edit struct {
	path  string
	why   string       // the reason why the index may differ from the worktree
	old   *index.Entry // the former entry in the index; nil for a directory or an untracked path
	entry *index.Entry // the new entry; nil for a directory
	mode  uint16       // the new mode of a directory

	kind    editKind
	state   worktree.State
	implied bool // the listed children of the directory imply the edit
}

// editKind is the change of the index that an edit makes.
type editKind uint8

const (
	editNone    editKind = iota
	editSet              // stages entry
	editDir              // stages a directory with mode
	editRemove           // removes the path
	editResolve          // clears the conflict at the path
	editForgive          // clears the note that the path could not be read
)

// edits are the edits of one command. First come those of notes alone.
type edits []edit

// skipped reports whether a commit must record that the path differs from the
// worktree.
func (e *edit) skipped() bool {
	return e.state == worktree.Unreadable || e.kind == editSet && e.why != ""
}

// changes reports whether the edits change anything.
func (list edits) changes() bool {
	return slices.ContainsFunc(list, func(e edit) bool {
		return e.kind != editNone || e.skipped()
	})
}

// settles reports whether the edit ends a conflict about its path.
func (e *edit) settles() bool { return e.kind != editNone && e.kind != editForgive }

// beginsLost returns the lost directories, whose content is unknown, that get
// new content.
func (list edits) beginsLost(idx *index.Index) (dirs []string) {
	for path := range idx.LostDirs() {
		if slices.ContainsFunc(list, func(e edit) bool {
			return (e.kind == editSet || e.kind == editDir) && e.path != path && tree.Below(e.path, path)
		}) {
			dirs = append(dirs, path)
		}
	}
	return dirs
}

// apply changes idx. It clears the entries that it has set, to save memory.
func (list edits) apply(idx *index.Index) error {
	for i := range list {
		e := list[i]
		list[i].entry = nil
		var err error
		switch e.kind {
		case editResolve:
			idx.ClearConflict(e.path)
		case editForgive:
			idx.ClearSkipped(e.path)
		case editRemove:
			idx.Remove(e.path)
		case editSet:
			err = idx.Set(e.path, *e.entry)
		case editDir:
			err = idx.SetDir(e.path, e.mode)
		}
		if err == nil && e.skipped() {
			err = idx.SetSkipped(e.path, e.why)
		}
		if err != nil {
			return err
		}
	}

	return nil
}

// result summarises the edits for the user.
func (list edits) result() *AddResult {
	result := &AddResult{}
	for _, e := range list {
		switch {
		case e.implied || e.kind == editNone:
		case e.kind == editRemove:
			result.Deleted = append(result.Deleted, e.path)
		case e.state == worktree.Untracked:
			result.Added = append(result.Added, e.path)
		case e.kind == editDir || e.old == nil || !e.old.SameContent(e.entry):
			result.Modified = append(result.Modified, e.path)
		}
		if e.kind == editSet {
			result.Read.Files++
			result.Read.Bytes += int64(e.entry.Size)
		}
		switch left := (object.Skipped{Path: e.path, Reason: e.why}); {
		case e.skipped():
			result.Skipped = append(result.Skipped, left)
		case e.state == worktree.Special || e.state == worktree.Nested:
			result.Special = append(result.Special, left)
		case e.state == worktree.Ignored:
			result.Ignored = append(result.Ignored, e.path)
		}
	}

	for _, paths := range [][]string{result.Added, result.Modified, result.Deleted, result.Ignored} {
		slices.SortFunc(paths, tree.ComparePaths)
	}

	for _, left := range [][]object.Skipped{result.Skipped, result.Special} {
		slices.SortFunc(left, func(a, b object.Skipped) int {
			return cmp.Or(tree.ComparePaths(a.Path, b.Path), cmp.Compare(a.Reason, b.Reason))
		})
	}

	return result
}

// reason returns the message of an error without its path, which the caller
// shows beside it.
func reason(err error) string {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err.Error()
	}
	return err.Error()
}

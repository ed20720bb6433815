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

	state    worktree.State
	remove   bool
	dir      bool // it is, or was, a directory
	implied  bool // its listed children imply it
	resolved bool // ends the conflict of the path
	readable bool // ends the note that the path is unreadable
}

// edits are the edits of one command. Those with readable set come first.
type edits []edit

// skipped reports whether a commit must record that the path differs from the
// worktree.
func (e *edit) skipped() bool {
	return e.state == worktree.Unreadable || e.entry != nil && e.why != ""
}

// changes reports whether the edits change anything.
func (list edits) changes() bool {
	return slices.ContainsFunc(list, func(e edit) bool {
		return e.settles() || e.readable || e.skipped()
	})
}

// isDir reports whether the path is to be a directory.
func (e *edit) isDir() bool { return e.dir && !e.remove && e.why == "" }

// settles reports whether the edit ends a conflict about its path.
func (e *edit) settles() bool { return e.resolved || e.remove || e.entry != nil || e.isDir() }

// beginsLost returns the lost directories, whose content is unknown, that get
// new content.
func (list edits) beginsLost(idx *index.Index) (dirs []string) {
	for path := range idx.LostDirs() {
		if slices.ContainsFunc(list, func(e edit) bool {
			return e.path != path && tree.Below(e.path, path) && (e.entry != nil || e.isDir())
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
		switch {
		case e.resolved:
			idx.ClearConflict(e.path)
		case e.readable:
			idx.ClearSkipped(e.path)
		case e.remove:
			idx.Remove(e.path)
		case e.entry != nil:
			err = idx.Set(e.path, *e.entry)
		case e.isDir():
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
		case e.implied:
		case e.remove:
			result.Deleted = append(result.Deleted, e.path)
		case e.entry == nil && !e.isDir():
		case e.state == worktree.Untracked:
			result.Added = append(result.Added, e.path)
		case e.entry == nil || e.old == nil || !e.old.SameContent(e.entry):
			result.Modified = append(result.Modified, e.path)
		}
		if e.entry != nil {
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

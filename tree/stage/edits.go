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

// edit is what the state of a path in the worktree means for the index.
type edit struct {
	path  string
	why   string       // why the path is not, or may not be, what it is in the worktree
	old   *index.Entry // what the index had; nil: nothing, or a directory
	entry *index.Entry // of anything but a directory
	mode  uint16       // of a directory

	state    worktree.State
	remove   bool
	dir      bool // it is, or was, a directory
	told     bool // it is told by what is in it
	resolved bool // the path has a conflict no more
	readable bool // the path can be read again, or is gone
}

// edits are those of one command. Those that are readable come first.
type edits []edit

// skipped reports whether a commit has to say that the path is not in it as it
// is in the worktree.
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

// beginsLost returns the directories of unknown content in which something is
// put.
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

// apply changes idx, and lets go of the entries that it has put there.
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

// result tells what the edits change, for a person to read.
func (list edits) result() *AddResult {
	result := &AddResult{}
	for _, e := range list {
		switch {
		case e.told:
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

// reason returns why something could not be read, without the path, which is
// told beside it.
func reason(err error) string {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err.Error()
	}
	return err.Error()
}

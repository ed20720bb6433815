package kist

import (
	"errors"
	"io/fs"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree/index"
)

// edit is what the state of a path in the worktree means for the index.
type edit struct {
	path    string
	old     *index.Entry // what the index had; nil: nothing, or a directory
	skipped string       // why the path is not, or may not be, what it is in the worktree
	remove  bool
	dir     bool
	mode    uint16       // of a directory
	entry   *index.Entry // of anything else
}

// edits are those of one command, each path once.
type edits []edit

// apply changes idx.
func (list edits) apply(idx *index.Index) error {
	for _, e := range list {
		var err error
		switch {
		case e.remove:
			idx.Remove(e.path)
		case e.entry != nil:
			err = idx.Set(e.path, *e.entry)
		case e.dir:
			err = idx.SetDir(e.path, e.mode)
		}
		if err == nil && e.skipped != "" {
			err = idx.SetSkipped(e.path, e.skipped)
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
		case e.remove:
			result.Deleted = append(result.Deleted, e.path)
		case e.entry == nil:
		case e.old == nil:
			result.Added = append(result.Added, e.path)
		case !e.old.SameContent(e.entry):
			result.Modified = append(result.Modified, e.path)
		}
		if e.skipped != "" {
			result.Skipped = append(result.Skipped, object.Skipped{Path: e.path, Reason: e.skipped})
		}
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

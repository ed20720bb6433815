package stage

import (
	"errors"
	"fmt"
	"slices"

	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/worktree"
)

// errCameBack means that a path could not be read for a while.
var errCameBack = errors.New("it was gone for a while; was its disk unmounted?")

// recheckDeleted takes deletions out of the list that the worktree does not confirm after all files were
// read, and adds unreadable paths in their place. If a root or a mounted file system went away
// meanwhile, the paths below it are not deleted. Nor is a path that could not be found once,
// and exists now.
func (s *stager) recheckDeleted(l *edits, anchors *worktree.Anchors) {
	if !slices.ContainsFunc(l.list, func(e edit) bool { return e.isAbsent() }) {
		return
	}

	for _, away := range anchors.Recheck(s.worktree) {
		l.skipAbsent(away.Path, away.Err)
	}

	var vanished []string
	for i := range l.list {
		if e := &l.list[i]; e.isAbsent() && e.vanished {
			vanished = append(vanished, e.path)
		}
	}

	slices.SortFunc(vanished, tree.ComparePaths)
	gone := "" // all below it is gone, too
	for _, path := range vanished {
		switch {
		case gone != "" && tree.Below(path, gone):
		case s.worktree.Exists(path):
			l.skipAbsent(path, errCameBack)
		default:
			gone = path
		}
	}
}

// isAbsent reports whether a path was not found, tracked or not.
func (e *edit) isAbsent() bool { return e.state == worktree.Deleted && !e.excluded }

// skipAbsent replaces the edits of absent paths at and below a path by one that skips it, with its
// reason. Without absent paths, it changes nothing.
func (l *edits) skipAbsent(path string, why error) {
	n := len(l.list)
	l.list = slices.DeleteFunc(l.list, func(e edit) bool { return e.isAbsent() && tree.Below(e.path, path) })
	if len(l.list) < n {
		l.list = append(l.list, edit{path: path, state: worktree.Unreadable, reason: ReasonWithoutPath(why)})
	}
}

// DeletedLimit is how many files may be deleted at once. The zero DeletedLimit permits all, except
// those of a root that is empty.
type DeletedLimit struct {
	Share float64 // of the staged files below a root of the worktree; 0: all
	Least int     // deleted files that the limit needs to count

	// EmptyRoots permits that a root of the worktree has lost all files, see
	// [worktree.ScanOptions]. Otherwise it is skipped.
	EmptyRoots bool
}

// DeletedError means that more files are gone than a [DeletedLimit] permits.
type DeletedError struct {
	Root    string // the root of the worktree; "" if it is the only one
	Deleted int    // the number of files that are gone
	Files   int    // the number of files that were there
}

func (e *DeletedError) Error() string {
	return fmt.Sprintf("%d of %d files below %q are gone", e.Deleted, e.Files, e.Root)
}

// checkDeleted returns a [*DeletedError] if the edits delete more than limit. Excluded and
// renamed files do not count.
func (s *stager) checkDeleted(list *edits, limit DeletedLimit) error {
	if limit.Share == 0 {
		return nil
	}
	gone := list.goneFiles()
	if len(gone) < max(limit.Least, 1) {
		return nil
	}
	for _, root := range worktree.RootsOf(s.worktree) {
		e := &DeletedError{Root: root}
		for _, path := range gone {
			if tree.Below(path, root) {
				e.Deleted++
			}
		}

		if e.Deleted < max(limit.Least, 1) {
			continue
		}
		if dir := s.idx.Dir(root); dir != nil {
			for range dir.All() {
				e.Files++
			}
		}
		if float64(e.Deleted) > limit.Share*float64(e.Files) && e.Files > 0 {
			return e
		}
	}

	return nil
}

// goneFiles returns the paths of the absent files whose content is at no new path.
func (l *edits) goneFiles() (paths []string) {
	contentOf := func(e *index.Entry) index.Entry {
		return index.Entry{Type: e.Type, Size: e.Size, Data: e.Data, Content: e.Content}
	}
	moved := map[index.Entry]int{}
	for e := range l.all() {
		if e.kind == editSet && e.old == nil && e.entry != nil {
			moved[contentOf(e.entry)]++
		}
	}

	for e := range l.all() {
		switch {
		case !e.isAbsent() || e.old == nil:
		case moved[contentOf(e.old)] > 0:
			moved[contentOf(e.old)]--
		default:
			paths = append(paths, e.path)
		}
	}

	return paths
}

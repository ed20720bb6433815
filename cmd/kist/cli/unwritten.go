package cli

import (
	"errors"
	"path/filepath"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree/worktree"
)

// isPartial reports whether err says that some paths could not be written, but
// the command did all else.
func isPartial(err error) bool {
	var failed *worktree.ApplyError
	return errors.As(err, &failed) && !failed.Stopped
}

// unwritten returns the error of a command that wrote to the worktree. If only
// some paths could not be written, the exit status is 3, and they are named. If
// their content is damaged or missing, a hint says where to look.
func (e *Env) unwritten(r *kist.Repository, err error) error {
	return unwritten(err, func(path string) string { return e.shown(r, path) })
}

// unwrittenBelow is unwritten for a command that wrote to another folder.
func (e *Env) unwrittenBelow(dir string, err error) error {
	return unwritten(err, func(path string) string { return quotePath(filepath.Join(dir, path)) })
}

// halfDone adds advice to the error of a checkout that has stopped on its way.
func halfDone(err error) error {
	if isA[*worktree.ApplyError](err) {
		return hintf(err, "some files are from the new commit, others unchanged: run the command again to continue, or 'kist checkout --force' to go back")
	}
	return err
}

func unwritten(err error, shown func(path string) string) error {
	var failed *worktree.ApplyError
	if !isPartial(err) || !errors.As(err, &failed) {
		return err
	}
	var text strings.Builder
	text.WriteString(plural(uint64(len(failed.Failed)), "path", "paths") + " could not be written; everything else was:")
	for i, f := range failed.Failed {
		if i == detailLines {
			text.WriteString("\nand " + formatCount(uint64(len(failed.Failed)-i)) + " more")
			break
		}
		text.WriteString("\n" + shown(f.Path) + ": " + bareError(f.Err))
	}
	if errors.Is(err, object.ErrCorrupt) || errors.Is(err, object.ErrNotFound) {
		return hintf(failf(exitPartial, "", "%s", text.String()), "'kist verify' lists the damage, and 'kist verify --repair' looks for intact copies")
	}
	return failf(exitPartial, "", "%s", text.String())
}

package cli

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree/look/log"
	"github.com/kist-vcs/kist/tree/worktree"
)

// partialError returns the error of a command that skipped paths: it names them, and has
// exit status 3. It returns nil if there are none.
func partialError(env *Env, r *kist.Repository, skipped []object.Skipped) error {
	return partialOf(env, r, skipped, uint64(len(skipped)))
}

// partialOf is partialError for a list that has only the first of all paths.
func partialOf(env *Env, r *kist.Repository, skipped []object.Skipped, all uint64) error {
	if all == 0 {
		return nil
	}

	lines := firstOf(skipped, detailLines, "", func(s object.Skipped) string { return shownSkipped(env, r, s) })
	if all > detailLines {
		lines = append(lines[:detailLines], andMore(all-detailLines))
	}
	return linesError(exitPartial, "", plural(all, "path was", "paths were")+" skipped", lines)
}

func shownSkipped(env *Env, r *kist.Repository, s object.Skipped) string {
	return env.shown(r, s.Path) + ": " + printable(s.Reason)
}

// bareError returns the text of an error without its path. The caller prints the path.
func bareError(err error) string {
	var purged *kist.PurgedError
	if errors.As(err, &purged) {
		return purged.Error()
	}
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err.Error()
	}
	return err.Error()
}

// isPartial reports whether err means that a command wrote all paths but some.
func isPartial(err error) bool {
	var failed *worktree.ApplyError
	return errors.As(err, &failed) && !failed.Stopped
}

// unwritten returns the error of a command that wrote to the worktree. If it wrote all
// paths but some, the error names these, and the exit status is 3. If their content is
// damaged or missing, a hint follows.
func (e *Env) unwritten(r *kist.Repository, err error) error {
	return unwritten(err, hintGit, func(path string) string { return e.shown(r, path) })
}

// hintGit is for folders of git that a command left as they are.
const hintGit = "if you trust whoever committed it: 'kist config core.git write', then 'kist restore PATH'"

// unwrittenBelow is unwritten for a command that wrote to another folder.
func unwrittenBelow(dir string, err error) error {
	return unwritten(err, "if it is yours, --git writes .git folders, too", func(path string) string { return quotePath(filepath.Join(dir, path)) })
}

// halfDone adds advice to the error of a checkout that stopped before its end.
func halfDone(err error) error {
	if isA[*worktree.ApplyError](err) {
		return hintf(err, "some files are from the new commit, others unchanged: run the command again to continue, or 'kist checkout --force' to go back")
	}
	return err
}

// unwritten is Env.unwritten with another hint for folders of git, and with paths as shown
// returns them.
func unwritten(err error, gitHint string, shown func(path string) string) error {
	var failed *worktree.ApplyError
	if !isPartial(err) || !errors.As(err, &failed) {
		return err
	}

	could := " could not be written; everything else was:"
	if isA[*worktree.XattrError](err) {
		could = " could not be written in full; everything else was:"
	}
	status := exitPartial
	if errors.Is(err, object.ErrNewerFormat) {
		status = exitFormat
	}
	partial := linesError(status, "",
		plural(uint64(len(failed.Failed)), "path", "paths")+could,
		firstOf(failed.Failed, detailLines, "", func(f worktree.Failed) string { return shown(f.Path) + ": " + bareError(f.Err) }))
	if status == exitFormat {
		return hintf(partial, "%s", hintNewer)
	}
	if errors.Is(err, worktree.ErrGit) {
		partial = hintf(partial, "%s", gitHint)
	}
	if object.IsUnreadable(err) {
		return hintf(partial, "'kist verify' lists the damage, and 'kist verify --repair' looks for intact copies")
	}
	return partial
}

// leavingShown is the number of commits that warnLeaving lists.
const leavingShown = 4

// warnLeaving warns of commits that no branch or tag reaches, after HEAD left id, where it
// was detached. It reports whether there are any.
func warnLeaving(ctx context.Context, env *Env, r *kist.Repository, id object.ID) bool {
	list, err := r.Refs().List("refs/")
	if err != nil {
		return false
	}
	revs := []string{id.String(), "^HEAD"}
	for _, ref := range list {
		if ref.ID == id {
			return false
		}
		revs = append(revs, "^"+ref.ID.String())
	}

	var left []log.Logged
	for c, err := range log.Commits(ctx, r, log.Options{Revs: revs}) {
		if err != nil {
			return false
		}
		left = append(left, c)
	}
	if len(left) == 0 {
		return false
	}

	lines := firstOf(left, leavingShown, "", func(c log.Logged) string { return c.ID.Short() + " " + subject(c.Message) })
	them := "them"
	if len(left) == 1 {
		them = "it"
	}
	env.warn("you leave %s that no branch has:\n  %s\n'kist branch NEW %s' makes a branch of %s",
		plural(uint64(len(left)), "commit", "commits"), strings.Join(lines, "\n  "), id.Short(), them)
	return true
}

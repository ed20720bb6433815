package cli

import (
	"context"
	"errors"
	"path/filepath"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/readable"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/tree/look/log"
	"github.com/kist-vcs/kist/tree/work/stage"
	"github.com/kist-vcs/kist/tree/worktree"
)

// PartialError returns the error of a command that skipped paths: it names them, and has
// exit status 3. It returns nil if there are none.
func PartialError(env *Env, r *kist.Repository, skipped []object.Skipped) error {
	return PartialOf(env, r, skipped, uint64(len(skipped)))
}

// PartialOf is PartialError for a list that has only the first of all paths.
func PartialOf(env *Env, r *kist.Repository, skipped []object.Skipped, all uint64) error {
	if all == 0 {
		return nil
	}

	lines := FirstOf(skipped, DetailLines, "", func(s object.Skipped) string { return ShownSkipped(env, r, s) })
	if all > DetailLines {
		lines = append(lines[:DetailLines], AndMore(all-DetailLines))
	}
	return LinesError(ExitPartial, "", readable.Plural(all, "path was", "paths were")+" skipped", lines)
}

func ShownSkipped(env *Env, r *kist.Repository, s object.Skipped) string {
	return env.Shown(r, s.Path) + ": " + Printable(s.Reason)
}

// Unwritten returns the error of a command that wrote to the worktree. If it wrote all
// paths but some, the error names these, and the exit status is 3. If their content is
// damaged or missing, a hint follows.
func (e *Env) Unwritten(r *kist.Repository, err error) error {
	return unwritten(err, HintGit, func(path string) string { return e.Shown(r, path) })
}

// HintGit is for folders of git that a command left as they are.
const HintGit = "if you trust whoever committed it: 'kist config core.git write', then 'kist restore PATH'"

// UnwrittenBelow is unwritten for a command that wrote to another folder.
func UnwrittenBelow(dir string, err error) error {
	return unwritten(err, "if it is yours, --git writes .git folders, too", func(path string) string { return QuotePath(filepath.Join(dir, path)) })
}

// HalfDone adds advice to the error of a checkout that stopped before its end.
func HalfDone(err error) error {
	if IsA[*worktree.ApplyError](err) {
		return Hintf(err, "some files are from the new commit, others unchanged: run the command again to continue, or 'kist checkout --force' to go back")
	}
	return err
}

// unwritten is Env.Unwritten with another hint for folders of git, and with paths as shown
// returns them.
func unwritten(err error, gitHint string, shown func(path string) string) error {
	var failed *worktree.ApplyError
	if !stage.IsPartial(err) || !errors.As(err, &failed) {
		return err
	}

	could := " could not be written; everything else was:"
	if IsA[*worktree.XattrError](err) {
		could = " could not be written in full; everything else was:"
	}
	status := ExitPartial
	if errors.Is(err, object.ErrNewerFormat) {
		status = ExitFormat
	}
	partial := LinesError(status, "",
		readable.Plural(uint64(len(failed.Failed)), "path", "paths")+could,
		FirstOf(failed.Failed, DetailLines, "", func(f worktree.FailedPath) string { return shown(f.Path) + ": " + reasonOf(f.Err) }))
	if status == ExitFormat {
		return Hintf(partial, "%s", hintNewer)
	}
	if errors.Is(err, worktree.ErrGit) {
		partial = Hintf(partial, "%s", gitHint)
	}
	if errors.Is(err, remote.ErrArchived) {
		partial = Hintf(partial, "%s", hintThaw)
	}
	if object.IsUnreadable(err) {
		return Hintf(partial, "'kist verify' lists the damage, and 'kist verify --repair' looks for intact copies")
	}
	return partial
}

// reasonOf returns the reason why a path was not written. Content that is away has words of its own.
func reasonOf(err error) string {
	if object.IsAway(err) || errors.Is(err, remote.ErrArchived) {
		return inWords(err)
	}
	return stage.ReasonWithoutPath(err)
}

// leavingShown is the number of commits that WarnLeaving lists.
const leavingShown = 4

// WarnLeaving warns of commits that no branch or tag reaches, after HEAD left id, where it
// was detached. It reports whether there are any.
func WarnLeaving(ctx context.Context, env *Env, r *kist.Repository, id object.ID) bool {
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

	lines := FirstOf(left, leavingShown, "", func(c log.Logged) string { return c.ID.Short() + " " + Subject(c.Message) })
	them := "them"
	if len(left) == 1 {
		them = "it"
	}
	env.Warn("you leave %s that no branch has:\n  %s\n'kist branch NEW %s' makes a branch of %s",
		readable.Plural(uint64(len(left)), "commit", "commits"), strings.Join(lines, "\n  "), id.Short(), them)
	return true
}

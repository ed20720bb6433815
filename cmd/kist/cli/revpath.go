package cli

import (
	"context"
	"errors"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/tree"
)

// located is what REV:PATH names.
type located struct {
	rev    string    // as it was given, "HEAD" if it was left out
	commit object.ID // of the revision
	path   string    // in the repository, "" for its root
	entry  object.Entry
}

// locate finds what REV:PATH names. As in git, the path starts from the root
// of the worktree, unless it begins with "./" or "../": then it starts from
// the working directory. Without a revision it is HEAD's.
func (e *Env) locate(ctx context.Context, r *kist.Repository, revPath string) (located, error) {
	rev, path, _ := refs.SplitPath(revPath)
	at := located{rev: rev}
	if rev == "" {
		at.rev = "HEAD"
	}
	id, commit, err := r.ReadCommit(ctx, at.rev)
	if err != nil {
		return at, err
	}
	at.commit = id
	if first, _, _ := strings.Cut(path, "/"); first == "." || first == ".." {
		at.path, err = e.repoPath(r, path)
	} else if at.path, err = tree.CleanPath(path); err != nil {
		err = failf(exitFailed, "path", "path %s: %w", quoteArg(path), errors.Unwrap(err))
	}
	if err != nil {
		return at, err
	}
	at.entry, err = tree.Find(ctx, r.Objects(), commit.Tree, at.path)
	if errors.Is(err, tree.ErrNotExist) || errors.Is(err, tree.ErrNotDir) {
		err = failf(exitFailed, "not-found", "path %s is not in %s", quoteArg(at.path), quotePath(at.rev))
	}
	return at, err
}

// text returns what REV:PATH names as it is shown to people.
func (l located) text() string { return quotePath(l.rev + ":" + l.path) }

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
	rev     string // as it was given, "" for what is staged
	path    string // in the repository, "" for its root
	entry   object.Entry
	objects object.Reader // has the entry's nodes
}

// locate finds what REV:PATH names. As in git, ":PATH" is what is staged, and
// the path starts from the root of the worktree, unless it begins with "./" or
// "../": then it starts from the working directory. REV alone is its root.
func (e *Env) locate(ctx context.Context, r *kist.Repository, revPath string) (located, error) {
	rev, path, hasPath := refs.SplitPath(revPath)
	at := located{rev: rev}
	var view kist.View
	var err error
	if rev == "" && hasPath {
		view, err = r.IndexView(ctx)
	} else {
		view, err = r.CommitView(ctx, rev)
	}
	if err != nil {
		return at, e.meantPath(r, revPath, err)
	}
	if first, _, _ := strings.Cut(path, "/"); first == "." || first == ".." {
		at.path, err = e.repoPath(r, path)
	} else if at.path, err = tree.CleanPath(path); err != nil {
		err = failf(exitFailed, "path", "path %s: %w", quoteArg(path), errors.Unwrap(err))
	}
	if err != nil {
		return at, err
	}
	at.objects = view.Objects
	at.entry, err = tree.Find(ctx, view.Objects, view.Tree, at.path)
	if errors.Is(err, tree.ErrNotExist) || errors.Is(err, tree.ErrNotDir) {
		in := quoteArg(rev)
		if rev == "" {
			in = "the index"
		}
		err = failf(exitFailed, "not-found", "path %s is not in %s", quoteArg(at.path), in)
	}
	return at, err
}

// meantPath adds advice to an error about a revision that is none, but a path.
func (e *Env) meantPath(r *kist.Repository, arg string, err error) error {
	if !errors.Is(err, refs.ErrNotFound) || strings.Contains(arg, ":") {
		return err
	}
	if path, perr := e.repoPath(r, arg); perr == nil && r.Worktree().Exists(path) {
		return hintf(err, "write 'HEAD:%s' for a path in a commit", printable(path))
	}
	return err
}

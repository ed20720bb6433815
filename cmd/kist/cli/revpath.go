package cli

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/view"
)

// located is the file or folder that REV:PATH names.
type located struct {
	rev     string // as it was given, "" for the index
	path    string // in the repository, "" for its root
	entry   object.Entry
	objects object.Reader // has the entry's nodes
}

// locate finds the file or folder that REV:PATH names. As in git, ":PATH" is in the
// index, and the path starts from the root of the worktree, unless it begins with "./" or
// "../": then it starts from the working directory. REV alone is its root.
func (e *Env) locate(ctx context.Context, r *kist.Repository, revPath string) (located, error) {
	rev, path, hasPath := refs.SplitPath(revPath)
	at := located{rev: rev}
	var source view.View
	var err error
	if rev == "" && hasPath {
		source, err = view.OfIndex(ctx, r)
	} else {
		source, err = view.OfCommit(ctx, r, rev)
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
	at.objects = source.Objects
	at.entry, err = tree.Find(ctx, source.Objects, source.Tree, at.path)
	if errors.Is(err, tree.ErrNotExist) || errors.Is(err, tree.ErrNotDir) {
		in := quoteArg(rev)
		if rev == "" {
			in = "the index"
		}
		err = failf(exitFailed, "not-found", "path %s is not in %s", quoteArg(at.path), in)
	}
	return at, err
}

// locateAll finds what the arguments [REV[:PATH]] [--] [PATH...] of a command
// name. PATHs are pathspecs, and each has to match something in REV: then the
// result has the outermost of the paths that they select, and byPaths is true.
// Without "--", an argument that names a revision is one, and any other has to
// be a pattern or to exist.
func (e *Env) locateAll(cmd *cobra.Command, r *kist.Repository, args []string) (all []located, byPaths bool, err error) {
	ctx := cmd.Context()
	var specs pathspecs
	revs := args
	if dash := cmd.ArgsLenAtDash(); dash >= 0 {
		revs = args[:dash]
		specs, err = e.pathspecs(r, args[dash:], true)
	} else if len(args) > 0 {
		rev, _, hasPath := refs.SplitPath(args[0])
		noRev := resolvable(ctx, r, rev)
		n := 1
		if noRev != nil && looksLikePathspec(args[0]) || !hasPath && errors.Is(noRev, refs.ErrNotFound) {
			n = 0
		}
		revs = args[:n]
		specs, err = e.existingPaths(r, args[n:], noRev)
	}
	if err != nil {
		return nil, false, err
	}
	if len(revs) > 1 {
		return nil, false, usagef("one argument too many: %s", quoteArg(revs[1]))
	}

	what := "HEAD"
	if len(revs) > 0 {
		what = revs[0]
	}
	at, err := e.locate(ctx, r, what)
	if err != nil || len(specs) == 0 {
		return []located{at}, false, err
	}
	if at.path != "" {
		return nil, false, hintf(usagef("%s is a path already", quoteArg(what)), "write '%s -- PATH...'", printable(at.rev))
	}
	in := places{views: []view.View{{Tree: at.entry.Content.ID, Objects: at.objects}}}
	if err := e.known(ctx, r, specs, in); err != nil {
		return nil, false, err
	}
	paths, err := e.find(ctx, r, specs, in)
	if err != nil {
		return nil, false, err
	}
	slices.SortFunc(paths, tree.ComparePaths)
	for _, path := range paths {
		if n := len(all); n > 0 && tree.Below(path, all[n-1].path) {
			continue
		}
		entry, err := tree.Find(ctx, at.objects, at.entry.Content.ID, path)
		if object.PassOver(at.objects, path, object.Key{}, err) {
			continue
		}
		if err != nil {
			return nil, false, err
		}
		all = append(all, located{at.rev, path, entry, at.objects})
	}
	return all, true, nil
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

package input

import (
	"context"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/look/compare"
	"github.com/kist-vcs/kist/tree/pathspec"
)

// Pathspecs parses arguments, see [pathspec.Parse].
func Pathspecs(e *cli.Env, r *kist.Repository, args []string, whole bool) (pathspec.List, error) {
	return pathspec.Parse(args, whole, func(text string, top bool) (string, error) {
		if !top {
			return e.RepoPath(r, text)
		}
		root := *e
		root.Dir = r.Root()
		return root.RepoPath(r, text)
	})
}

// Tracked reports whether the index has a file, a folder or a conflict at path.
func Tracked(r *kist.Repository, path string) bool {
	idx, err := r.Index()
	return err == nil && index.Tracks(idx, path)
}

// PathsOf returns a commit, and the paths in it that match specs. Without specs, the only
// path is "", the root.
func PathsOf(ctx context.Context, env *cli.Env, r *kist.Repository, rev string, specs pathspec.List) (compare.Side, []string, error) {
	source, err := compare.OfCommit(ctx, r, rev)
	if err != nil {
		return source, nil, err
	}
	paths, err := pathspec.Find(ctx, r, specs, pathspec.Places{Views: []compare.Side{source}})
	if len(paths) == 0 {
		paths = []string{""}
	}
	return source, paths, err
}

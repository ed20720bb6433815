package cli

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/refs"
)

// revsAndPaths separates revisions (among them "A..B" and "^REV") from paths of the
// repository in the arguments of a command. Arguments after "--" are paths. Without
// "--", the first argument that is no revision and all after it are paths, and must
// exist. An argument that could be both is an error.
func (e *Env) revsAndPaths(cmd *cobra.Command, r *kist.Repository, args []string) (revs []string, paths pathspecs, err error) {
	ctx := cmd.Context()
	if dash := cmd.ArgsLenAtDash(); dash >= 0 {
		for _, rev := range args[:dash] {
			if err := resolvable(ctx, r, rev); err != nil {
				return nil, nil, err
			}
		}
		paths, err = e.pathspecs(r, args[dash:], true)
		return args[:dash], paths, err
	}
	for i, arg := range args {
		err := resolvable(ctx, r, arg)
		if errors.Is(err, refs.ErrNotFound) || err != nil && looksLikePathspec(arg) {
			if paths, err = e.existingPaths(r, args[i:], err); err != nil {
				return nil, nil, err
			}
			return args[:i], paths, nil
		}
		if err != nil {
			return nil, nil, err
		}
		if path, perr := e.repoPath(r, arg); perr == nil && r.Worktree().Exists(path) {
			return nil, nil, hintf(usagef("%s is a revision and a path", quoteArg(arg)),
				"write '%[1]s -- %[2]s' for the path, and '%[1]s %[2]s --' for the revision", cmd.CommandPath(), printable(arg))
		}
	}
	return args, nil, nil
}

// existingPaths returns args as paths of the repository. One that does not
// exist is an error; of the first it is noRev, unless nil, since it may have been
// meant for a revision.
func (e *Env) existingPaths(r *kist.Repository, args []string, noRev error) (pathspecs, error) {
	paths, err := e.pathspecs(r, args, true)
	for i := range args {
		if err != nil || looksLikePathspec(args[i]) || r.Worktree().Exists(paths[i].path) {
			continue
		}
		hint := "write '--' before a path that does not exist now"
		var unknown *refs.UnknownRevisionError
		switch {
		case i == 0 && errors.As(noRev, &unknown) && unknown.Reason != "":
			return nil, noRev // it is a revision, but one that is not there
		case i == 0 && noRev != nil:
			return nil, hintf(noRev, "%s", hint)
		}
		return nil, hintf(failf(exitFailed, "not-found", "path %s does not exist", quoteArg(args[i])), "%s", hint)
	}
	return paths, err
}

// resolvable returns an error if a revision, or an end of a range, names no
// commit.
func resolvable(ctx context.Context, r *kist.Repository, rev string) error {
	ends := []string{strings.TrimPrefix(rev, "^")}
	if from, to, _, ok := refs.SplitRange(rev); ok {
		ends = []string{from, to}
	}
	for _, end := range ends {
		if _, err := r.Resolve(ctx, end); err != nil {
			return err
		}
	}
	return nil
}

package cli

import (
	"context"
	"errors"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/look/compare"
	"github.com/kist-vcs/kist/tree/look/versions"
	"github.com/kist-vcs/kist/tree/pathspec"
)

// revsAndPaths separates revisions (among them "A..B" and "^REV") from paths of the
// repository in the arguments of a command. Arguments after "--" are paths. Without
// "--", the first argument that is no revision and all after it are paths, and must
// exist. An argument that could be both is an error.
func revsAndPaths(ctx context.Context, env *Env, r *kist.Repository, args []string) (revs []string, paths pathspec.List, err error) {
	return splitRevs(ctx, env, r, args, env.cmd.ArgsLenAtDash())
}

// splitRevs is revsAndPaths for the last arguments of a command. dash is the number of them
// before "--", or negative.
func splitRevs(ctx context.Context, env *Env, r *kist.Repository, args []string, dash int) (revs []string, paths pathspec.List, err error) {
	if dash >= 0 {
		for _, rev := range args[:dash] {
			if err := resolvable(ctx, r, rev); err != nil {
				return nil, nil, err
			}
		}
		paths, err = env.pathspecs(r, args[dash:], true)
		return args[:dash], paths, err
	}

	for i, arg := range args {
		err := resolvable(ctx, r, arg)
		if errors.Is(err, refs.ErrNotFound) || err != nil && pathspec.IsPattern(arg) {
			if paths, err = existingPaths(env, r, args[i:], err); err != nil {
				return nil, nil, err
			}
			return args[:i], paths, nil
		}
		if err != nil {
			return nil, nil, err
		}
		if path, perr := env.repoPath(r, arg); perr == nil && r.Worktree().Exists(path) {
			return nil, nil, hintf(usagef("%s is a revision and a path", quoteArg(arg)),
				"write '%[1]s -- %[2]s' for the path, and '%[1]s %[2]s --' for the revision", env.cmd.CommandPath(), printable(arg))
		}
	}
	return args, nil, nil
}

// existingPaths returns args as pathspecs. A path that does not exist is an error. For the
// first one, the error is noRev, if not nil: it may have been meant as a revision.
func existingPaths(env *Env, r *kist.Repository, args []string, noRev error) (pathspec.List, error) {
	paths, err := env.pathspecs(r, args, true)
	for i := range args {
		if err != nil || pathspec.IsPattern(args[i]) || r.Worktree().Exists(paths[i].Path) {
			continue
		}
		hint := "write '--' before a path that does not exist now"
		var unknown *refs.UnknownRevisionError
		switch {
		case i == 0 && errors.As(noRev, &unknown) && unknown.Reason != "":
			return nil, noRev // it can only be a revision
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
	one, _, _ := refs.SplitParents(strings.TrimPrefix(rev, "^"))
	ends := []string{one}
	if from, to, _, ok := refs.SplitRange(rev); ok {
		ends = []string{from, to}
	}
	ends[len(ends)-1] = strings.TrimSuffix(ends[len(ends)-1], "^{tree}")
	for _, end := range ends {
		if _, err := r.Resolve(ctx, end); err != nil {
			return err
		}
	}
	return nil
}

// located is the file or folder that REV:PATH names.
type located struct {
	rev     string // from the command line, "" for the index
	path    string // in the repository, "" for its root
	entry   object.Entry
	tree    object.ID     // the root
	commit  object.ID     // of the tree; zero for the index
	objects object.Reader // has the entry's nodes
}

// view returns the version of all files that l is in.
func (l located) view() compare.View {
	return compare.View{Tree: l.tree, Commit: l.commit, Objects: l.objects}
}

// namesPath reports whether an argument has the form REV:PATH.
func namesPath(arg string) bool {
	_, _, has := refs.SplitPath(arg)
	return has
}

// namesEntry reports whether an argument names a file or folder in a commit: as REV:PATH, or
// as a version.
func namesEntry(ctx context.Context, e *Env, r *kist.Repository, arg string) bool {
	return namesPath(arg) || namesVersion(ctx, e, r, arg)
}

// locate finds the file or folder that REV:PATH names. As in git, ":PATH" is in the
// index, and the path starts from the root of the worktree, unless it begins with "./" or
// "../": then it starts from the working directory. ":2:PATH" is the version of a side of a
// conflict. REV alone is its root. A name that is no revision may be PATH@N or FILEID@N, a
// version of a file.
func (e *Env) locate(ctx context.Context, r *kist.Repository, revPath string) (located, error) {
	rev, path, hasPath := refs.SplitPath(revPath)
	side := 0
	if rev == "" && hasPath {
		side, path = cutSide(path)
	}
	at := located{rev: rev}
	var source compare.View
	var err error
	if rev == "" && hasPath {
		source, err = compare.OfIndex(ctx, r)
	} else {
		source, err = compare.OfCommit(ctx, r, rev)
	}
	if !hasPath && errors.Is(err, refs.ErrNotFound) {
		if _, v, ok, err := versionOf(ctx, e, r, revPath); err != nil {
			return at, err
		} else if ok {
			return e.locate(ctx, r, v.Commit.String()+":"+v.Path)
		}
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
	at.tree, at.commit, at.objects = source.Tree, source.Commit, source.Objects
	if side > 0 {
		at.entry, err = conflictSide(r, at.path, side)
		return at, err
	}
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

// locateFile is locate for anything except a folder.
func locateFile(ctx context.Context, e *Env, r *kist.Repository, arg string) (located, error) {
	at, err := e.locate(ctx, r, arg)
	if err == nil && at.entry.Type == object.TypeDir {
		err = hintf(failf(exitFailed, "is-directory", "%s is a folder", quoteArg(at.rev+":"+at.path)), "'kist diff A B -- PATH' compares folders")
	}
	return at, err
}

// cutSide splits "2:PATH". Any other path is on side 0, the staged version.
func cutSide(path string) (side int, rest string) {
	if len(path) > 1 && path[0] >= '0' && path[0] <= '3' && path[1] == ':' {
		return int(path[0] - '0'), path[2:]
	}
	return 0, path
}

// conflictSide returns the version of a path in conflict: of the base (1), ours (2) or
// theirs (3).
func conflictSide(r *kist.Repository, path string, side int) (object.Entry, error) {
	idx, err := r.Index()
	if err != nil {
		return object.Entry{}, err
	}
	c, _ := idx.Conflict(path)
	if e := []*object.Entry{c.Base, c.Ours, c.Theirs}[side-1]; e != nil {
		return *e, nil
	}
	return object.Entry{}, failf(exitFailed, "not-found", "path %s has no version %d in the index", quoteArg(path), side)
}

// locateAll finds the files and folders that the arguments [REV[:PATH]] [--] [PATH...]
// name. PATHs are pathspecs, and each has to match something in REV. With PATHs, the result
// has the outermost of the selected paths, and byPaths is true. Without "--", an argument
// that names a revision is one. Any other has to be a pattern, or to exist.
func locateAll(ctx context.Context, env *Env, r *kist.Repository, args []string) (all []located, byPaths bool, err error) {
	var specs pathspec.List
	revs := args
	if dash := env.cmd.ArgsLenAtDash(); dash >= 0 {
		revs = args[:dash]
		specs, err = env.pathspecs(r, args[dash:], true)
	} else if len(args) > 0 {
		rev, _, _ := refs.SplitPath(args[0])
		noRev := resolvable(ctx, r, rev)
		n := 1
		if noRev != nil && (pathspec.IsPattern(args[0]) || errors.Is(noRev, refs.ErrNotFound) && !namesEntry(ctx, env, r, args[0])) {
			n = 0
		}
		revs = args[:n]
		specs, err = existingPaths(env, r, args[n:], noRev)
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
	at, err := env.locate(ctx, r, what)
	if err != nil || len(specs) == 0 {
		return []located{at}, false, err
	}

	if at.path != "" {
		return nil, false, hintf(usagef("%s is a path already", quoteArg(what)), "write '%s -- PATH...'", printable(at.rev))
	}
	in := pathspec.Places{Views: []compare.View{{Tree: at.entry.Content.ID, Objects: at.objects}}}
	if err := pathspec.Check(ctx, r, specs, in); err != nil {
		return nil, false, err
	}

	paths, err := pathspec.Find(ctx, r, specs, in)
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
		all = append(all, located{at.rev, path, entry, at.tree, at.commit, at.objects})
	}
	return all, true, nil
}

// meantPath adds advice to the error for an unknown revision that is a path.
func (e *Env) meantPath(r *kist.Repository, arg string, err error) error {
	if !errors.Is(err, refs.ErrNotFound) || namesPath(arg) {
		return err
	}
	if path, perr := e.repoPath(r, arg); perr == nil && r.Worktree().Exists(path) {
		return hintf(err, "write 'HEAD:%s' for a path in a commit", printable(path))
	}
	return err
}

// namesVersion reports whether an argument names a version, as NAME@N. A file or folder with
// this whole name goes first, and so does a revision.
func namesVersion(ctx context.Context, e *Env, r *kist.Repository, arg string) bool {
	if _, _, ok := cutVersion(arg); !ok || namesPath(arg) {
		return false
	}
	if path, err := e.repoPath(r, arg); err == nil && (tracked(r, path) || r.Worktree().Exists(path)) {
		return false
	}
	return errors.Is(resolvable(ctx, r, arg), refs.ErrNotFound)
}

// versionOf returns the file and the version that NAME@N names. It reports whether
// [namesVersion] finds that arg names one.
func versionOf(ctx context.Context, e *Env, r *kist.Repository, arg string) (f *versions.File, v versions.Version, ok bool, err error) {
	if !namesVersion(ctx, e, r, arg) {
		return nil, v, false, nil
	}
	name, number, _ := cutVersion(arg)
	x, err := openVersions(ctx, e, r)
	if err != nil {
		return nil, v, true, err
	}
	if f, err = fileOf(ctx, e, r, x, name); err != nil {
		return nil, v, true, err
	}
	if v, ok = f.Version(number); !ok {
		err = hintf(failf(exitFailed, "not-found", "%s has no version %d: its versions are 1 to %d", quoteArg(name), number, f.Last()),
			"'kist history %s' lists them; -1 is the newest", printable(name))
	}
	return f, v, true, err
}

// treePaths proposes REV:PATH, a folder at a time, and before the colon REV.
func treePaths(ctx context.Context, env *Env, r *kist.Repository, prefix string) []string {
	rev, path, hasPath := refs.SplitPath(prefix)
	if !hasPath {
		names := revisions(ctx, env, r, prefix)
		for i := range names {
			names[i] += ":"
		}
		return names
	}

	typed := rev + ":" + path[:strings.LastIndexByte(path, '/')+1]
	at, err := env.locate(ctx, r, typed)
	if err != nil || at.entry.Type != object.TypeDir {
		return nil
	}
	var names []string
	for e, err := range object.Entries(ctx, at.objects, at.entry.Content.ID) {
		if err != nil {
			return nil
		}
		names = append(names, typed+folded(e.Name, e.Type == object.TypeDir))
	}
	return names
}

// previous returns the revision of an argument. "-" stands for the previous branch.
func previous(arg string) string {
	if arg == "-" {
		return "@{-1}"
	}
	return arg
}

// isUnborn reports whether rev is the current branch, and has no commit yet.
func isUnborn(r *kist.Repository, rev string) bool {
	head, err := r.Refs().Head()
	return err == nil && head.Unborn() && (rev == "HEAD" || rev == head.Branch)
}

// describe returns a commit's short ID and subject.
func describe(ctx context.Context, r *kist.Repository, id object.ID) string {
	c, err := object.ReadCommit(ctx, r.Objects(), id)
	if err != nil {
		return id.Short()
	}
	return id.Short() + " " + printable(subject(c.Message))
}

// matchesAny reports whether a name matches one of the patterns, or there are none. As in
// git, * also stands for slashes.
func matchesAny(patterns []string, name string) bool {
	if len(patterns) == 0 {
		return true
	}

	for _, pattern := range patterns {
		const slash = "\x01"
		ok, err := path.Match(strings.ReplaceAll(pattern, "/", slash), strings.ReplaceAll(name, "/", slash))
		if err == nil && ok {
			return true
		}
	}
	return false
}

// isRange reports whether a revision is a range, or excludes commits with ^.
func isRange(rev string) bool {
	_, _, _, ok := refs.SplitRange(rev)
	_, suffix, _ := refs.SplitParents(rev)
	return ok || suffix != "" || strings.HasPrefix(rev, "^")
}

// openVersions opens the index of history and shows its progress.
func openVersions(ctx context.Context, e *Env, r *kist.Repository, also ...object.ID) (*versions.Index, error) {
	p := e.progress("indexing history")
	defer p.Stop()
	x, err := versions.Open(ctx, r, func(commits int) { p.Set(uint64(commits), 0) }, also...)
	if err == nil {
		e.repo.damaged = append(e.repo.damaged, func() bool { return x.Damaged() != nil })
	}
	return x, err
}

// cutVersion separates NAME@N.
func cutVersion(arg string) (name string, number int, ok bool) {
	at := strings.LastIndexByte(arg, '@')
	if at <= 0 {
		return arg, 0, false
	}
	number, err := strconv.Atoi(arg[at+1:])
	return arg[:at], number, err == nil
}

// fileOf returns the file that an argument names by path, in the history of the first tip
// that has it, or by the first digits of its ID.
func fileOf(ctx context.Context, e *Env, r *kist.Repository, x *versions.Index, arg string) (*versions.File, error) {
	path, pathErr := e.repoPath(r, arg)
	if pathErr == nil {
		for _, tip := range x.Tips() {
			if f, err := x.File(ctx, tip, path); f != nil || err != nil {
				return f, err
			}
		}
	}
	if len(arg) >= minDigits {
		if f, err := x.Find(ctx, arg); f != nil || err != nil {
			if err != nil {
				err = failf(exitFailed, "ambiguous", "%s: %w", quoteArg(arg), err)
			}
			return f, err
		}
	}
	if pathErr != nil {
		return nil, pathErr
	}
	return nil, failf(exitFailed, "not-found", "no commit has the path %s, and no file this ID", quoteArg(arg))
}

// minDigits is the least number of digits that name an object or a file.
const minDigits = 4

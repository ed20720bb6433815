// Package input finds what the arguments of commands name: paths, revisions, and selections of files.
package input

import (
	"context"
	"errors"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/look/compare"
	"github.com/kist-vcs/kist/tree/look/versions"
	"github.com/kist-vcs/kist/tree/pathspec"
)

// RevsAndPaths separates revisions (among them "A..B" and "^REV") from paths of the
// repository in the arguments of a command. Arguments after "--" are paths. Without
// "--", the first argument that is no revision and all after it are paths, and must
// exist. An argument that could be both is an error.
func RevsAndPaths(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) (revs []string, paths pathspec.List, err error) {
	return SplitRevs(ctx, env, r, args, env.Cmd.ArgsLenAtDash())
}

// SplitRevs is RevsAndPaths for the last arguments of a command. dash is the number of them
// before "--", or negative.
func SplitRevs(ctx context.Context, env *cli.Env, r *kist.Repository, args []string, dash int) (revs []string, paths pathspec.List, err error) {
	if dash >= 0 {
		for _, rev := range args[:dash] {
			if err := Resolvable(ctx, r, rev); err != nil {
				return nil, nil, err
			}
		}
		paths, err = Pathspecs(env, r, args[dash:], true)
		return args[:dash], paths, err
	}

	for i, arg := range args {
		err := Resolvable(ctx, r, arg)
		if errors.Is(err, refs.ErrNotFound) || err != nil && pathspec.IsPattern(arg) {
			if paths, err = existingPaths(env, r, args[i:], err); err != nil {
				return nil, nil, err
			}
			return args[:i], paths, nil
		}
		if err != nil {
			return nil, nil, err
		}
		if path, perr := env.RepoPath(r, arg); perr == nil && r.Worktree().Exists(path) {
			return nil, nil, cli.Hintf(cli.Usagef("%s is a revision and a path", cli.QuoteArg(arg)),
				"write '%[1]s -- %[2]s' for the path, and '%[1]s %[2]s --' for the revision", env.Cmd.CommandPath(), cli.Printable(arg))
		}
	}
	return args, nil, nil
}

// existingPaths returns args as pathspecs. A path that does not exist is an error. For the
// first one, the error is noRev, if not nil: it may have been meant as a revision.
func existingPaths(env *cli.Env, r *kist.Repository, args []string, noRev error) (pathspec.List, error) {
	paths, err := Pathspecs(env, r, args, true)
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
			return nil, cli.Hintf(noRev, "%s", hint)
		}
		return nil, cli.Hintf(cli.Failf(cli.ExitFailed, "not-found", "path %s does not exist", cli.QuoteArg(args[i])), "%s", hint)
	}
	return paths, err
}

// Resolvable returns an error if a revision, or an end of a range, names no
// commit.
func Resolvable(ctx context.Context, r *kist.Repository, rev string) error {
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

// Located is the file or folder that REV:PATH names.
type Located struct {
	Rev     string // from the command line, "" for the index
	Path    string // in the repository, "" for its root
	Entry   object.Entry
	Tree    object.ID     // the root
	Commit  object.ID     // of the tree; zero for the index
	Objects object.Reader // has the entry's nodes
}

// View returns the version of all files that l is in.
func (l Located) View() compare.Side {
	return compare.Side{Tree: l.Tree, Commit: l.Commit, Objects: l.Objects}
}

// NamesPath reports whether an argument has the form REV:PATH.
func NamesPath(arg string) bool {
	_, _, has := refs.SplitPath(arg)
	return has
}

// NamesEntry reports whether an argument names a file or folder in a commit: as REV:PATH, or
// as a version.
func NamesEntry(ctx context.Context, e *cli.Env, r *kist.Repository, arg string) bool {
	return NamesPath(arg) || NamesVersion(ctx, e, r, arg)
}

// Locate finds the file or folder that REV:PATH names. As in git, ":PATH" is in the
// index, and the path starts from the root of the worktree, unless it begins with "./" or
// "../": then it starts from the working directory. ":2:PATH" is the version of a side of a
// conflict. REV alone is its root. A name that is no revision may be PATH@N or FILEID@N, a
// version of a file.
func Locate(ctx context.Context, e *cli.Env, r *kist.Repository, revPath string) (Located, error) {
	rev, path, hasPath := refs.SplitPath(revPath)
	side := 0
	if rev == "" && hasPath {
		side, path = cutSide(path)
	}
	at := Located{Rev: rev}
	var source compare.Side
	var err error
	if rev == "" && hasPath {
		source, err = compare.OfIndex(ctx, r)
	} else {
		source, err = compare.OfCommit(ctx, r, rev)
	}
	if !hasPath && errors.Is(err, refs.ErrNotFound) {
		if _, v, ok, err := VersionOf(ctx, e, r, revPath); err != nil {
			return at, err
		} else if ok {
			return Locate(ctx, e, r, v.Commit.String()+":"+v.Path)
		}
	}
	if err != nil {
		return at, MeantPath(e, r, revPath, err)
	}

	if first, _, _ := strings.Cut(path, "/"); first == "." || first == ".." {
		at.Path, err = e.RepoPath(r, path)
	} else if at.Path, err = tree.CleanPath(path); err != nil {
		err = cli.Failf(cli.ExitFailed, "path", "path %s: %w", cli.QuoteArg(path), errors.Unwrap(err))
	}
	if err != nil {
		return at, err
	}
	at.Tree, at.Commit, at.Objects = source.Tree, source.Commit, source.Objects
	if side > 0 {
		at.Entry, err = conflictSide(r, at.Path, side)
		return at, err
	}
	at.Entry, err = tree.Find(ctx, source.Objects, source.Tree, at.Path)
	if errors.Is(err, tree.ErrNotExist) || errors.Is(err, tree.ErrNotDir) {
		in := cli.QuoteArg(rev)
		if rev == "" {
			in = "the index"
		}
		err = cli.Failf(cli.ExitFailed, "not-found", "path %s is not in %s", cli.QuoteArg(at.Path), in)
	}
	return at, err
}

// LocateFile is locate for anything except a folder.
func LocateFile(ctx context.Context, e *cli.Env, r *kist.Repository, arg string) (Located, error) {
	at, err := Locate(ctx, e, r, arg)
	if err == nil && at.Entry.Type == object.TypeDir {
		err = cli.Hintf(cli.Failf(cli.ExitFailed, "is-directory", "%s is a folder", cli.QuoteArg(at.Rev+":"+at.Path)), "'kist diff A B -- PATH' compares folders")
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
	return object.Entry{}, cli.Failf(cli.ExitFailed, "not-found", "path %s has no version %d in the index", cli.QuoteArg(path), side)
}

// LocateAll finds the files and folders that the arguments [REV[:PATH]] [--] [PATH...]
// name. PATHs are pathspecs, and each has to match something in REV. With PATHs, the result
// has the outermost of the selected paths, and byPaths is true. Without "--", an argument
// that names a revision is one. Any other has to be a pattern, or to exist.
func LocateAll(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) (all []Located, byPaths bool, err error) {
	var specs pathspec.List
	revs := args
	if dash := env.Cmd.ArgsLenAtDash(); dash >= 0 {
		revs = args[:dash]
		specs, err = Pathspecs(env, r, args[dash:], true)
	} else if len(args) > 0 {
		rev, _, _ := refs.SplitPath(args[0])
		noRev := Resolvable(ctx, r, rev)
		n := 1
		if noRev != nil && (pathspec.IsPattern(args[0]) || errors.Is(noRev, refs.ErrNotFound) && !NamesEntry(ctx, env, r, args[0])) {
			n = 0
		}
		revs = args[:n]
		specs, err = existingPaths(env, r, args[n:], noRev)
	}
	if err != nil {
		return nil, false, err
	}
	if len(revs) > 1 {
		return nil, false, cli.Usagef("one argument too many: %s", cli.QuoteArg(revs[1]))
	}

	what := "HEAD"
	if len(revs) > 0 {
		what = revs[0]
	}
	at, err := Locate(ctx, env, r, what)
	if err != nil || len(specs) == 0 {
		return []Located{at}, false, err
	}

	if at.Path != "" {
		return nil, false, cli.Hintf(cli.Usagef("%s is a path already", cli.QuoteArg(what)), "write '%s -- PATH...'", cli.Printable(at.Rev))
	}
	in := pathspec.Places{Views: []compare.Side{{Tree: at.Entry.Content.ID, Objects: at.Objects}}}
	if err := pathspec.CheckMatches(ctx, r, specs, in); err != nil {
		return nil, false, err
	}

	paths, err := pathspec.Find(ctx, r, specs, in)
	if err != nil {
		return nil, false, err
	}
	slices.SortFunc(paths, tree.ComparePaths)
	for _, path := range paths {
		if n := len(all); n > 0 && tree.Below(path, all[n-1].Path) {
			continue
		}
		entry, err := tree.Find(ctx, at.Objects, at.Entry.Content.ID, path)
		if object.PassOver(at.Objects, path, object.Key{}, err) {
			continue
		}
		if err != nil {
			return nil, false, err
		}
		all = append(all, Located{at.Rev, path, entry, at.Tree, at.Commit, at.Objects})
	}
	return all, true, nil
}

// MeantPath adds advice to the error for an unknown revision that is a path.
func MeantPath(e *cli.Env, r *kist.Repository, arg string, err error) error {
	if !errors.Is(err, refs.ErrNotFound) || NamesPath(arg) {
		return err
	}
	if path, perr := e.RepoPath(r, arg); perr == nil && r.Worktree().Exists(path) {
		return cli.Hintf(err, "write 'HEAD:%s' for a path in a commit", cli.Printable(path))
	}
	return err
}

// NamesVersion reports whether an argument names a version, as NAME@N. A file or folder with
// this whole name goes first, and so does a revision.
func NamesVersion(ctx context.Context, e *cli.Env, r *kist.Repository, arg string) bool {
	if _, _, ok := cutVersion(arg); !ok || NamesPath(arg) {
		return false
	}
	if path, err := e.RepoPath(r, arg); err == nil && (Tracked(r, path) || r.Worktree().Exists(path)) {
		return false
	}
	return errors.Is(Resolvable(ctx, r, arg), refs.ErrNotFound)
}

// VersionOf returns the file and the version that NAME@N names. It reports whether
// [NamesVersion] finds that arg names one.
func VersionOf(ctx context.Context, e *cli.Env, r *kist.Repository, arg string) (f *versions.Life, v versions.Version, ok bool, err error) {
	if !NamesVersion(ctx, e, r, arg) {
		return nil, v, false, nil
	}
	name, number, _ := cutVersion(arg)
	x, err := OpenVersions(ctx, e, r)
	if err != nil {
		return nil, v, true, err
	}
	if f, err = FileOf(ctx, e, r, x, name); err != nil {
		return nil, v, true, err
	}
	if v, ok = f.Version(number); !ok {
		err = cli.Hintf(cli.Failf(cli.ExitFailed, "not-found", "%s has no version %d: its versions are 1 to %d", cli.QuoteArg(name), number, f.Last()),
			"'kist history %s' lists them; -1 is the newest", cli.Printable(name))
	}
	return f, v, true, err
}

// TreePaths proposes REV:PATH, a folder at a time, and before the colon REV.
func TreePaths(ctx context.Context, env *cli.Env, r *kist.Repository, prefix string) []string {
	rev, path, hasPath := refs.SplitPath(prefix)
	if !hasPath {
		names := cli.Revisions(ctx, env, r, prefix)
		for i := range names {
			names[i] += ":"
		}
		return names
	}

	typed := rev + ":" + path[:strings.LastIndexByte(path, '/')+1]
	at, err := Locate(ctx, env, r, typed)
	if err != nil || at.Entry.Type != object.TypeDir {
		return nil
	}
	var names []string
	for e, err := range object.Entries(ctx, at.Objects, at.Entry.Content.ID) {
		if err != nil {
			return nil
		}
		names = append(names, typed+cli.Folded(e.Name, e.Type == object.TypeDir))
	}
	return names
}

// Previous returns the revision of an argument. "-" stands for the previous branch.
func Previous(arg string) string {
	if arg == "-" {
		return "@{-1}"
	}
	return arg
}

// IsUnborn reports whether rev is the current branch, and has no commit yet.
func IsUnborn(r *kist.Repository, rev string) bool {
	head, err := r.Refs().Head()
	return err == nil && head.Unborn() && (rev == "HEAD" || rev == head.Branch)
}

// Describe returns a commit's short ID and subject.
func Describe(ctx context.Context, r *kist.Repository, id object.ID) string {
	c, err := object.ReadCommit(ctx, r.Objects(), id)
	if err != nil {
		return id.Short()
	}
	return id.Short() + " " + cli.Printable(cli.Subject(c.Message))
}

// MatchesAny reports whether a name matches one of the patterns, or there are none. As in
// git, * also stands for slashes.
func MatchesAny(patterns []string, name string) bool {
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

// IsRange reports whether a revision is a range, or excludes commits with ^.
func IsRange(rev string) bool {
	_, _, _, ok := refs.SplitRange(rev)
	_, suffix, _ := refs.SplitParents(rev)
	return ok || suffix != "" || strings.HasPrefix(rev, "^")
}

// OpenVersions opens the index of history and shows its progress.
func OpenVersions(ctx context.Context, e *cli.Env, r *kist.Repository, also ...object.ID) (*versions.Index, error) {
	p := e.Progress("indexing history")
	defer p.Stop()
	x, err := versions.Open(ctx, r, func(commits int) { p.SetDone(uint64(commits), 0) }, also...)
	if err == nil {
		e.Repo.Damaged = append(e.Repo.Damaged, func() bool { return x.Damaged() != nil })
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

// FileOf returns the file that an argument names by path, in the history of the first tip
// that has it, or by the first digits of its ID.
func FileOf(ctx context.Context, e *cli.Env, r *kist.Repository, x *versions.Index, arg string) (*versions.Life, error) {
	path, pathErr := e.RepoPath(r, arg)
	if pathErr == nil {
		if f, err := x.FileAt(ctx, path); f != nil || err != nil {
			return f, err
		}
	}
	f, err := x.Find(ctx, arg)
	if errors.Is(err, versions.ErrAmbiguous) {
		err = cli.Failf(cli.ExitFailed, "ambiguous", "%s: %w", cli.QuoteArg(arg), err)
	}
	if f != nil || err != nil {
		return f, err
	}
	if pathErr != nil {
		return nil, pathErr
	}
	return nil, cli.Failf(cli.ExitFailed, "not-found", "no commit has the path %s, and no file this ID", cli.QuoteArg(arg))
}

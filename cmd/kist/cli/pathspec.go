package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/gc/purge"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/ignore"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/look/compare"
	"github.com/kist-vcs/kist/tree/worktree"
)

// pathspec is an argument that stands for paths, as in git: a path with everything
// below it, a pattern, or one of them behind magic such as ":(icase)".
type pathspec struct {
	arg     string
	path    string       // a path of the repository; it is selected, with everything below it
	prefix  string       // the folder in which pattern applies, with a slash, or ""
	pattern *ignore.Glob // of the rest of a path; nil: none
	fold    bool         // capital and small letters are the same in path
	exclude bool         // what matches is left out
}

// pathspecs are the pathspecs of a command line. An empty list selects everything.
type pathspecs []pathspec

// magic has the words before the path in a pathspec, such as ":(icase)".
type magic struct{ top, glob, literal, icase, exclude bool }

// looksLikePathspec reports whether an argument has wildcards or magic, so that it is a
// pathspec even if no such path exists.
func looksLikePathspec(arg string) bool {
	return ignore.HasWildcards(arg) || len(arg) > 1 && arg[0] == ':' && strings.ContainsRune("(/!^", rune(arg[1]))
}

// splitMagic takes the magic off a pathspec.
func splitMagic(arg string) (m magic, rest string, err error) {
	if long, ok := strings.CutPrefix(arg, ":("); ok {
		words, rest, ok := strings.Cut(long, ")")
		if !ok {
			return m, "", usagef("pathspec %s: the ) is missing", quoteArg(arg))
		}
		known := map[string]*bool{
			"": new(bool), "top": &m.top, "glob": &m.glob, "literal": &m.literal, "icase": &m.icase, "exclude": &m.exclude,
		}
		for word := range strings.SplitSeq(words, ",") {
			if known[word] == nil {
				return m, "", hintf(usagef("pathspec %s: %s is unknown", quoteArg(arg), quoteArg(word)),
					"top, glob, literal, icase and exclude are known; './%s' is the path of this name", printable(arg))
			}
			*known[word] = true
		}
		if m.glob && m.literal {
			return m, "", usagef("pathspec %s: glob and literal exclude each other", quoteArg(arg))
		}
		return m, rest, nil
	}

	rest, ok := strings.CutPrefix(arg, ":")
	if !ok {
		return m, arg, nil
	}
	for rest != "" && strings.ContainsRune("/!^", rune(rest[0])) {
		m.top = m.top || rest[0] == '/'
		m.exclude = m.exclude || rest[0] != '/'
		rest = rest[1:]
	}
	if m == (magic{}) {
		return m, arg, nil // a path that begins with a colon
	}
	return m, strings.TrimPrefix(rest, ":"), nil
}

// pathspecs parses arguments. If all of them exclude, they exclude from the current folder,
// or with whole from everything.
func (e *Env) pathspecs(r *kist.Repository, args []string, whole bool) (pathspecs, error) {
	var list pathspecs
	selects := false
	for _, arg := range args {
		s, err := e.pathspec(r, arg)
		if err != nil {
			return nil, err
		}
		list = append(list, s)
		selects = selects || !s.exclude
	}
	if len(list) > 0 && !selects {
		all := pathspec{arg: "."}
		if !whole {
			var err error
			if all.path, err = e.repoPath(r, "."); err != nil {
				return nil, err
			}
		}
		list = append(list, all)
	}
	return list, nil
}

// pathspec parses an argument.
func (e *Env) pathspec(r *kist.Repository, arg string) (pathspec, error) {
	s := pathspec{arg: arg}
	m, text, err := splitMagic(arg)
	if err != nil {
		return s, err
	}
	from := e
	if m.top {
		root := *e
		root.Dir = r.Root()
		from = &root
	}
	if text == "" && m != (magic{}) {
		text = "."
	}
	if s.path, err = from.repoPath(r, text); err != nil {
		return s, err
	}
	s.fold, s.exclude = m.icase, m.exclude
	if m.literal || !m.icase && !ignore.HasWildcards(s.path) {
		return s, nil
	}
	// Wildcards in the name of the current folder were not typed: they mean themselves.
	here, err := from.repoPath(r, ".")
	if err != nil {
		here = ""
	}

	rest := s.path
	for name := range strings.SplitSeq(here, "/") {
		next, ok := strings.CutPrefix(rest, name+"/")
		if !ok {
			break
		}
		s.prefix, rest = s.prefix+name+"/", next
	}
	if strings.HasSuffix(text, "/") {
		rest += "/"
	}
	if glob, ok := ignore.CompileGlob(rest, m.glob, m.icase); ok {
		s.pattern = &glob
	}
	return s, nil
}

// plain reports whether all pathspecs are paths, without patterns and magic.
func (list pathspecs) plain() bool {
	return !slices.ContainsFunc(list, func(s pathspec) bool { return s.pattern != nil || s.fold || s.exclude })
}

// paths returns paths such that each selected path is one of them or below; nil for all.
func (list pathspecs) paths() []string {
	var paths []string
	for _, s := range list {
		switch {
		case s.exclude:
		case s.pattern == nil && !s.fold:
			paths = append(paths, s.path)
		default:
			paths = append(paths, strings.TrimSuffix(s.prefix, "/"))
		}
	}
	return paths
}

// selects reports whether a path is selected.
func (list pathspecs) selects(path string) bool {
	included := slices.ContainsFunc(list, func(s pathspec) bool { return !s.exclude && (s.names(path) || s.matches(path)) })
	return len(list) == 0 || included && !list.excludesPath(path)
}

// excludesPath reports whether a pathspec excludes a path.
func (list pathspecs) excludesPath(path string) bool {
	return slices.ContainsFunc(list, func(s pathspec) bool { return s.exclude && (s.names(path) || s.matches(path)) })
}

// selector returns the method selects, or nil if the pathspecs are plain.
func (list pathspecs) selector() func(path string) bool {
	if list.plain() {
		return nil
	}
	return list.selects
}

// names reports whether path is the path of s, or below it.
func (s *pathspec) names(path string) bool {
	if s.fold {
		return len(path) >= len(s.path) && strings.HasPrefix(path, s.prefix) && strings.EqualFold(path[:len(s.path)], s.path) &&
			(s.path == "" || len(path) == len(s.path) || path[len(s.path)] == '/')
	}
	return tree.Below(path, s.path)
}

// matches reports whether path fits the pattern of s.
func (s *pathspec) matches(path string) bool {
	rest, ok := strings.CutPrefix(path, s.prefix)
	return ok && s.pattern != nil && s.pattern.Match(rest)
}

// places are the places where pathspecs are matched.
type places struct {
	views     []compare.View
	history   bool // all commits that refs, their logs and holds reach
	index     bool
	conflicts bool // paths with conflicts only
	worktree  bool // files of the worktree, untracked ones included
	ignored   bool // with worktree: ignored files, too
	absent    bool // a plain path matches itself, though it is nowhere
}

// find returns the paths that pathspecs select in some places: plain paths unchanged, and
// the files that match patterns. It returns [kist.ErrNoMatch] for a pattern without a match.
// It does not check plain paths: the command does.
func (e *Env) find(ctx context.Context, r *kist.Repository, list pathspecs, in places) ([]string, error) {
	if list.plain() {
		return list.paths(), nil
	}
	excludes := slices.ContainsFunc(list, func(s pathspec) bool { return s.exclude })
	hit := make([]bool, len(list))
	found := map[string]bool{}
	err := in.each(ctx, r, list.paths(), func(path string) {
		for i := range list {
			s := &list[i]
			switch named := s.names(path); {
			case s.exclude || !named && !s.matches(path):
			case named && !excludes && !s.fold:
				hit[i], found[s.path] = true, true
			default:
				hit[i] = true
				if !excludes || list.selects(path) {
					found[path] = true
				}
			}
		}
	})
	if err != nil {
		return nil, err
	}

	for i, s := range list {
		switch {
		case s.exclude || hit[i]:
		case !s.fold && in.takesUnseen(r, list, &s):
			found[s.path] = true
		default:
			return nil, noMatch(s.arg)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("the list of paths after all exclusions %w", kist.ErrNoMatch)
	}
	return slices.SortedFunc(maps.Keys(found), tree.ComparePaths), nil
}

// takesUnseen reports whether s selects its path, though a search did not come to it: the path
// is ignored, or absent.
func (in places) takesUnseen(r *kist.Repository, list pathspecs, s *pathspec) bool {
	if in.absent && s.pattern == nil && !list.excludesPath(s.path) {
		return true
	}
	excludes := slices.ContainsFunc(list, func(s pathspec) bool { return s.exclude })
	return in.worktree && !excludes && r.Worktree().Exists(s.path)
}

func noMatch(arg string) error { return fmt.Errorf("path %s: %w", quoteArg(arg), kist.ErrNoMatch) }

// known returns an error if a pathspec matches nothing in some places.
func (e *Env) known(ctx context.Context, r *kist.Repository, list pathspecs, in places) error {
	for _, s := range list {
		if s.exclude {
			continue
		}
		if s.pattern != nil || s.fold {
			if _, err := e.find(ctx, r, pathspecs{s}, in); err != nil {
				return err
			}
			continue
		}
		if s.path == "" || in.index && tracked(r, s.path) || in.worktree && r.Worktree().Exists(s.path) {
			continue
		}
		there := false
		for _, v := range in.views {
			if !there && !v.Tree.IsZero() {
				_, err := tree.Find(ctx, v.Objects, v.Tree, s.path)
				there = err == nil || object.PassOver(v.Objects, s.path, object.Key{}, err)
			}
		}
		if !there {
			return noMatch(s.arg)
		}
	}
	return nil
}

// each calls fn with every file, and every empty folder, at or below paths.
func (in places) each(ctx context.Context, r *kist.Repository, paths []string, fn func(path string)) error {
	idx, err := r.Index()
	if err != nil {
		return err
	}
	if in.index || in.conflicts {
		for _, c := range idx.Conflicts() {
			fn(c.Path)
		}
	}
	if in.index {
		eachTracked(idx, fn)
	}

	empty, _ := object.EmptyTree()
	for _, v := range in.views {
		if v.Tree.IsZero() {
			continue
		}
		err := tree.Walk(ctx, v.Objects, v.Tree, func(path string, e object.Entry) error {
			if e.Type != object.TypeDir || e.Content.ID == empty {
				fn(path)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if in.history {
		if err := purge.HistoryFiles(ctx, r, fn); err != nil {
			return err
		}
	}
	if !in.worktree {
		return nil
	}
	return in.eachFound(ctx, r, idx, paths, fn)
}

// eachTracked is each for the index.
func eachTracked(idx *index.Index, fn func(path string)) {
	for _, path := range idx.Intents() {
		fn(path)
	}
	root := idx.Dir("")
	for path := range root.All() {
		fn(path)
	}
	for path, d := range root.Walk() {
		if path != "" && d.Len()+len(d.Subdirs()) == 0 {
			fn(path)
		}
	}
}

// eachFound is each for the worktree.
func (in places) eachFound(ctx context.Context, r *kist.Repository, idx *index.Index, paths []string, fn func(path string)) error {
	found, err := r.Worktree().Scan(ctx, idx, worktree.ScanOptions{Paths: paths, IncludeIgnored: in.ignored})
	if err != nil {
		return err
	}
	for i, f := range found {
		above := i+1 < len(found) && tree.Below(found[i+1].Path, f.Path)
		if f.State != worktree.Absent && f.State != worktree.Ignored && !(f.Dir && above) {
			fn(f.Path)
		}
	}
	return nil
}

// tracked reports whether the index has a file, a folder or a conflict at path.
func tracked(r *kist.Repository, path string) bool {
	idx, err := r.Index()
	if err != nil {
		return false
	}
	_, conflict := idx.Conflict(path)
	return conflict || idx.Entry(path) != nil || idx.Dir(path) != nil || idx.Intended(path)
}

// pathsOf returns a commit, and the paths in it that match specs. Without specs, the only
// path is "", the root.
func pathsOf(ctx context.Context, env *Env, r *kist.Repository, rev string, specs pathspecs) (compare.View, []string, error) {
	source, err := compare.OfCommit(ctx, r, rev)
	if err != nil {
		return source, nil, err
	}
	paths, err := env.find(ctx, r, specs, places{views: []compare.View{source}})
	if len(paths) == 0 {
		paths = []string{""}
	}
	return source, paths, err
}

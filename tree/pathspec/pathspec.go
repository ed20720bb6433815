// Package pathspec selects paths by the arguments of commands, as git's pathspecs do.
package pathspec

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/ignore"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/look/compare"
	"github.com/kist-vcs/kist/tree/worktree"
)

// Spec is an argument that stands for paths, as in git: a path with everything below it, a
// pattern, or one of them behind magic such as ":(icase)".
type Spec struct {
	Arg     string // as it was typed
	Path    string // a path of the repository; it is selected, with everything below it
	Exclude bool   // what matches is left out

	prefix  string       // the folder in which pattern applies, with a slash, or ""
	pattern *ignore.Glob // of the rest of a path; nil: none
	fold    bool         // capital and small letters are the same in Path
}

// List has the pathspecs of a command line. An empty list selects everything.
type List []Spec

// magic has the words before the path in a pathspec, such as ":(icase)".
type magic struct{ top, glob, literal, icase, exclude bool }

// IsPattern reports whether an argument has wildcards or magic, so that it is a
// pathspec even if no such path exists.
func IsPattern(arg string) bool {
	return ignore.HasWildcards(arg) || len(arg) > 1 && arg[0] == ':' && strings.ContainsRune("(/!^", rune(arg[1]))
}

// Error means that an argument is no pathspec.
type Error struct {
	Arg       string
	Reason    string
	IsUnknown bool // its magic has an unknown word
}

func (e *Error) Error() string { return fmt.Sprintf("pathspec %q: %s", e.Arg, e.Reason) }

// splitMagic takes the magic off a pathspec.
func splitMagic(arg string) (m magic, rest string, err error) {
	if long, ok := strings.CutPrefix(arg, ":("); ok {
		words, rest, ok := strings.Cut(long, ")")
		if !ok {
			return m, "", &Error{Arg: arg, Reason: "the ) is missing"}
		}
		known := map[string]*bool{
			"": new(bool), "top": &m.top, "glob": &m.glob, "literal": &m.literal, "icase": &m.icase, "exclude": &m.exclude,
		}
		for word := range strings.SplitSeq(words, ",") {
			if known[word] == nil {
				return m, "", &Error{Arg: arg, Reason: fmt.Sprintf("%q is unknown", word), IsUnknown: true}
			}
			*known[word] = true
		}
		if m.glob && m.literal {
			return m, "", &Error{Arg: arg, Reason: "glob and literal exclude each other"}
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

// Parse parses the pathspecs on a command line. Resolve returns the path in the repository of
// a text, which counts from the current folder, or with top from the root of the worktree. If
// all pathspecs exclude, they exclude from the current folder, or with whole from everything.
// The error of a pathspec is an [*Error].
func Parse(args []string, whole bool, resolve func(text string, top bool) (string, error)) (List, error) {
	var list List
	selects := false
	for _, arg := range args {
		s, err := parseOne(arg, resolve)
		if err != nil {
			return nil, err
		}
		list = append(list, s)
		selects = selects || !s.Exclude
	}
	if len(list) > 0 && !selects {
		all := Spec{Arg: "."}
		if !whole {
			var err error
			if all.Path, err = resolve(".", false); err != nil {
				return nil, err
			}
		}
		list = append(list, all)
	}
	return list, nil
}

// parseOne parses a pathspec.
func parseOne(arg string, resolve func(text string, top bool) (string, error)) (Spec, error) {
	s := Spec{Arg: arg}
	m, text, err := splitMagic(arg)
	if err != nil {
		return s, err
	}
	if text == "" && m != (magic{}) {
		text = "."
	}
	if s.Path, err = resolve(text, m.top); err != nil {
		return s, err
	}
	s.fold, s.Exclude = m.icase, m.exclude
	if m.literal || !m.icase && !ignore.HasWildcards(s.Path) {
		return s, nil
	}

	// Wildcards in the name of the current folder were not typed: they mean themselves.
	here, err := resolve(".", m.top)
	if err != nil {
		here = ""
	}
	rest := s.Path
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

// IsPlain reports whether all pathspecs are paths, without patterns and magic.
func (list List) IsPlain() bool {
	return !slices.ContainsFunc(list, func(s Spec) bool { return s.pattern != nil || s.fold || s.Exclude })
}

// Paths returns paths such that each selected path is one of them or below; nil for all.
func (list List) Paths() []string {
	var paths []string
	for _, s := range list {
		switch {
		case s.Exclude:
		case s.pattern == nil && !s.fold:
			paths = append(paths, s.Path)
		default:
			paths = append(paths, strings.TrimSuffix(s.prefix, "/"))
		}
	}
	return paths
}

// Selects reports whether a path is selected.
func (list List) Selects(path string) bool {
	included := slices.ContainsFunc(list, func(s Spec) bool { return !s.Exclude && (s.isAtOrBelow(path) || s.matchesPattern(path)) })
	return len(list) == 0 || included && !list.Excludes(path)
}

// Excludes reports whether a pathspec excludes a path.
func (list List) Excludes(path string) bool {
	return slices.ContainsFunc(list, func(s Spec) bool { return s.Exclude && (s.isAtOrBelow(path) || s.matchesPattern(path)) })
}

// Selector returns the method Selects, or nil if the pathspecs are plain.
func (list List) Selector() func(path string) bool {
	if list.IsPlain() {
		return nil
	}
	return list.Selects
}

// isAtOrBelow reports whether path is the path of s, or below it.
func (s *Spec) isAtOrBelow(path string) bool {
	if s.fold {
		return len(path) >= len(s.Path) && strings.HasPrefix(path, s.prefix) && strings.EqualFold(path[:len(s.Path)], s.Path) &&
			(s.Path == "" || len(path) == len(s.Path) || path[len(s.Path)] == '/')
	}
	return tree.Below(path, s.Path)
}

// matchesPattern reports whether path fits the pattern of s.
func (s *Spec) matchesPattern(path string) bool {
	rest, ok := strings.CutPrefix(path, s.prefix)
	return ok && s.pattern != nil && s.pattern.Match(rest)
}

// Places are the places where pathspecs are matched.
type Places struct {
	Views     []compare.Side
	Index     bool
	Conflicts bool // paths with conflicts only
	Worktree  bool // files of the worktree, untracked ones included
	Ignored   bool // with Worktree: ignored files, too
	Absent    bool // a plain path matches itself, though it is nowhere

	// History, if not nil, calls fn with the paths of all files in history.
	History func(ctx context.Context, r *kist.Repository, fn func(path string)) error
}

// Find returns the paths that pathspecs select in some places: plain paths unchanged, and
// the files that match patterns. It returns [kist.ErrNoMatch] for a pattern without a match.
// It does not check plain paths: the command does.
func Find(ctx context.Context, r *kist.Repository, list List, in Places) ([]string, error) {
	if list.IsPlain() {
		return list.Paths(), nil
	}
	excludes := slices.ContainsFunc(list, func(s Spec) bool { return s.Exclude })
	hit := make([]bool, len(list))
	found := map[string]bool{}
	err := in.Each(ctx, r, list.Paths(), func(path string) {
		for i := range list {
			s := &list[i]
			switch named := s.isAtOrBelow(path); {
			case s.Exclude || !named && !s.matchesPattern(path):
			case named && !excludes && !s.fold:
				hit[i], found[s.Path] = true, true
			default:
				hit[i] = true
				if !excludes || list.Selects(path) {
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
		case s.Exclude || hit[i]:
		case !s.fold && in.takesUnseen(r, list, &s):
			found[s.Path] = true
		default:
			return nil, NoMatch(s.Arg)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("the list of paths after all exclusions %w", kist.ErrNoMatch)
	}
	return slices.SortedFunc(maps.Keys(found), tree.ComparePaths), nil
}

// takesUnseen reports whether s selects its path, though a search did not come to it: the path
// is ignored, or absent.
func (in Places) takesUnseen(r *kist.Repository, list List, s *Spec) bool {
	if in.Absent && s.pattern == nil && !list.Excludes(s.Path) {
		return true
	}
	excludes := slices.ContainsFunc(list, func(s Spec) bool { return s.Exclude })
	return in.Worktree && !excludes && r.Worktree().Exists(s.Path)
}

// NoMatch returns the error for a pathspec that matches nothing.
func NoMatch(arg string) error { return fmt.Errorf("path %q: %w", arg, kist.ErrNoMatch) }

// CheckMatches returns [kist.ErrNoMatch] if a pathspec matches nothing in some places.
func CheckMatches(ctx context.Context, r *kist.Repository, list List, in Places) error {
	for _, s := range list {
		if s.Exclude {
			continue
		}
		if s.pattern != nil || s.fold {
			if _, err := Find(ctx, r, List{s}, in); err != nil {
				return err
			}
			continue
		}
		if s.Path == "" || in.Index && isTracked(r, s.Path) || in.Worktree && r.Worktree().Exists(s.Path) {
			continue
		}
		there := false
		for _, v := range in.Views {
			if !there && !v.Tree.IsZero() {
				_, err := tree.Find(ctx, v.Objects, v.Tree, s.Path)
				there = err == nil || object.PassOver(v.Objects, s.Path, object.Key{}, err)
			}
		}
		if !there {
			return NoMatch(s.Arg)
		}
	}
	return nil
}

// Each calls fn with every file, and every empty folder, at or below paths.
func (in Places) Each(ctx context.Context, r *kist.Repository, paths []string, fn func(path string)) error {
	idx, err := r.Index()
	if err != nil {
		return err
	}
	if in.Index || in.Conflicts {
		for _, c := range idx.Conflicts() {
			fn(c.Path)
		}
	}
	if in.Index {
		eachTracked(idx, fn)
	}

	empty, _ := object.EmptyTree()
	for _, v := range in.Views {
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
	if in.History != nil {
		if err := in.History(ctx, r, fn); err != nil {
			return err
		}
	}
	if !in.Worktree {
		return nil
	}
	return in.eachFound(ctx, r, idx, paths, fn)
}

// eachTracked is Each for the index.
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

// eachFound is Each for the worktree.
func (in Places) eachFound(ctx context.Context, r *kist.Repository, idx *index.Index, paths []string, fn func(path string)) error {
	found, err := r.Worktree().Scan(ctx, idx, worktree.ScanOptions{Paths: paths, IncludeIgnored: in.Ignored})
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

// isTracked reports whether the index has a path, as a file or folder, perhaps in conflict.
func isTracked(r *kist.Repository, path string) bool {
	idx, err := r.Index()
	return err == nil && index.Tracks(idx, path)
}

package worktree

import (
	"path"
	"slices"
	"strings"
)

// wantXattr reports whether a name of an extended attribute is selected. Nil selects all.
type wantXattr func(name string) bool

func (w wantXattr) selects(name string) bool { return w == nil || w(name) }

// SelectXattrs returns the function for [Options.Xattrs] that selects the names that match one of
// the patterns to include, and none of the patterns to exclude. Without patterns to include, all
// match. An asterisk in a pattern stands for any characters.
func SelectXattrs(include, exclude []string) func(name string) bool {
	matches := func(patterns []string, name string) bool {
		return slices.ContainsFunc(patterns, func(pattern string) bool {
			ok, _ := path.Match(slashless(pattern), slashless(name))
			return ok
		})
	}
	return func(name string) bool {
		return (len(include) == 0 || matches(include, name)) && !matches(exclude, name)
	}
}

// CheckXattrPattern returns an error if [SelectXattrs] takes no such pattern.
func CheckXattrPattern(pattern string) error {
	_, err := path.Match(slashless(pattern), "")
	return err
}

// slashless replaces the slashes of a name, which have no meaning, by characters that no name has.
func slashless(name string) string { return strings.ReplaceAll(name, "/", "\x00") }

package log

import (
	"regexp"
	"slices"

	"github.com/kist-vcs/kist/object"
)

// Filter selects commits by their own data. A commit has to meet all conditions.
type Filter struct {
	Authors    []*regexp.Regexp // one has to match "Name <address>"; none: all do
	Committers []*regexp.Regexp // like Authors
	Messages   []*regexp.Regexp // one has to match the message; none: all do

	AllMessages bool // all of Messages have to match, not one
	NotMessages bool // none of Messages may match, as in git even with AllMessages

	MinParents int
	MaxParents int // negative: no limit
}

// Match reports whether f selects a commit.
func (f *Filter) Match(c *object.Commit) bool {
	parents := len(c.Parents)
	return parents >= f.MinParents && (f.MaxParents < 0 || parents <= f.MaxParents) &&
		matchesAny(f.Authors, c.Author) && matchesAny(f.Committers, c.Committer) && f.matchMessage(c.Message)
}

func matchesAny(list []*regexp.Regexp, s object.Stamp) bool {
	return len(list) == 0 || slices.ContainsFunc(list, func(re *regexp.Regexp) bool { return re.MatchString(s.Name + " <" + s.Email + ">") })
}

func (f *Filter) matchMessage(message string) bool {
	if len(f.Messages) == 0 {
		return true
	}
	matches := func(re *regexp.Regexp) bool { return re.MatchString(message) }
	switch {
	case f.NotMessages:
		return !slices.ContainsFunc(f.Messages, matches)
	case f.AllMessages:
		return !slices.ContainsFunc(f.Messages, func(re *regexp.Regexp) bool { return !matches(re) })
	}
	return slices.ContainsFunc(f.Messages, matches)
}

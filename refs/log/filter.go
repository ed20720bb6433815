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
	NotMessages bool // Messages select the commits to leave out

	MinParents int
	MaxParents int // negative: no limit
}

// Match reports whether f selects a commit.
func (f *Filter) Match(c *object.Commit) bool {
	parents := len(c.Parents)
	return parents >= f.MinParents && (f.MaxParents < 0 || parents <= f.MaxParents) &&
		matchesAny(f.Authors, c.Author) && matchesAny(f.Committers, c.Committer) && f.matchMessage(c.Message)
}

func matchesAny(list []*regexp.Regexp, s object.Signature) bool {
	return len(list) == 0 || slices.ContainsFunc(list, func(re *regexp.Regexp) bool { return re.MatchString(s.Name + " <" + s.Email + ">") })
}

func (f *Filter) matchMessage(message string) bool {
	if len(f.Messages) == 0 {
		return true
	}
	matched := f.AllMessages
	for _, re := range f.Messages {
		if re.MatchString(message) != f.AllMessages {
			matched = !f.AllMessages
			break
		}
	}
	return matched != f.NotMessages
}

package cli

import (
	"errors"
	"regexp"
	"regexp/syntax"
	"slices"

	"github.com/kist-vcs/kist/object"
)

// match returns the function that says whether a commit is shown, nil if all
// are.
func (o *logOptions) match() (func(*object.Commit) bool, error) {
	authors, err := o.regexps("--author", o.author)
	if err != nil {
		return nil, err
	}
	messages, err := o.regexps("--grep", o.grep)
	if err != nil {
		return nil, err
	}
	if len(authors)+len(messages) == 0 && !o.merges && !o.noMerges {
		return nil, nil
	}
	any := func(list []*regexp.Regexp, text string) bool {
		return len(list) == 0 || slices.ContainsFunc(list, func(re *regexp.Regexp) bool { return re.MatchString(text) })
	}
	return func(c *object.Commit) bool {
		merge := len(c.Parents) > 1
		return !(o.merges && !merge) && !(o.noMerges && merge) &&
			any(authors, c.Author.Name+" <"+c.Author.Email+">") && any(messages, c.Message)
	}, nil
}

// regexps compiles the values of an option. "^" and "$" match at every line.
func (o *logOptions) regexps(name string, values []string) ([]*regexp.Regexp, error) {
	list := make([]*regexp.Regexp, len(values))
	for i, value := range values {
		options := "(?m)"
		if o.ignoreCase {
			options = "(?mi)"
		}
		re, err := regexp.Compile(options + value)
		var bad *syntax.Error
		if errors.As(err, &bad) {
			return nil, usagef("%s %s: %s", name, quoteArg(value), bad.Code)
		}
		if err != nil {
			return nil, err
		}
		list[i] = re
	}
	return list, nil
}

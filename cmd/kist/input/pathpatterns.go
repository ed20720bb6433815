package input

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/tree/ignore"
)

// PathPatterns select paths, for commands that write files elsewhere.
type PathPatterns struct {
	include, exclude   []string
	iinclude, iexclude []string // regardless of case
}

// Register adds the options.
func (o *PathPatterns) Register(flags *pflag.FlagSet) {
	flags.StringArrayVar(&o.include, "include", nil, "with --to: write only what matches `PATTERN`, or lies in a folder that does")
	flags.StringArrayVar(&o.exclude, "exclude", nil, "with --to: do not write what matches `PATTERN`")
	flags.StringArrayVar(&o.iinclude, "iinclude", nil, "as --include `PATTERN`, but the case of letters does not matter")
	flags.StringArrayVar(&o.iexclude, "iexclude", nil, "as --exclude `PATTERN`, but the case of letters does not matter")
}

// Selected returns a function that reports whether a path, or a folder above it, matches
// one of the patterns to include, and none of the patterns to exclude. Without patterns to
// include, all match. The result is nil if there are no patterns.
func (o *PathPatterns) Selected() (func(path string, isDir bool) bool, error) {
	all := len(o.include)+len(o.iinclude) == 0
	if all && len(o.exclude)+len(o.iexclude) == 0 {
		return nil, nil
	}
	included, err := MatcherOf(o.include, o.iinclude)
	if err != nil {
		return nil, err
	}
	excluded, err := MatcherOf(o.exclude, o.iexclude)
	if err != nil {
		return nil, err
	}

	return func(path string, isDir bool) bool {
		isIncluded := all
		for i := 0; i <= len(path); i++ {
			if i < len(path) && path[i] != '/' {
				continue
			}
			dir := i < len(path) || isDir
			if is, _ := excluded.Match(path[:i], dir); is {
				return false
			}
			if !isIncluded {
				isIncluded, _ = included.Match(path[:i], dir)
			}
		}
		return isIncluded
	}, nil
}

// MatcherOf returns a matcher of patterns, and of those in folded, for which the case of
// letters does not matter. The latter go first.
func MatcherOf(patterns, folded []string) (*ignore.Matcher, error) {
	for _, p := range slices.Concat(patterns, folded) {
		if strings.Contains(p, "\n") {
			return nil, cli.Usagef("a pattern has a line break: %s", cli.QuoteArg(p))
		}
	}
	exact, err := parsePatterns([]byte(strings.Join(patterns, "\n")))
	if err != nil {
		return nil, err
	}
	any, err := ignore.ParseFold([]byte(strings.Join(folded, "\n")))
	return new(ignore.Matcher).Push(exact).Push(any), err
}

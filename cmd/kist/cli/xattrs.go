package cli

import (
	"slices"

	"github.com/spf13/pflag"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/tree/worktree"
)

// XattrOptions select extended attributes by their names.
type XattrOptions struct {
	none             bool
	include, exclude []string
	flags            *pflag.FlagSet // nil: the command has no such options
}

// Register adds the options. Does says what the command does with attributes, and begins the help.
func (o *XattrOptions) Register(flags *pflag.FlagSet, does string) {
	o.flags = flags
	flags.BoolVar(&o.none, "no-xattrs", false, does+" no extended attributes, and so no ACLs")
	flags.StringArrayVar(&o.include, "include-xattr", nil, does+" only extended attributes that match `PATTERN`, as in 'user.*'")
	flags.StringArrayVar(&o.exclude, "exclude-xattr", nil, does+" no extended attributes that match `PATTERN`, as in 'system.posix_acl_*'")
}

// checkPatterns returns a usage error if a pattern is invalid.
func (o *XattrOptions) checkPatterns() error {
	for _, pattern := range slices.Concat(o.include, o.exclude) {
		if err := worktree.CheckXattrPattern(pattern); err != nil {
			return Usagef("pattern %s: %w", QuoteArg(pattern), err)
		}
	}
	return nil
}

// givenOptions returns the options of the command line for the worktree of a repository.
func (o *XattrOptions) givenOptions() (kist.XattrOptions, error) {
	given := kist.XattrOptions{Include: o.include, Exclude: o.exclude}
	if o.flags != nil && o.flags.Changed("no-xattrs") {
		given.None = &o.none
	}
	return given, o.checkPatterns()
}

// Selected returns the function that selects attributes, or nil for all.
func (o *XattrOptions) Selected() (func(name string) bool, error) {
	if err := o.checkPatterns(); err != nil {
		return nil, err
	}
	exclude := o.exclude
	if o.none {
		exclude = []string{"*"}
	}
	if len(o.include)+len(exclude) == 0 {
		return nil, nil
	}
	return worktree.SelectXattrs(o.include, exclude), nil
}

package cli

import (
	"context"
	"path"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/history"
)

// commitFilter chooses branches or tags by how their commits are related to
// others.
type commitFilter struct {
	contains, noContains, merged, noMerged string
}

// commitFilters are the options of a commitFilter. All may be given without a
// revision, which then is the argument that follows, or else HEAD.
var commitFilters = []struct {
	name, usage string
	value       func(*commitFilter) *string
}{
	{"contains", "only if they have the commit `REV`, by default HEAD", func(f *commitFilter) *string { return &f.contains }},
	{"no-contains", "only if they lack `REV`", func(f *commitFilter) *string { return &f.noContains }},
	{"merged", "only if `REV` has them, by default HEAD", func(f *commitFilter) *string { return &f.merged }},
	{"no-merged", "only if `REV` lacks them", func(f *commitFilter) *string { return &f.noMerged }},
}

// noRev is the value of an option that was given without a revision.
const noRev = "\x00"

func (f *commitFilter) register(cmd *cobra.Command, env *Env) {
	for _, option := range commitFilters {
		cmd.Flags().StringVar(option.value(f), option.name, "", option.usage)
		cmd.Flags().Lookup(option.name).NoOptDefVal = noRev
		must(cmd.RegisterFlagCompletionFunc(option.name, env.complete(revisions)))
	}
}

// wanted reports whether any of the options is given.
func (f *commitFilter) wanted(cmd *cobra.Command) bool {
	for _, option := range commitFilters {
		if cmd.Flags().Changed(option.name) {
			return true
		}
	}
	return false
}

// filter returns the function that chooses, and the arguments without those
// that were revisions for an option.
func (f commitFilter) filter(cmd *cobra.Command, r *kist.Repository, args []string) (func(context.Context, object.ID) (bool, error), []string, error) {
	ctx := cmd.Context()
	type test struct {
		id       object.ID
		contains bool // the other commit has to have id, and not the other way round
		not      bool
	}
	var tests []test
	for _, option := range commitFilters {
		if !cmd.Flags().Changed(option.name) {
			continue
		}
		rev := *option.value(&f)
		if rev == noRev {
			rev = "HEAD"
			if len(args) > 0 {
				rev, args = args[0], args[1:]
			}
		}
		id, err := r.Resolve(ctx, rev)
		if err != nil {
			return nil, nil, err
		}
		tests = append(tests, test{id, strings.HasSuffix(option.name, "contains"), strings.HasPrefix(option.name, "no-")})
	}
	return func(ctx context.Context, id object.ID) (bool, error) {
		if len(tests) == 0 {
			return true, nil
		}
		commit, err := refs.Peel(ctx, r.Objects(), id)
		if err != nil {
			return false, err
		}
		for _, t := range tests {
			old, new := commit, t.id
			if t.contains {
				old, new = t.id, commit
			}
			has, err := history.IsAncestor(ctx, r.Objects(), old, new)
			if err != nil || has == t.not {
				return false, err
			}
		}
		return true, nil
	}, args, nil
}

// matchesAny reports whether a name fits one of some patterns, or there are
// none. As in git, * stands for slashes, too.
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

// shortRef returns the name of a ref without the folder of its kind.
func shortRef(name string) string {
	for _, prefix := range []string{refs.Heads, refs.Tags, refs.Remotes} {
		if short, ok := strings.CutPrefix(name, prefix); ok {
			return short
		}
	}
	return name
}

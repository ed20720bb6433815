package cli

import "github.com/spf13/cobra"

// changeForm says in which forms changes of files are shown, by git's options.
type changeForm struct {
	patch, none              bool
	stat, shortStat, numStat bool
	nameOnly, nameStatus     bool
	nul                      bool // -z
	context                  int  // lines around a change
	renames, noRenames       bool
	indent                   int // columns taken by what stands to the left
}

// register adds the options to a command. Without an option, the command shows the
// patch, or nothing if patch is false.
func (f *changeForm) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVarP(&f.patch, "patch", "p", false, "show which lines changed")
	flags.IntVarP(&f.context, "unified", "U", 3, "show `N` lines around each change")
	flags.BoolVar(&f.stat, "stat", false, "show how many lines of each file changed")
	flags.BoolVar(&f.shortStat, "shortstat", false, "show only the last line of --stat")
	flags.BoolVar(&f.numStat, "numstat", false, "like --stat, for programs: added, deleted, path")
	flags.BoolVar(&f.nameOnly, "name-only", false, "show only the paths of changed files")
	flags.BoolVar(&f.nameStatus, "name-status", false, "show paths, and what happened: A (added), M (modified), D (deleted), R (renamed), T (of another type), U (in conflict)")
	flags.BoolVarP(&f.none, "no-patch", "s", false, "show no changes")
	flags.BoolVarP(&f.nul, "null", "z", false, "end paths with NUL, and do not quote them (with --name-only, --name-status, --numstat)")
	flags.BoolVarP(&f.renames, "find-renames", "M", false, "find files that were renamed (the default)")
	flags.BoolVar(&f.noRenames, "no-renames", false, "show a renamed file as one deleted and one added")
	cmd.MarkFlagsMutuallyExclusive("name-only", "name-status", "no-patch")
}

// settle checks the options after they have been parsed. The caller decides what a
// command shows without them.
func (f *changeForm) settle(cmd *cobra.Command, fallback func(*changeForm)) error {
	if f.context < 0 {
		return usagef("-U must not be negative")
	}
	if cmd.Flags().Changed("unified") {
		f.patch = true
	}
	f.renames = !f.noRenames
	if !f.wanted() && !f.none {
		fallback(f)
	}
	if f.nameOnly || f.nameStatus { // as in git
		f.patch = false
	}
	if f.none {
		f.patch, f.stat, f.shortStat, f.numStat = false, false, false, false
	}
	return nil
}

// wanted reports whether any form is asked for.
func (f *changeForm) wanted() bool {
	return f.patch || f.stat || f.shortStat || f.numStat || f.nameOnly || f.nameStatus
}

package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// globals are the options that every command has.
type globals struct {
	repo     string
	json     bool
	color    string
	colors   *choice // the option that sets color
	quiet    bool
	verbose  bool
	progress string // auto, json or never
	noPager  bool
}

func (g *globals) register(root *cobra.Command, env *Env) {
	flags := root.PersistentFlags()
	flags.SortFlags = false
	flags.VarP(&dirFlag{env, env.Dir}, "directory", "C", "run as if started in `DIR`; several options add up")
	flags.StringVar(&g.repo, "repo", "", "use the repository in `DIR` instead of the one around the current folder")
	flags.BoolVar(&g.json, "json", false, "print results as JSON, one object a line")
	g.colors = newChoice(&g.color, "auto", "always", "never")
	flags.Var(g.colors, "color", "when to use colours")
	flags.BoolVarP(&g.quiet, "quiet", "q", false, "print only results, warnings and errors")
	flags.BoolVarP(&g.verbose, "verbose", "v", false, "print more: details, progress of steps, internals of errors")
	flags.Var(newChoice(&g.progress, progressAuto, progressJSON, progressNever), "progress", "how to show progress: `auto|json|never`; json: one object a line on standard error, see 'kist --help'")
	withoutValue(flags, "no-progress", "the same as --progress never", func() error { g.progress = progressNever; return nil })
	flags.BoolVar(&g.noPager, "no-pager", false, "do not use the pager (KIST_PAGER, core.pager, PAGER, or less)")
}

// registerSetID adds --setid to a command that writes files.
func registerSetID(env *Env, cmd *cobra.Command) {
	cmd.Flags().BoolVar(&env.repo.setID, "setid", false, "restore set-user-ID and set-group-ID bits, which run files as their owner or group")
}

// must panics for an error that only a mistake in this package can cause, such as the
// completion of an unknown option.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// dirFlag is the option -C. It changes the directory at once, so relative paths in later
// options start from there.
type dirFlag struct {
	env   *Env
	start string // the former directory
}

func (f *dirFlag) String() string { return "" }
func (f *dirFlag) Type() string   { return "DIR" }

func (f *dirFlag) Set(dir string) error {
	if f.env.completion.asked { // cobra reads the command line twice
		f.env.Dir = f.start
	}
	dir = f.env.path(dir)
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s: not a folder", quotePath(dir))
	}
	f.env.Dir = dir
	return nil
}

// path returns name as an absolute path. A relative name starts from e.Dir, which -C sets.
// path does not touch the disk.
func (e *Env) path(name string) string {
	if filepath.IsAbs(name) {
		return filepath.Clean(name)
	}
	return filepath.Join(e.Dir, name)
}

// repoDir returns the absolute path of the folder that --repo names, or "" without --repo.
func (e *Env) repoDir() string {
	if e.global.repo == "" {
		return ""
	}
	return e.path(e.global.repo)
}

// choice is an option with a few possible values.
type choice struct {
	value   *string
	choices []string
	given   bool // the command line has the option
}

// newChoice returns an option with one of choices as its value. The default is the first.
func newChoice(value *string, choices ...string) *choice {
	*value = choices[0]
	return &choice{value: value, choices: choices}
}

func (c *choice) String() string { return *c.value }
func (c *choice) Type() string   { return strings.Join(c.choices, "|") }

func (c *choice) Set(s string) error {
	if !slices.Contains(c.choices, s) {
		return fmt.Errorf("must be one of %s", strings.Join(c.choices, ", "))
	}
	*c.value, c.given = s, true
	return nil
}

// parsed is an option whose text is parsed into a T.
type parsed[T any] struct {
	text  string // as it was given
	value *T
	parse func(string) (T, error)
}

// newParsed returns an option that stores the result of parse in value. Until it is given,
// it has the default, a text; value stays as it is if the default is empty.
func newParsed[T any](value *T, def string, parse func(string) (T, error)) *parsed[T] {
	p := &parsed[T]{value: value, parse: parse}
	if def != "" {
		must(p.Set(def))
	}
	return p
}

func (p *parsed[T]) String() string { return p.text }
func (p *parsed[T]) Type() string   { return "" }

func (p *parsed[T]) Set(text string) (err error) {
	p.text = text
	*p.value, err = p.parse(text)
	return err
}

// folders proposes folders.
func folders(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

// arguments accepts from least to most arguments. If most is negative, there is no limit. The
// names are those of the arguments, for messages.
func arguments(least, most int, names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			if len(args) < len(names) {
				return fmt.Errorf("%s is missing", names[len(args)])
			}
			return fmt.Errorf("%s needs at least %d arguments", cmd.CommandPath(), least)
		case most >= 0 && len(args) > most && cmd.HasSubCommands():
			return unknownCommand(cmd, args[most])
		case most >= 0 && len(args) > most:
			return fmt.Errorf("one argument too many: %s", quoteArg(args[most]))
		}
		return nil
	}
}

// noArguments accepts no arguments.
var noArguments = arguments(0, 0)

// registerDigits makes -12 the digits of a number.
func registerDigits(cmd *cobra.Command, number *int) {
	flags := cmd.Flags()
	for digit := range 10 {
		name := strconv.Itoa(digit)
		flags.BoolFuncP("digit-"+name, name, "", func(string) error { return addDigit(number, digit) })
		flags.Lookup("digit-" + name).Hidden = true
	}
}

// registerCount registers git's options for the number of shown items: -n 3 and -3.
func registerCount(cmd *cobra.Command, number *int, what string) {
	flags := cmd.Flags()
	flags.IntVarP(number, "max-count", "n", -1, "show at most `N` "+what+"; -3 is short for -n 3")
	flags.Lookup("max-count").DefValue = "" // the help shows no default, since all are shown
	registerDigits(cmd, number)
}

// addDigit appends a digit to a number: -12 is -1 -2.
func addDigit(number *int, digit int) error {
	n := max(*number, 0)
	if n > 1e8 {
		return errors.New("too large")
	}
	*number = 10*n + digit
	return nil
}

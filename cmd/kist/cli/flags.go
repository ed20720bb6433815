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
	JSON     bool
	Color    string
	colors   *Choice // the option that sets color
	Quiet    bool
	Verbose  bool
	progress string // auto, json or never
	noPager  bool
}

func (g *globals) register(root *cobra.Command, env *Env) {
	flags := root.PersistentFlags()
	flags.SortFlags = false
	flags.VarP(&dirFlag{env, env.Dir}, "directory", "C", "run as if started in `DIR`; several options add up")
	flags.StringVar(&g.repo, "repo", "", "use the repository in `DIR` instead of the one around the current folder")
	flags.BoolVar(&g.JSON, "json", false, "print results as JSON, one object a line")
	g.colors = NewChoice(&g.Color, "auto", "always", "never")
	flags.Var(g.colors, "color", "when to use colours")
	flags.BoolVarP(&g.Quiet, "quiet", "q", false, "print only results, warnings and errors")
	flags.BoolVarP(&g.Verbose, "verbose", "v", false, "print more: details, progress of steps, internals of errors")
	flags.Var(NewChoice(&g.progress, progressAuto, progressJSON, progressNever), "progress", "how to show progress: `auto|json|never`; json: one object a line on standard error, see 'kist --help'")
	WithoutValue(flags, "no-progress", "the same as --progress never", func() error { g.progress = progressNever; return nil })
	flags.BoolVar(&g.noPager, "no-pager", false, "do not use the pager (KIST_PAGER, core.pager, PAGER, or less)")
}

// RegisterSetID adds --setid to a command that writes files.
func RegisterSetID(env *Env, cmd *cobra.Command) {
	cmd.Flags().BoolVar(&env.Repo.setID, "setid", false, "restore set-user-ID and set-group-ID bits, which run files as their owner or group")
}

// Must panics for an error that only a mistake in this package can cause, such as the
// completion of an unknown option.
func Must(err error) {
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
	if f.env.Completion.asked { // cobra reads the command line twice
		f.env.Dir = f.start
	}
	dir = f.env.Path(dir)
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s: not a folder", QuotePath(dir))
	}
	f.env.Dir = dir
	return nil
}

// Path returns name as an absolute path. A relative name starts from e.Dir, which -C sets.
// path does not touch the disk.
func (e *Env) Path(name string) string {
	if filepath.IsAbs(name) {
		return filepath.Clean(name)
	}
	return filepath.Join(e.Dir, name)
}

// RepoDir returns the absolute path of the folder that --repo names, or "" without --repo.
func (e *Env) RepoDir() string {
	if e.Global.repo == "" {
		return ""
	}
	return e.Path(e.Global.repo)
}

// Choice is an option with a few possible values.
type Choice struct {
	Value   *string
	Choices []string
	given   bool // the command line has the option
}

// NewChoice returns an option with one of choices as its value. The default is the first.
func NewChoice(value *string, choices ...string) *Choice {
	*value = choices[0]
	return &Choice{Value: value, Choices: choices}
}

func (c *Choice) String() string { return *c.Value }
func (c *Choice) Type() string   { return strings.Join(c.Choices, "|") }

func (c *Choice) Set(s string) error {
	if !slices.Contains(c.Choices, s) {
		return fmt.Errorf("must be one of %s", strings.Join(c.Choices, ", "))
	}
	*c.Value, c.given = s, true
	return nil
}

// Parsed is an option whose text is parsed into a T.
type Parsed[T any] struct {
	Text  string // as it was given
	Value *T
	parse func(string) (T, error)
}

// NewParsed returns an option that stores the result of parse in value. Until it is given,
// it has the default, a text; value stays as it is if the default is empty.
func NewParsed[T any](value *T, def string, parse func(string) (T, error)) *Parsed[T] {
	p := &Parsed[T]{Value: value, parse: parse}
	if def != "" {
		Must(p.Set(def))
	}
	return p
}

func (p *Parsed[T]) String() string { return p.Text }
func (p *Parsed[T]) Type() string   { return "" }

func (p *Parsed[T]) Set(text string) (err error) {
	p.Text = text
	*p.Value, err = p.parse(text)
	return err
}

// Folders proposes folders.
func Folders(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

// Arguments accepts from least to most arguments. If most is negative, there is no limit. The
// names are those of the arguments, for messages.
func Arguments(least, most int, names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			if len(args) < len(names) {
				return fmt.Errorf("%s is missing", names[len(args)])
			}
			return fmt.Errorf("%s needs at least %d arguments", cmd.CommandPath(), least)
		case most >= 0 && len(args) > most && cmd.HasSubCommands():
			return UnknownCommand(cmd, args[most])
		case most >= 0 && len(args) > most:
			return fmt.Errorf("one argument too many: %s", QuoteArg(args[most]))
		}
		return nil
	}
}

// NoArguments accepts no arguments.
var NoArguments = Arguments(0, 0)

// RegisterDigits makes -12 the digits of a number.
func RegisterDigits(cmd *cobra.Command, number *int) {
	flags := cmd.Flags()
	for digit := range 10 {
		name := strconv.Itoa(digit)
		flags.BoolFuncP("digit-"+name, name, "", func(string) error { return addDigit(number, digit) })
		flags.Lookup("digit-" + name).Hidden = true
	}
}

// RegisterCount registers git's options for the number of shown items: -n 3 and -3.
func RegisterCount(cmd *cobra.Command, number *int, what string) {
	flags := cmd.Flags()
	flags.IntVarP(number, "max-count", "n", -1, "show at most `N` "+what+"; -3 is short for -n 3")
	flags.Lookup("max-count").DefValue = "" // the help shows no default, since all are shown
	RegisterDigits(cmd, number)
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

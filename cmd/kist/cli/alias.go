package cli

import (
	"context"
	"errors"
	"os/exec"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/remote"
)

// AliasAnnotation is the annotation of the command for an alias. It has the alias's value.
const AliasAnnotation = "kist-alias"

var (
	ErrEmptyAlias = errors.New("it is empty")
)

// registerSettings adds the option -c to the help. [expandAliases] removes it from the command
// line, because some commands have an option -c of their own.
func registerSettings(flags *pflag.FlagSet) *[]string {
	return flags.StringArrayP("config", "c", nil, "use `KEY=VALUE` for this command only, see 'kist help config'; several are possible, before the command")
}

// commandLine has the parts of a command line.
type commandLine struct {
	globals  []string // global options before the command, in a form that cobra reads
	settings []string // the values of options -c
	rest     []string // the command and its arguments
	at       Env      // the environment with the global options

	err          error    // a mistake in the global options
	before, last []string // for completion: the words around the command line
}

// readLine reads the arguments of kist.
func readLine(e *Env, args []string) *commandLine {
	var before, last []string
	if e.Completion.asked && len(args) > 1 {
		n := len(args) - 1 // the word to complete
		before, args, last = args[:1:1], args[1:n:n], args[n:]
	}
	l, err := splitLine(e, args)
	if err != nil {
		l.globals, l.rest = nil, args
	}
	l.err, l.before, l.last = err, before, last
	return l
}

// commandName returns the name of the command that runs. It is "" if the line has none, and if
// completion may propose any.
func (l *commandLine) commandName() string {
	switch {
	case l.err != nil, l.before != nil, l.last != nil:
		return ""
	case len(l.rest) > 0:
		return l.rest[0]
	case slices.Equal(l.globals, []string{"--version=true"}):
		return "version"
	}
	return ""
}

// splitLine splits args. The error is a mistake in the global options, which cobra reports better.
func splitLine(e *Env, args []string) (*commandLine, error) {
	l := &commandLine{at: *e}
	l.at.Completion = completion{}
	root := &cobra.Command{Use: "kist"}
	l.at.Global.register(root, &l.at)
	flags := root.PersistentFlags()
	registerSettings(flags)
	flags.BoolP("help", "h", false, "")
	flags.Bool("version", false, "")
	flags.SetInterspersed(false)

	err := flags.ParseAll(args, func(flag *pflag.Flag, value string) error {
		if flag.Name == "config" {
			l.settings = append(l.settings, value)
			return nil
		}
		l.globals = append(l.globals, "--"+flag.Name+"="+value)
		return flags.Set(flag.Name, value)
	})
	if err == nil && flags.ArgsLenAtDash() >= 0 {
		err = errors.New("-- before a command")
	}
	l.rest = flags.Args()
	return l, err
}

// expandAliases applies the options -c, and replaces an alias by the words that it stands for. It
// returns the arguments for root. If root needs them, it gets commands for all aliases.
func expandAliases(e *Env, root *cobra.Command, l *commandLine) ([]string, error) {
	if l.err != nil {
		return slices.Concat(l.before, l.rest, l.last), nil
	}
	if err := override(e, l.settings); err != nil && !e.Completion.asked {
		return nil, err
	}
	globals, words := l.globals, l.rest
	switch {
	case len(words) == 0 && !e.Completion.asked:
	case len(words) == 0, words[0] == "help":
		addAliases(e, root, aliases(l))
	case Subcommand(root, words[0]) == nil && !strings.HasPrefix(words[0], "__"):
		if e.UserErr != nil {
			return nil, e.UserErr // it may have the alias
		}
		known := aliases(l)
		addAliases(e, root, known)
		more, expanded, err := unalias(e, root, known, words[:1:1])
		if err != nil {
			return nil, err
		}
		globals, words = append(globals, more...), append(expanded, words[1:]...)
	}
	return slices.Concat(l.before, globals, words, l.last), nil
}

// override applies the options -c.
func override(e *Env, settings []string) error {
	if len(settings) > 0 && e.UserErr != nil {
		return e.UserErr
	}
	for _, setting := range settings {
		key, value, ok := strings.Cut(setting, "=")
		if !ok {
			value = "true" // as git has it
		}
		if err := NearKey(e.User.Override(key, value)); err != nil {
			return err
		}
	}
	return nil
}

// aliases returns the aliases that count at a command line, by name.
func aliases(l *commandLine) map[string]kist.Setting {
	var config *kist.Config
	if r, err := l.at.Open(); err == nil {
		defer r.Close()
		config = r.Config()
	}
	known := map[string]kist.Setting{}
	for _, s := range kist.Settings(l.at.User, config) {
		name, ok := strings.CutPrefix(s.Key, kist.KeyAlias)
		if ok && !s.Ignored && kist.CheckAliasName(name) == nil && len(s.Values) == 1 {
			known[name] = s
		}
	}
	return known
}

// addAliases gives root a command for each alias that hides no other command: for the help,
// for completion, and to run commands of the shell.
func addAliases(e *Env, root *cobra.Command, known map[string]kist.Setting) {
	for name, s := range known {
		if Subcommand(root, name) != nil {
			continue
		}
		if !root.ContainsGroup("aliases") {
			root.AddGroup(&cobra.Group{ID: "aliases", Title: "YOUR ALIASES"})
		}
		value := Printable(strings.Join(strings.Fields(s.Values[0]), " "))
		cmd := &cobra.Command{
			Use: name, Short: "short for: " + value, GroupID: "aliases", DisableFlagParsing: true,
			Annotations: map[string]string{AliasAnnotation: value},
			RunE: func(cmd *cobra.Command, args []string) error {
				return runShell(cmd.Context(), e, name, strings.TrimPrefix(s.Values[0], "!"), args)
			},
		}
		finish(cmd)
		root.AddCommand(cmd)
	}
}

// unalias returns the words that the alias in words stands for, and the global options before
// them. Words of an alias for a command of the shell, and unknown words, stay as they are.
func unalias(e *Env, root *cobra.Command, known map[string]kist.Setting, words []string) (globals, expanded []string, err error) {
	var seen []string
	foreign := "" // an alias of the repository
	for {
		name := words[0]
		s, ok := known[name]
		if !ok || Subcommand(root, name).Annotations[AliasAnnotation] == "" {
			break
		}
		if slices.Contains(seen, name) {
			return nil, nil, Usagef("the alias %s leads back to itself: %s", name, strings.Join(append(seen, name), ", "))
		}
		seen = append(seen, name)
		if s.Source == kist.FromRepository {
			foreign = name
		}
		if shell := strings.HasPrefix(s.Values[0], "!"); shell && foreign != "" {
			return nil, nil, foreignError(foreign, "a command of the shell")
		} else if shell {
			break
		}

		more, err := remote.SplitWords(s.Values[0])
		if err != nil {
			return nil, nil, Usagef("alias %s: %w", name, err)
		}
		l, err := splitLine(e, more)
		switch {
		case err != nil:
			return nil, nil, Usagef("alias %s: %w", name, err)
		case len(l.rest) == 0:
			return nil, nil, Usagef("alias %s: %w", name, ErrEmptyAlias)
		case foreign != "" && len(l.rest) < len(more):
			return nil, nil, foreignError(foreign, "an option before the command")
		}
		if err := override(e, l.settings); err != nil {
			return nil, nil, err
		}
		globals, words = append(globals, l.globals...), append(slices.Clone(l.rest), words[1:]...)
	}
	if foreign != "" {
		err = checkForeign(e, foreign, words)
	}
	return globals, words, err
}

// foreignError is the error for an alias of a repository that would do more than an alias of
// a repository may do.
func foreignError(name, what string) error {
	return Hintf(Failf(ExitFailed, "untrusted", "the alias %s of this repository has %s, which counts only in aliases of your own", name, what),
		"if you want it: kist config --global %s%s 'COMMAND'", kist.KeyAlias, name)
}

// checkForeign returns an error if an alias of a repository stands for more than a command
// that works in the repository, because another user may have written it. Such a command runs no
// other programs, and reads and writes no other files.
func checkForeign(e *Env, name string, words []string) error {
	scratch := *e
	scratch.Completion = completion{}
	cmd, args, err := New(&scratch).Find(words)
	if err != nil || !cmd.HasParent() {
		return nil // cobra reports an unknown command
	}
	top := cmd
	for top.Parent().HasParent() {
		top = top.Parent()
	}
	inside := slices.Contains([]string{"files", "branches", "look"}, top.GroupID)
	if !inside || slices.Contains([]string{"bisect", "view"}, top.Name()) {
		return foreignError(name, "the command "+top.Name())
	}
	if cmd.ParseFlags(args) != nil {
		return nil // cobra reports it
	}
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		if placeholder, _ := pflag.UnquoteUsage(flag); slices.Contains([]string{"COMMAND", "DIR", "FILE"}, placeholder) {
			err = foreignError(name, "the option --"+flag.Name)
		}
	})
	return err
}

// runShell runs the shell command of an alias at the top of the worktree, with args behind it.
func runShell(ctx context.Context, e *Env, name, command string, args []string) error {
	cmd := NewShell(ctx, e, append([]string{command + ` "$@"`, name}, args...)...)
	if r, err := e.Open(); err == nil {
		if !r.IsBare() {
			cmd.Dir = r.Root()
		}
		r.Close()
	}
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() > 0 {
		return &Failure{Exit: exit.ExitCode(), Kind: "alias"} // the command reported it
	}
	return err
}

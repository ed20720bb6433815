package cli

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Failure is an error for which a command decides exit status and kind.
type Failure struct {
	Err   error
	Exit  int // 0: the status of the cause
	Kind  string
	Hints []string
}

func (f *Failure) Error() string {
	if f.Err == nil {
		return fmt.Sprintf("exit status %d", f.Exit)
	}
	return f.Err.Error()
}

func (f *Failure) Unwrap() error { return f.Err }

// Usagef returns an error about the command line.
func Usagef(format string, args ...any) error {
	return &Failure{Err: fmt.Errorf(format, args...), Exit: ExitUsage}
}

// Failf returns an error with an exit status and a kind of its own; kind may
// be empty.
func Failf(exit int, kind, format string, args ...any) error {
	return &Failure{Err: fmt.Errorf(format, args...), Exit: exit, Kind: kind}
}

// LinesError returns an error with further lines below its first one.
func LinesError(exit int, kind, first string, lines []string) error {
	return Failf(exit, kind, "%s", strings.Join(append([]string{first}, lines...), "\n"))
}

// Hintf returns err with advice on what to do about it.
func Hintf(err error, format string, args ...any) error {
	return &Failure{Err: err, Hints: []string{fmt.Sprintf(format, args...)}}
}

// Quiet returns an error that ends the command with status and prints nothing:
// everything is printed already.
func Quiet(status int) error { return &Failure{Exit: status} }

// errorJSON is an error with --json.
type errorJSON struct {
	Error Outcome `json:"error" doc:"the error"`
}

// Outcome is the report of an error.
type Outcome struct {
	Message string `json:"message" doc:"the message"`
	Kind    string `json:"kind" doc:"the kind of the error, see the page 'Exit statuses and errors'"`
	Exit    int    `json:"exit" doc:"the exit status"`
	Hint    string `json:"hint,omitempty" doc:"advice"`
	Detail  string `json:"detail,omitempty" doc:"with --verbose, the internal text of the error"`
	quiet   bool
}

// OutcomeOf returns the report of err.
func OutcomeOf(err error) Outcome {
	var o Outcome
	var hints []string
	for next := err; next != nil; {
		var f *Failure
		if !errors.As(next, &f) {
			break
		}
		if o.Exit == 0 {
			o.Exit, o.Kind = f.Exit, f.Kind
		}
		hints = append(hints, f.Hints...)
		o.quiet = o.quiet || f.Err == nil
		next = f.Err
	}

	for _, cause := range Causes {
		if o.Exit != 0 {
			break
		}
		if cause.is(err) {
			o.Exit, o.Kind = cause.Exit, cause.Kind
			for _, hint := range []string{cause.hint, expiredHint(err), envHint(err), upstreamHint(err), magicHint(err), lazyHint(err), budgetHint(err)} {
				if hint != "" {
					hints = append(hints, hint)
				}
			}
		}
	}
	if o.Exit == 0 {
		o.Exit = ExitFailed
	}
	if o.Kind == "" {
		o.Kind = exitStatusOf(o.Exit).Kind
	}
	o.Message = inWords(err) + pathsOfError(err)
	if o.Exit == ExitInterrupted {
		o.Message = "interrupted"
	}
	o.Hint = strings.Join(hints, "\n")
	return o
}

// Report prints an error and returns the exit status.
func (e *Env) Report(err error) int {
	o := OutcomeOf(err)
	if o.quiet {
		return o.Exit
	}
	if detail := err.Error() + pathsOfError(err); e.Global.Verbose && detail != o.Message {
		o.Detail = detail
	}
	SayOutcome(e, o)
	if e.Global.JSON {
		o.Message, o.Hint, o.Detail = e.Secrets.Hide(o.Message), e.Secrets.Hide(o.Hint), e.Secrets.Hide(o.Detail)
		e.JSON(errorJSON{o})
	}
	return o.Exit
}

// SayOutcome prints the report of an error for people.
func SayOutcome(env *Env, o Outcome) {
	say := func(label string, color Style, text string) {
		text = strings.ReplaceAll(Printable(text), "\n", "\n  ")
		fmt.Fprintf(env.Stderr, "%s %s\n", env.PaintErr(color, label), text)
	}
	say("error:", Red, o.Message)
	if o.Detail != "" {
		say("detail:", Yellow, o.Detail)
	}
	if o.Hint != "" {
		for hint := range strings.SplitSeq(o.Hint, "\n") {
			say("hint:", Yellow, hint)
		}
	}
}

// usageError words cobra's error about a command line.
func usageError(cmd *cobra.Command, err error) error {
	if IsA[*Failure](err) {
		return err
	}
	if quoted, ok := strings.CutPrefix(err.Error(), "unknown command "); ok {
		if prefix, qerr := strconv.QuotedPrefix(quoted); qerr == nil {
			name, _ := strconv.Unquote(prefix)
			return UnknownCommand(cmd, name)
		}
	}
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		if err = invalidValue(invalid); invalid.GetFlag().Name == "directory" && instead[cmd.Name()] != "" {
			return Hintf(Usagef("%w", err), "-C names the folder to work in; %s", instead[cmd.Name()])
		}
	} else if set := exclusive().FindStringSubmatch(err.Error()); set != nil {
		err = togetherError(strings.Fields(set[1]))
	}
	return nearOption(cmd, Hintf(Usagef("%w", err), "see '%s --help'", cmd.CommandPath()))
}

// nearOption returns err. If it is about an unknown option, a hint has similar ones.
func nearOption(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return err
	}
	if unknown.GetSpecifiedShortnames() != "" {
		if sign := cmd.Flags().Lookup("sign"); sign != nil && sign.Changed { // git's -SKEY
			return Hintf(err, "-%s=KEY names the key to sign with", sign.Shorthand)
		}
		return err
	}
	var names []string
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		if !flag.Hidden {
			names = append(names, "--"+flag.Name)
		}
	})
	return HintSimilar(err, "--"+unknown.GetSpecifiedName(), names)
}

// instead has advice for commands of git in which -C is no folder.
var instead = map[string]string{
	"branch": "'kist branch -c -f OLD NEW' copies a branch in place of another",
	"commit": "'kist commit --amend --no-edit' takes the message of the last commit",
}

// exclusive finds the names in cobra's error about flags that exclude each other.
var exclusive = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`none of the others can be; \[(.+)\] were all set$`)
})

// togetherError is the error for two or more flags that exclude each other.
func togetherError(names []string) error {
	last := len(names) - 1
	return fmt.Errorf("--%s and --%s do not go together", strings.Join(names[:last], ", --"), names[last])
}

// errNoValue is the error for the value of a flag that has none.
var errNoValue = errors.New("the option takes no value")

// WithoutValue adds a flag that takes no value and calls set.
func WithoutValue(flags *pflag.FlagSet, name, usage string, set func() error) {
	flags.BoolFunc(name, usage, func(text string) error {
		if text != "true" {
			return errNoValue
		}
		return set()
	})
}

// invalidValue describes the mistake in the value of a flag.
func invalidValue(err *pflag.InvalidValueError) error {
	cause := err.Unwrap()
	switch {
	case err.GetFlag().Value.Type() == "bool":
		cause = errNoValue
	case errors.Is(cause, strconv.ErrSyntax):
		cause = errors.New("not a number")
	case errors.Is(cause, strconv.ErrRange):
		cause = errors.New("too large a number")
	}
	return fmt.Errorf("--%s %s: %w", err.GetFlag().Name, QuoteArg(err.GetValue()), cause)
}

// UnknownCommand returns the error for a command that cmd does not have, with the nearest
// names.
func UnknownCommand(cmd *cobra.Command, name string) error {
	err := Usagef("unknown command %s for %s", QuoteArg(name), cmd.CommandPath())
	if advice := otherNames[name]; advice != "" && !cmd.HasParent() {
		return Hintf(err, "%s", advice)
	}
	if cmd.SuggestionsMinimumDistance <= 0 {
		cmd.SuggestionsMinimumDistance = 2
	}
	if len(name) <= 3 { // two letters off, it is another word
		cmd.SuggestionsMinimumDistance = 1
	}
	if near := cmd.SuggestionsFor(name); len(near) > 0 {
		return Hintf(err, "did you mean '%s'?", strings.Join(near, "' or '"))
	}
	return Hintf(err, "'%s --help' lists the commands", cmd.CommandPath())
}

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

// failure is an error for which a command decides exit status and kind.
type failure struct {
	err   error
	exit  int // 0: the status of the cause
	kind  string
	hints []string
}

func (f *failure) Error() string {
	if f.err == nil {
		return fmt.Sprintf("exit status %d", f.exit)
	}
	return f.err.Error()
}

func (f *failure) Unwrap() error { return f.err }

// usagef returns an error about the command line.
func usagef(format string, args ...any) error {
	return &failure{err: fmt.Errorf(format, args...), exit: exitUsage}
}

// failf returns an error with an exit status and a kind of its own; kind may
// be empty.
func failf(exit int, kind, format string, args ...any) error {
	return &failure{err: fmt.Errorf(format, args...), exit: exit, kind: kind}
}

// linesError returns an error with further lines below its first one.
func linesError(exit int, kind, first string, lines []string) error {
	return failf(exit, kind, "%s", strings.Join(append([]string{first}, lines...), "\n"))
}

// hintf returns err with advice on what to do about it.
func hintf(err error, format string, args ...any) error {
	return &failure{err: err, hints: []string{fmt.Sprintf(format, args...)}}
}

// quiet returns an error that ends the command with status and prints nothing:
// everything is printed already.
func quiet(status int) error { return &failure{exit: status} }

// outcome is the report of an error.
type outcome struct {
	Message string `json:"message"`
	Kind    string `json:"kind"`
	Exit    int    `json:"exit"`
	Hint    string `json:"hint,omitempty"`
	Detail  string `json:"detail,omitempty"` // with --verbose: the error's own text, if Message differs
	quiet   bool
}

// outcomeOf returns the report of err.
func outcomeOf(err error) outcome {
	var o outcome
	var hints []string
	for next := err; next != nil; {
		var f *failure
		if !errors.As(next, &f) {
			break
		}
		if o.Exit == 0 {
			o.Exit, o.Kind = f.exit, f.kind
		}
		hints = append(hints, f.hints...)
		o.quiet = o.quiet || f.err == nil
		next = f.err
	}

	for _, cause := range causes {
		if o.Exit != 0 {
			break
		}
		if cause.is(err) {
			o.Exit, o.Kind = cause.exit, cause.kind
			for _, hint := range []string{cause.hint, expiredHint(err), envHint(err), upstreamHint(err), magicHint(err)} {
				if hint != "" {
					hints = append(hints, hint)
				}
			}
		}
	}
	if o.Exit == 0 {
		o.Exit = exitFailed
	}
	if o.Kind == "" {
		o.Kind = exitStatusOf(o.Exit).kind
	}
	o.Message = inWords(err) + details(err)
	if o.Exit == exitInterrupted {
		o.Message = "interrupted"
	}
	o.Hint = strings.Join(hints, "\n")
	return o
}

// report prints an error and returns the exit status.
func (e *Env) report(err error) int {
	o := outcomeOf(err)
	if o.quiet {
		return o.Exit
	}
	if detail := err.Error() + details(err); e.global.verbose && detail != o.Message {
		o.Detail = detail
	}
	sayOutcome(e, o)
	if e.global.json {
		o.Message, o.Hint, o.Detail = e.secrets.hide(o.Message), e.secrets.hide(o.Hint), e.secrets.hide(o.Detail)
		e.json(map[string]outcome{"error": o})
	}
	return o.Exit
}

// sayOutcome prints the report of an error for people.
func sayOutcome(env *Env, o outcome) {
	say := func(label string, color style, text string) {
		text = strings.ReplaceAll(printable(text), "\n", "\n  ")
		fmt.Fprintf(env.Stderr, "%s %s\n", env.paintErr(color, label), text)
	}
	say("error:", red, o.Message)
	if o.Detail != "" {
		say("detail:", yellow, o.Detail)
	}
	if o.Hint != "" {
		for hint := range strings.SplitSeq(o.Hint, "\n") {
			say("hint:", yellow, hint)
		}
	}
}

// usageError words cobra's error about a command line.
func usageError(cmd *cobra.Command, err error) error {
	if isA[*failure](err) {
		return err
	}
	if quoted, ok := strings.CutPrefix(err.Error(), "unknown command "); ok {
		if prefix, qerr := strconv.QuotedPrefix(quoted); qerr == nil {
			name, _ := strconv.Unquote(prefix)
			return unknownCommand(cmd, name)
		}
	}
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		if err = invalidValue(invalid); invalid.GetFlag().Name == "directory" && instead[cmd.Name()] != "" {
			return hintf(usagef("%w", err), "-C names the folder to work in; %s", instead[cmd.Name()])
		}
	} else if set := exclusive().FindStringSubmatch(err.Error()); set != nil {
		err = togetherError(strings.Fields(set[1]))
	}
	return nearOption(cmd, hintf(usagef("%w", err), "see '%s --help'", cmd.CommandPath()))
}

// nearOption returns err. If it is about an unknown option, a hint has similar ones.
func nearOption(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) || unknown.GetSpecifiedShortnames() != "" {
		return err
	}
	var names []string
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		if !flag.Hidden {
			names = append(names, "--"+flag.Name)
		}
	})
	return meant(err, "--"+unknown.GetSpecifiedName(), names)
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

// withoutValue adds a flag that takes no value and calls set.
func withoutValue(flags *pflag.FlagSet, name, usage string, set func() error) {
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
	return fmt.Errorf("--%s %s: %w", err.GetFlag().Name, quoteArg(err.GetValue()), cause)
}

// unknownCommand returns the error for a command that cmd does not have, with the nearest
// names.
func unknownCommand(cmd *cobra.Command, name string) error {
	err := usagef("unknown command %s for %s", quoteArg(name), cmd.CommandPath())
	if advice := otherNames[name]; advice != "" && !cmd.HasParent() {
		return hintf(err, "%s", advice)
	}
	if cmd.SuggestionsMinimumDistance <= 0 {
		cmd.SuggestionsMinimumDistance = 2
	}
	if len(name) <= 3 { // two letters off, it is another word
		cmd.SuggestionsMinimumDistance = 1
	}
	if near := cmd.SuggestionsFor(name); len(near) > 0 {
		return hintf(err, "did you mean '%s'?", strings.Join(near, "' or '"))
	}
	return hintf(err, "'%s --help' lists the commands", cmd.CommandPath())
}

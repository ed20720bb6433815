package cli

import (
	"errors"
	"strconv"

	"github.com/spf13/cobra"
)

// registerCount registers git's ways to say how many are shown: -n 3 and -3.
func registerCount(cmd *cobra.Command, number *int, what string) {
	flags := cmd.Flags()
	flags.IntVarP(number, "max-count", "n", -1, "show at most `N` "+what+"; -3 is short for -n 3")
	flags.Lookup("max-count").DefValue = "" // the help shows no default: it is all
	for digit := range 10 {
		name := strconv.Itoa(digit)
		flag := flags.VarPF(&digitFlag{number, digit}, "digit-"+name, name, "")
		flag.Hidden, flag.NoOptDefVal = true, "true"
	}
	must(cmd.RegisterFlagCompletionFunc("max-count", cobra.NoFileCompletions))
}

// digitFlag is one of the options -0 to -9, which add up to a number: -12 is
// -1 -2.
type digitFlag struct {
	number *int
	digit  int
}

func (f *digitFlag) String() string { return "" }

func (f *digitFlag) Type() string { return "" }

func (f *digitFlag) IsBoolFlag() bool { return true }

func (f *digitFlag) Set(string) error {
	n := max(*f.number, 0)
	if n > 1e8 {
		return errors.New("too large")
	}
	*f.number = 10*n + f.digit
	return nil
}

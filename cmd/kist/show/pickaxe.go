package show

import (
	"context"
	"errors"
	"regexp/syntax"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/tree/look/compare"
	"github.com/kist-vcs/kist/tree/look/grep"
)

// pickaxe selects changes by the text in them, as git's -S and -G do. The zero pickaxe selects
// all.
type pickaxe struct {
	text, lines string // of -S and -G
	regexp      bool   // text is a regular expression
	Fold        bool   // case does not count

	axe *grep.Pickaxe // nil: selects all
}

// register adds the options to a command.
func (x *pickaxe) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVarP(&x.text, "pickaxe", "S", "", "show only changes of the number of times that a file has `TEXT`")
	flags.StringVarP(&x.lines, "pickaxe-grep", "G", "", "show only changes with an added or removed line that matches `RE`")
	flags.BoolVar(&x.regexp, "pickaxe-regex", false, "take the TEXT of -S as a regular expression")
	cmd.MarkFlagsMutuallyExclusive("pickaxe", "pickaxe-grep")
}

// compilePattern compiles the options.
func (x *pickaxe) compilePattern() error {
	pattern := x.lines + x.text
	if pattern == "" {
		return nil
	}
	compiled, err := grep.Compile([]string{pattern}, grep.PatternOptions{Fixed: x.lines == "" && !x.regexp, IgnoreCase: x.Fold})
	var bad *syntax.Error
	if errors.As(err, &bad) {
		return cli.Usagef("pattern %s: %s", cli.QuoteArg(bad.Expr), bad.Code)
	}
	x.axe = &grep.Pickaxe{Pattern: compiled, Lines: x.lines != ""}
	if !x.regexp && !x.Fold {
		x.axe.Text = x.text
	}
	return err
}

// Sift returns the changes that the filters select.
func (c *Comparison) Sift(ctx context.Context, changes []compare.Change) ([]compare.Change, error) {
	if axe := c.Form.Filter.axe; axe != nil {
		var err error
		if changes, err = axe.Sift(ctx, &c.Comparison, changes); err != nil {
			return nil, err
		}
	}
	return c.Form.Filter.selectChanges(changes), nil
}

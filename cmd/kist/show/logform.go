package show

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/sshsig"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/tree/look/log"
)

// CommitForm are git's options for the form in which commits are shown.
type CommitForm struct {
	Format   Format
	date     refs.DateForm
	abbrev   bool
	full     bool // full IDs even on a narrow terminal
	signed   bool // check signatures, and show the results
	Decorate string
}

// formatNames are the names of formats of commits.
var formatNames = []string{"oneline", "short", "medium", "full", "fuller", "raw", "reference"}

// FormatHelp describes the formats of commits.
const FormatHelp = `A FORMAT is a name or a text with git's placeholders:

  %H %h %T %t %P %p        IDs of the commit, its tree, its parents; short ones
  %an %ae %al              the author: name, address, the part before the @
  %ad %aD %ar %at %ai %aI %as %ah
                           the author's date as in --date, or in one form
  %cn %ce %cl %cd ...      the same of the committer
  %s %b %B %f              subject, rest of the message, message; the subject as
                           the name of a file
  %d %D %m                 names of branches and tags; the side of A...B
  %G? %GS %GK              the check of its signature: G good, U unknown key,
                           Y expired, B bad, N none; who signed; the key
  %gd %gD %gs %gn %ge      with -g: the move of the ref, its reason, its author
  %n %% %x00               a newline, a percent sign, a byte
  %Cred %Creset %C(bold red) %C(auto)
                           colours
  %<(N) %>(N) %><(N) %>>(N) %<|(N)
                           the next one takes N columns; %<(N,trunc) cuts it

%+s and '% s' put a newline or a space before a result that is not empty. %-s
removes newlines before an empty one. 'format:TEXT' puts newlines between
commits, 'tformat:TEXT' and TEXT after each. Control characters in messages and
names are shown as pictures.`

// Register adds the options to a command.
func (f *CommitForm) Register(env *cli.Env, cmd *cobra.Command) {
	flags := cmd.Flags()
	oneline := func() (err error) {
		f.abbrev = true
		f.Format, err = ParseFormat(Oneline)
		return err
	}
	cli.WithoutValue(flags, "oneline", "one line a commit: ID and subject", oneline)
	flags.Var(cli.NewParsed(&f.Format, "", ParseFormat), "format", "show commits in `FORMAT`: oneline, short, medium, full, fuller, raw, reference, or a text with placeholders")
	flags.Var(cli.NewParsed(&f.Format, "", ParseFormat), "pretty", "the same as --format `FORMAT`")
	flags.Lookup("pretty").NoOptDefVal = "medium"
	for _, name := range []string{"format", "pretty"} {
		cli.Propose(env, cmd, name, cli.OneOf(formatNames...))
	}
	RegisterDate(env, cmd, &f.date)
	flags.BoolVar(&f.abbrev, "abbrev-commit", false, "show short IDs; the default on a terminal that is narrower than a full one")
	flags.BoolVar(&f.full, "no-abbrev-commit", false, "show full IDs")
	cmd.MarkFlagsMutuallyExclusive("abbrev-commit", "no-abbrev-commit")
	flags.BoolVar(&f.signed, "show-signature", false, "check the signatures, and show the results; see 'kist help sign'")
	flags.Var(cli.NewChoice(&f.Decorate, "auto", "short", "full", "no"), "decorate", "show the names of branches and tags")
	flags.Lookup("decorate").NoOptDefVal = "short"
	cli.WithoutValue(flags, "no-decorate", "show no names of branches and tags", func() error {
		f.Decorate = "no"
		return nil
	})
}

// RegisterDate adds git's option for the form of dates to a command.
func RegisterDate(env *cli.Env, cmd *cobra.Command, form *refs.DateForm) {
	cmd.Flags().Var(cli.NewParsed(form, "", refs.ParseDateForm), "date",
		"show dates as `FORM`: default, iso, iso-strict, rfc, short, relative, human, unix, raw, or format:TEXT; with -local in your time zone")
	cli.Propose(env, cmd, "date", cli.OneOf("default", "iso", "iso-strict", "rfc", "short", "relative", "human", "unix", "raw", "local"))
}

// newPrinter returns the printer of commits in this form.
func (f *CommitForm) newPrinter(ctx context.Context, env *cli.Env, r *kist.Repository) (*Printer, error) {
	p := &Printer{
		Format: f.Format, Date: f.date, HasDate: env.Cmd.Flags().Changed("date"), Now: env.Now(),
		Color: env.Colored(env.Terminal.Stdout), Abbrev: f.abbrev || !f.full && narrow(env), Safe: cli.Printable,
	}
	if err := f.checkSignatures(ctx, env, r, p); err != nil || env.Global.JSON {
		return p, err
	}
	// As in git, the default is a terminal only.
	p.Named = f.Decorate != "no" && (f.Decorate != "auto" || env.Terminal.Stdout)
	if p.Named || f.Format.UsesNames() {
		p.Names = log.Decorations(ctx, r, f.Decorate == "full")
	}
	return p, nil
}

// checkSignatures makes p check signatures, if this form shows the results.
func (f *CommitForm) checkSignatures(ctx context.Context, env *cli.Env, r *kist.Repository, p *Printer) error {
	if !f.signed && !f.Format.UsesSignatures() {
		return nil
	}
	signers, err := env.AllowedSigners()
	if err != nil {
		return err
	}
	p.Signature = func(key object.Key) sshsig.Result {
		result, err := signers.CheckNode(ctx, r.Objects(), key)
		if err != nil {
			return sshsig.Result{Status: sshsig.Bad, Err: err}
		}
		return result
	}
	return nil
}

// narrow reports whether the results go to a terminal on which a line with a full ID would
// wrap.
func narrow(env *cli.Env) bool {
	const line = len("commit ") + 2*len(object.ID{})
	return env.Terminal.Stdout && !env.Global.JSON && env.Terminal.Width != nil && env.Terminal.Width() < line
}

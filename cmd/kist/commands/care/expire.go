package care

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/readable"
	"github.com/kist-vcs/kist/gc/retain"
	"github.com/kist-vcs/kist/object"
)

type expireOptions struct {
	retain.ExpireOptions
	undo, all, list bool
}

func NewExpire(env *cli.Env) *cobra.Command {
	var o expireOptions
	cmd := &cobra.Command{
		Use:   "expire [OPTIONS] [REV]...",
		Short: "drop the content of old commits, keep their history",
		Long: `Drops the content of the commits that a policy, made of the --keep options, does
not keep. The commits themselves stay: 'kist log' shows them, marked as expired,
and their IDs stay valid. Their files cannot be read any more. 'kist gc' may
remove the content here, and, after a push, on the remote. Until then, --undo
undoes the expiration.

kist applies the policy to each branch, or only to the branches that --branch
names. It looks at the branch's own commits, along first parents. Commits that
a merge brought in are kept with the merge and expire with it. A commit is kept
if any rule keeps it on any branch.

N counts hours, days, weeks (from Monday), months or years with a commit. The
last commit of each is kept; 'unlimited' means all. If there are fewer than N,
the oldest commit is kept, too. AGE is a time before the newest commit of the
branch, such as 90d, '90 days', 2w or 1y6m. Hours and days are in the time zone
of the commit. Commits with a date in the future are kept and not counted.
Commits that expired earlier are not counted either.

A policy always keeps the content of these commits: the commits that HEAD,
branches, tags and remote-tracking branches name; held commits; commits that
unpushed work starts from; and commits of branches that the policy does not
apply to.

With REVs, exactly these commits expire, without a policy. --list lists the
expired commits: when they expired, by whom and by which policy. --undo undoes
it for REVs, or with --all for all commits, if all of their content is here.`,
		Example: `  kist expire -n --keep-daily 7 --keep-weekly 4    what would expire?
  kist expire --keep-within 14d --keep-monthly 12 --keep-yearly unlimited
  kist expire --keep-last 10 --branch nightly
  kist expire 3fa9c1d2                             the content of one commit
  kist expire --undo 3fa9c1d2`,
		ValidArgsFunction: env.Complete(cli.Revisions),
	}
	env.Prints(cmd, "", expireJSON{})
	env.Prints(cmd, "with --list, for each commit", expirationJSON{})
	env.Prints(cmd, "with --undo", unexpiredJSON{})
	env.InRepository(cmd, cli.FreesSpace(o.run), cli.ExitPartial, cli.ExitBusy)
	flags := cmd.Flags()
	registerPolicy(env, cmd, &o.Policy)
	flags.StringArrayVar(&o.Branches, "branch", nil, "apply the policy to branch `NAME` only; may be given more than once")
	flags.BoolVarP(&o.DryRun, "dry-run", "n", false, "only show which commits would expire, and why others are kept")
	flags.BoolVar(&o.undo, "undo", false, "undo an expiration")
	flags.BoolVar(&o.all, "all", false, "with --undo: all expired commits")
	flags.BoolVar(&o.list, "list", false, "list the expired commits")
	cmd.MarkFlagsMutuallyExclusive("undo", "list", "dry-run")
	cmd.MarkFlagsMutuallyExclusive("undo", "list", "branch")
	cli.Propose(env, cmd, "branch", env.Complete(cli.Branches))
	return cmd
}

// registerPolicy adds the --keep options, which make up a policy.
func registerPolicy(env *cli.Env, cmd *cobra.Command, p *retain.Policy) {
	flags := cmd.Flags()
	keep := func(value *int, name, what string) {
		flags.Var(cli.NewParsed(value, "", retain.ParseCount), "keep-"+name, "keep the last `N` "+what)
	}
	keep(&p.Last, "last", "commits")
	keep(&p.Hourly, "hourly", "hours, a commit of each")
	keep(&p.Daily, "daily", "days, a commit of each")
	keep(&p.Weekly, "weekly", "weeks, a commit of each")
	keep(&p.Monthly, "monthly", "months, a commit of each")
	keep(&p.Yearly, "yearly", "years, a commit of each")
	within := func(value *retain.Duration, name, what string) {
		flags.Var(cli.NewParsed(value, "", retain.ParseDuration), "keep-within"+name, "keep "+what+" of the last `AGE`")
	}
	within(&p.Within, "", "all")
	within(&p.WithinHourly, "-hourly", "a commit of each hour")
	within(&p.WithinDaily, "-daily", "a commit of each day")
	within(&p.WithinWeekly, "-weekly", "a commit of each week")
	within(&p.WithinMonthly, "-monthly", "a commit of each month")
	within(&p.WithinYearly, "-yearly", "a commit of each year")
	flags.StringArrayVar(&p.Tags, "keep-tag", nil, "keep commits with a tag that matches `PATTERN`, as in 'v*'; alone, keep tagged commits only")
	cli.Propose(env, cmd, "keep-tag", env.Complete(cli.Tags))
}

// checkOptions returns an error if options or arguments exclude each other.
func (o *expireOptions) checkOptions(args []string) error {
	if err := o.Policy.Check(); err != nil {
		return cli.Usagef("%w", err)
	}

	switch policy := !o.Policy.IsEmpty(); {
	case o.all && !o.undo:
		return cli.Usagef("--all needs --undo")
	case (o.undo || o.list) && policy:
		return cli.Usagef("--undo and --list apply no policy")
	case o.list && len(args) > 0:
		return cli.Usagef("one argument too many: %s", cli.QuoteArg(args[0]))
	case o.list:
	case o.undo && o.all == (len(args) > 0):
		return cli.Usagef("--undo needs REVs, or --all")
	case o.undo:
	case policy && len(args) > 0:
		return cli.Usagef("give either a policy or REVs")
	case len(args) > 0 && len(o.Branches) > 0:
		return cli.Usagef("--branch needs a policy")
	case !policy && len(args) == 0:
		return cli.Hintf(cli.Usagef("no --keep option is given"), "as in 'kist expire -n --keep-daily 7 --keep-weekly 4'")
	}
	return nil
}

func (o *expireOptions) run(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
	if err := o.checkOptions(args); err != nil {
		return err
	}

	switch {
	case o.list:
		return listExpired(ctx, env, r)
	case o.undo:
		return unexpire(ctx, env, r, args)
	}

	p := env.Progress("looking at commits")
	defer p.Stop()
	o.Revs = args
	result, err := retain.Expire(ctx, r, o.ExpireOptions)
	p.Stop()
	if err != nil {
		return err
	}
	if env.Global.JSON {
		env.JSON(newExpireJSON(result, o))
		return nil
	}
	printExpired(env, result, o.DryRun)
	return nil
}

// printExpired prints the number of expired commits. After a dry run, or with
// --verbose, it prints each of them.
func printExpired(env *cli.Env, result *retain.ExpireResult, dryRun bool) {
	if dryRun || env.Global.Verbose {
		for _, c := range merged(result.Expired, result.Kept) {
			verb, why := "expire", ""
			if len(c.Kept) > 0 {
				verb, why = "keep  ", " ("+strings.Join(c.Kept, ", ")+")"
			}
			env.Printf("%s %s %s %s%s\n", verb, env.Paint(cli.Yellow, c.ID.Short()), c.Commit.Committer.When().Format("2006-01-02 15:04"),
				cli.Printable(cli.Subject(c.Commit.Message)), cli.Printable(why))
		}
	}
	if len(result.Expired) == 0 {
		env.PrintOutcome("nothing to do\n")
		return
	}
	env.PrintOutcome("%s the content of %s", cli.Would(dryRun, "expired", "expire"), readable.Plural(uint64(len(result.Expired)), "commit", "commits"))
	if n := len(result.Kept); n > 0 {
		env.PrintOutcome(", kept that of %s", readable.FormatCount(uint64(n)))
	}
	env.PrintOutcome("\n")
	if !dryRun {
		env.Info("'kist gc' frees the space here, and 'kist push' and 'kist remote gc' on a remote; until then, 'kist expire --undo' undoes it")
	}
}

// merged merges two lists of commits. Each list, and the result, has the newest first.
func merged(a, b []retain.Considered) []retain.Considered {
	var out []retain.Considered
	for len(a) > 0 && len(b) > 0 {
		if a[0].Commit.Committer.Time.Compare(b[0].Commit.Committer.Time) >= 0 {
			out, a = append(out, a[0]), a[1:]
		} else {
			out, b = append(out, b[0]), b[1:]
		}
	}
	return append(append(out, a...), b...)
}

// unexpire undoes the expiration of commits, or without revs of all commits.
func unexpire(ctx context.Context, env *cli.Env, r *kist.Repository, revs []string) error {
	p := env.Progress("looking for content")
	defer p.Stop()
	restored, err := retain.Unexpire(ctx, r, revs)
	p.Stop()
	var gone *kist.GoneError
	if err != nil && !errors.As(err, &gone) {
		return err
	}
	if len(restored) > 0 || err == nil {
		env.PrintOrJSON(unexpiredJSON{append([]object.ID{}, restored...)},
			"brought back the content of %s\n", readable.Plural(uint64(len(restored)), "commit", "commits"))
	}
	if gone != nil && len(restored) > 0 {
		return &cli.Failure{Err: gone, Exit: cli.ExitPartial, Kind: "gone", Hints: []string{cli.HintGone}}
	}
	return err
}

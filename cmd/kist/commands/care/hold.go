package care

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/input"
	"github.com/kist-vcs/kist/cmd/kist/show"
	"github.com/kist-vcs/kist/gc/retain"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/record"
)

func NewHold(env *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "hold COMMAND",
		Short: "protect commits from expiry and gc",
		Long: `A held commit keeps its files: neither 'kist expire' nor 'kist gc' removes them,
here or on a remote, even if no branch or tag reaches the commit. 'kist push'
sends the holds of commits that the remote has, and 'kist fetch' receives them
with the content that they keep.`,
		Example: `  kist hold add v1.0 --reason 'delivered to the customer'
  kist hold list
  kist hold remove v1.0 --reason 'contract over'`,
	}
	cli.OpensRepository(cmd)
	cmd.AddCommand(newHoldAdd(env), show.NewHoldList(env), newHoldRemove(env))
	return cmd
}

type holdOptions struct {
	until  string
	reason string
}

func newHoldAdd(env *cli.Env) *cobra.Command {
	var o holdOptions
	cmd := &cobra.Command{
		Use:   "add [OPTIONS] REV",
		Short: "hold a commit",
		Long: `Holds the commit REV: its content, and the content of all commits before it that
has not expired. If the commit is held already, the new hold replaces the old
one. All content of REV must be here.

With --until, the hold ends at that time, such as 2027-01-31 or '2027-01-31
18:00', or after a duration, such as 90d, 6m or 1y6m. The next gc after that
time ends it, by the clock of its machine, and records that.`,
		Example: `  kist hold add HEAD
  kist hold add v1.0 --until 2y --reason 'guarantee'
  kist hold add 3fa9c1d2 --until 2027-01-31`,
		Args:              cli.Arguments(1, 1, "REV"),
		ValidArgsFunction: cli.CompleteNth(env.Complete(cli.Revisions)),
	}
	env.Prints(cmd, "", show.HoldJSON{})
	env.InRepository(cmd, o.run, cli.ExitBusy)
	flags := cmd.Flags()
	flags.StringVar(&o.until, "until", "", "hold until `TIME`, a date or a duration")
	flags.StringVar(&o.reason, "reason", "", "the reason, a `TEXT` that others see")
	return cmd
}

// endOfHold returns the end of a hold. It is zero if the hold has no end.
func (o *holdOptions) endOfHold(now time.Time) (time.Time, error) {
	if o.until == "" {
		return time.Time{}, nil
	}
	var at time.Time
	if d, err := retain.ParseDuration(o.until); err == nil {
		at = d.After(now)
	} else if at, err = refs.ParseTime(o.until, now); err != nil {
		return at, cli.Hintf(cli.Usagef("--until %s is neither a time nor a duration", cli.QuoteArg(o.until)), "write it as in 2027-01-31, '2027-01-31 18:00', 90d or 1y6m")
	}

	switch year := at.UTC().Year(); {
	case year > 9999:
		return at, cli.Usagef("--until %s is too far away", cli.QuoteArg(o.until))
	case !at.After(now):
		return at, cli.Usagef("--until %s is not in the future", cli.QuoteArg(o.until))
	}
	return at, nil
}

// checkReason returns an error if a record cannot have this reason.
func checkReason(reason string) error {
	if err := record.CheckText(reason); err != nil {
		return cli.Usagef("--reason: %w", err)
	}
	return nil
}

func (o *holdOptions) run(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
	until, err := o.endOfHold(env.Now())
	if err == nil {
		err = checkReason(o.reason)
	}
	if err != nil {
		return err
	}
	hold, err := retain.Hold(ctx, r, retain.HoldOptions{Rev: input.Previous(args[0]), Until: until, Reason: o.reason})
	if err != nil {
		return err
	}
	end := ""
	if !hold.Until.IsZero() {
		end = " until " + show.HoldTime(env, hold.Until)
	}
	env.PrintOrJSON(show.NewHoldJSON(env, hold), "holding %s%s\n", input.Describe(ctx, r, hold.Key.ID), end)
	return nil
}

func newHoldRemove(env *cli.Env) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:     "remove [OPTIONS] REV",
		Aliases: []string{"rm"},
		Short:   "remove a hold",
		Long: `Ends the hold of the commit REV. For a commit that is not here, REV is the first
digits of its ID. If the content of the commit has expired, or no branch or tag
reaches it, 'kist gc' can remove the content from then on.

The record of the hold stays: 'kist hold list --all' shows who ended it, when
and why.`,
		Example:           `  kist hold remove v1.0 --reason 'contract over'`,
		Args:              cli.Arguments(1, 1, "REV"),
		ValidArgsFunction: cli.CompleteNth(env.Complete(holds, cli.Revisions)),
	}
	env.Prints(cmd, "", show.HoldJSON{})
	env.InRepository(cmd, cli.FreesSpace(func(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
		return runHoldRemove(ctx, env, r, args[0], reason)
	}), cli.ExitBusy)
	cmd.Flags().StringVar(&reason, "reason", "", "the reason, a `TEXT` that others see")
	return cmd
}

func runHoldRemove(ctx context.Context, env *cli.Env, r *kist.Repository, rev, reason string) error {
	if err := checkReason(reason); err != nil {
		return err
	}
	was, hold, err := retain.Release(ctx, r, input.Previous(rev), reason)
	if err != nil {
		return err
	}
	if was.Who != hold.Who && was.Who != "" {
		env.Warn("this is somebody else's hold: held %s", show.HeldText(env, was))
	}
	env.PrintOrJSON(show.NewHoldJSON(env, hold), "no longer holding %s\n", show.DescribeHeld(ctx, env, r, hold.Key.ID))
	return nil
}

// holds proposes the IDs of commits that are held.
func holds(_ context.Context, _ *cli.Env, r *kist.Repository, prefix string) []string {
	set, err := r.Records().Load()
	if err != nil || prefix == "" {
		return nil
	}
	var list []string
	for _, id := range set.View().Holds() {
		if strings.HasPrefix(id.String(), prefix) {
			list = append(list, id.String())
		}
	}
	return list
}

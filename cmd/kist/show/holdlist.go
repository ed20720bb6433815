package show

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/input"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs/record"
)

func NewHoldList(env *cli.Env) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:     "list [OPTIONS]",
		Aliases: []string{"ls"},
		Short:   "list the holds",
		Long: `Lists the held commits, the latest hold first, with its time, person, end and
reason. --all adds ended holds; their time, name and reason are of the end.`,
		Example: `  kist hold list
  kist hold list --all --json`,
		Args:              cli.NoArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	env.Prints(cmd, "for each hold", HoldJSON{})
	env.InRepository(cmd, func(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
		return runHoldList(ctx, env, r, all)
	})
	cmd.Flags().BoolVarP(&all, "all", "a", false, "also holds that are over or were lifted")
	return cmd
}

// holdState returns the state of a hold: held, over, ended or lifted.
func holdState(hold record.Record, now time.Time) string {
	switch {
	case hold.Over(now):
		return "over"
	case hold.On:
		return "held"
	case !hold.Until.IsZero() && !hold.Time.Before(hold.Until):
		return "ended"
	}
	return "lifted"
}

// heldJSON describes a hold.
type heldJSON struct {
	Time   time.Time `json:"time" doc:"when the hold was made or changed"`
	Who    string    `json:"who" doc:"who made it"`
	Host   string    `json:"host" doc:"the machine where it was made"`
	Until  time.Time `json:"until,omitzero" doc:"when it ends"`
	Reason string    `json:"reason" doc:"why"`
}

func newHeldJSON(hold record.Record) *heldJSON {
	return &heldJSON{hold.Time, hold.Who, hold.Host, hold.Until, hold.Reason}
}

// HoldJSON is a hold as the hold commands print it with --json.
type HoldJSON struct {
	ID    object.ID `json:"id" doc:"the commit"`
	State string    `json:"state" doc:"held, over (its time has passed, and the next gc ends it), ended (by gc) or lifted (removed by somebody)"`
	*heldJSON
}

func NewHoldJSON(env *cli.Env, hold record.Record) HoldJSON {
	return HoldJSON{hold.Key.ID, holdState(hold, env.Now()), newHeldJSON(hold)}
}

// HoldTime returns the time of a hold as it is shown, in the user's zone.
func HoldTime(env *cli.Env, t time.Time) string {
	return t.In(env.Now().Location()).Format("2006-01-02 15:04")
}

// HeldText describes a hold: its time, its owner, its end and its reason.
func HeldText(env *cli.Env, hold record.Record) string {
	text := HoldTime(env, hold.Time)
	if hold.Who != "" {
		text += " by " + hold.Who
	}
	if hold.On && !hold.Until.IsZero() {
		text += ", until " + HoldTime(env, hold.Until)
	}
	if hold.Reason != "" {
		text += ": " + cli.Subject(hold.Reason)
	}
	return cli.Printable(text)
}

func runHoldList(ctx context.Context, env *cli.Env, r *kist.Repository, all bool) error {
	set, err := r.Records().Load()
	if err != nil {
		return err
	}
	now := env.Now()
	var list []record.Record
	for hold := range set.All() {
		if hold.Kind == record.Hold && (all || holdState(hold, now) == "held") {
			list = append(list, hold)
		}
	}
	slices.SortStableFunc(list, func(a, b record.Record) int { return b.Time.Compare(a.Time) })
	for _, hold := range list {
		if env.Global.JSON {
			env.JSON(NewHoldJSON(env, hold))
			continue
		}
		env.Printf("%s\n    %s %s\n", DescribeHeld(ctx, env, r, hold.Key.ID), holdState(hold, now), HeldText(env, hold))
	}
	return nil
}

// DescribeHeld is describe for a commit that may be missing.
func DescribeHeld(ctx context.Context, env *cli.Env, r *kist.Repository, id object.ID) string {
	if _, err := object.ReadCommit(ctx, r.Objects(), id); err != nil {
		return id.Short() + " (not here)"
	}
	return input.Describe(ctx, r, id)
}

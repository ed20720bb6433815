package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
)

type reflogOptions struct{ number int }

func newReflog(env *Env) *cobra.Command {
	o := reflogOptions{}
	cmd := &cobra.Command{
		Use:   "reflog [show] [OPTIONS] [REF]",
		Short: "show the earlier values of a branch or HEAD",
		Long: `Shows where REF, by default HEAD, has been, the latest first: the commit, how to
name it, and what moved REF there. What a commit, merge, reset or checkout left
behind can be found here, and brought back with 'kist branch NAME HEAD@{2}'.
-v adds when that was, and who did it.

With --json, one move a line: ref, index, id and old (null: the ref did not
exist), name, email, time, reason.`,
		Example: `  kist reflog              where HEAD was
  kist reflog -3 main      the last three moves of main
  kist show HEAD@{1}       where HEAD was before`,
		Args: func(cmd *cobra.Command, args []string) error {
			return arguments(0, 1)(cmd, afterShow(args))
		},
		ValidArgsFunction: env.complete(branches),
	}
	env.inRepository(cmd, o.run)
	registerCount(cmd, &o.number, "moves")
	return cmd
}

// afterShow returns the arguments without the word "show", with which git's
// command may begin.
func afterShow(args []string) []string {
	if len(args) > 0 && args[0] == "show" {
		return args[1:]
	}
	return args
}

// moveJSON is a move of a ref as reflog prints it with --json.
type moveJSON struct {
	Ref    string     `json:"ref"`
	Index  int        `json:"index"`
	ID     *object.ID `json:"id"`
	Old    *object.ID `json:"old"`
	Name   string     `json:"name"`
	Email  string     `json:"email"`
	Time   time.Time  `json:"time"`
	Reason string     `json:"reason"`
}

func (o *reflogOptions) run(ctx context.Context, env *Env, r *kist.Repository, args []string) error {
	shown := "HEAD"
	if args = afterShow(args); len(args) > 0 {
		shown = args[0]
	}
	name := "HEAD"
	if shown != name {
		var err error
		if name, err = r.Refs().Expand(ctx, shown); err != nil {
			return err
		}
	}
	// Damaged entries do not hide the others.
	entries, damage := r.Refs().Log(name)
	for i, entry := range entries {
		if i == o.number {
			break
		}
		if env.global.json {
			move := moveJSON{name, i, idOrNil(entry.New), idOrNil(entry.Old), entry.Who.Name, entry.Who.Email, entry.Time, entry.Reason}
			env.json(move)
			continue
		}
		env.printf("%s %s@{%d}: %s\n", env.paint(yellow, entry.New.Short()), quotePath(shown), i, printable(entry.Reason))
		if env.global.verbose {
			env.printf("         %s, %s\n", entry.Time.Format(gitTime), person(entryWho(entry)))
		}
	}
	return damage
}

func entryWho(e refs.LogEntry) object.Signature {
	return object.Signature{Name: e.Who.Name, Email: e.Who.Email}
}

func idOrNil(id object.ID) *object.ID {
	if id.IsZero() {
		return nil
	}
	return &id
}

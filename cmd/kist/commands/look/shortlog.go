package look

import (
	"cmp"
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree/look/log"
)

type shortlogOptions struct {
	numbered, summary, email bool
	group                    string
	logStarts
	logFilter
}

func NewShortlog(env *cli.Env) *cobra.Command {
	var o shortlogOptions
	cmd := &cobra.Command{
		Use:   "shortlog [OPTIONS] [REV | A..B]... [-- PATH...]",
		Short: "show who made which commits",
		Long: `Groups the commits that the REVs (by default HEAD) reach by their authors: for
each name the number of commits and their subjects, the oldest first. REVs,
PATHs and the options that select commits are those of 'kist log'.`,
		Example: `  kist shortlog -sn            who made how many commits
  kist shortlog v1..           the commits since v1, by author
  kist shortlog -se -- src     who worked on src`,
		ValidArgsFunction: env.CompleteUntilDash(cli.Revisions, cli.TrackedPaths),
	}
	env.Prints(cmd, "for each person", shortlogJSON{})
	env.InRepository(cmd, o.run)
	cli.PassesOverLost(cmd, env)
	flags := cmd.Flags()
	flags.BoolVarP(&o.numbered, "numbered", "n", false, "begin with the person with the most commits")
	flags.BoolVarP(&o.summary, "summary", "s", false, "show only the numbers of commits")
	flags.BoolVarP(&o.email, "email", "e", false, "show the addresses; a person with two of them counts as two")
	flags.Var(cli.NewChoice(&o.group, "author", "committer"), "group", "group commits by this person")
	o.logFilter.register(cmd)
	o.logStarts.register(cmd)
	return cmd
}

// shortlogJSON is a person as shortlog prints it with --json.
type shortlogJSON struct {
	Name     string   `json:"name" doc:"the person"`
	Email    string   `json:"email,omitempty" doc:"the e-mail address, with -e"`
	Commits  int      `json:"commits" doc:"the number of commits"`
	Subjects []string `json:"subjects,omitempty" doc:"the first lines of their messages, without -s"`
}

func (o *shortlogOptions) run(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
	opt, paths, err := o.startOptions(ctx, env, r, args, &o.logFilter)
	if err != nil {
		return err
	}
	if err := inHistory(ctx, env, r, opt, paths); err != nil {
		return err
	}
	who := func(c *object.Commit) object.Stamp { return c.Author }
	if o.group == "committer" {
		who = func(c *object.Commit) object.Stamp { return c.Committer }
	}
	persons, err := log.ByPerson(log.Commits(ctx, r, opt), who, o.email)
	if err != nil {
		return err
	}
	if o.numbered {
		slices.SortStableFunc(persons, func(a, b log.PersonCommits) int { return cmp.Compare(len(b.Subjects), len(a.Subjects)) })
	}

	for _, p := range persons {
		count, name := len(p.Subjects), cli.Printable(p.Name)
		if o.email {
			name += cli.Printable(" <" + p.Email + ">")
		}
		switch {
		case env.Global.JSON && o.summary:
			env.JSON(shortlogJSON{p.Name, p.Email, count, nil})
		case env.Global.JSON:
			env.JSON(shortlogJSON{p.Name, p.Email, count, p.Subjects})
		case o.summary:
			env.Printf("%6d\t%s\n", count, name)
		default:
			env.Printf("%s (%d):\n", name, count)
			for _, subject := range p.Subjects {
				env.Printf("      %s\n", cli.Printable(subject))
			}
			env.Printf("\n")
		}
	}
	return nil
}

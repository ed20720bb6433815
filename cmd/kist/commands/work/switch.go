package work

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/input"
	"github.com/kist-vcs/kist/refs"
)

func NewSwitch(env *cli.Env) *cobra.Command {
	var o checkoutOptions
	cmd := &cobra.Command{
		Use:   "switch [OPTIONS] BRANCH",
		Short: "switch to a branch",
		Long: `Switches to a branch, and updates the worktree. - is the previous branch. If
BRANCH does not exist, but one remote has it, kist creates it from there. With
--detach, the argument is any commit, and HEAD is on no branch afterwards. With
--create, the new branch begins at REV, by default at HEAD:

  kist switch -c NEW [REV]

Staged and local changes are kept or block the switch, as with 'kist checkout'.
An interrupted switch can be run again.`,
		Example: `  kist switch topic
  kist switch -c topic v1          make a branch at v1, and switch to it
  kist switch -                    go back to where you were before
  kist switch -d HEAD~3            look at an older commit`,
		Args: cli.Arguments(0, 1),
		ValidArgsFunction: cli.CompleteNth(func(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if o.detach || o.create+o.reset != "" {
				return env.Complete(cli.Revisions)(cmd, args, prefix)
			}
			return env.Complete(cli.Branches)(cmd, args, prefix)
		}),
	}
	env.Prints(cmd, "", switchedJSON{})
	env.InRepository(cmd, cli.NotBare(o.runSwitch), cli.ExitPartial, cli.ExitMoved, cli.ExitBusy)
	flags := cmd.Flags()
	flags.StringVarP(&o.create, "create", "c", "", "create the branch `NEW` at REV and switch to it")
	flags.StringVarP(&o.reset, "directory", "C", "", "like -c, but move a branch `NEW` that exists to REV")
	flags.StringVar(&o.reset, "force-create", "", "the same as -C `NEW`")
	flags.BoolVarP(&o.detach, "detach", "d", false, "switch to the commit, even if it is a branch")
	flags.BoolVarP(&o.force, "force", "f", false, "discard local changes and untracked files in the way")
	flags.BoolVar(&o.force, "discard-changes", false, "the same as --force")
	for _, name := range []string{"directory", "force-create"} {
		cmd.MarkFlagsMutuallyExclusive("create", name, "detach")
		cli.Propose(env, cmd, name, env.Complete(cli.Branches))
	}
	// The letter needs the name of kist's own option to stand in for it.
	flags.Lookup("force-create").Hidden = true
	flags.Lookup("directory").Name = "force-create"
	cli.RegisterSetID(env, cmd)
	return cmd
}

func (o *checkoutOptions) runSwitch(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
	rev := ""
	if len(args) > 0 {
		rev = input.Previous(args[0])
	}
	if o.create+o.reset == "" && !o.detach {
		if rev == "" {
			return cli.Hintf(cli.Usagef("BRANCH is missing"), "'kist branch' lists them")
		}
		if err := isBranch(ctx, r, rev); err != nil {
			return err
		}
	}
	return switchTo(ctx, env, r, *o, rev)
}

// isBranch returns an error if rev names no branch, here or on one remote.
func isBranch(ctx context.Context, r *kist.Repository, rev string) error {
	if _, err := r.Refs().Get(refs.Heads + rev); err == nil || input.IsUnborn(r, rev) || newRemoteBranch(ctx, r, rev) != "" {
		return nil
	}
	name, err := r.Refs().Expand(ctx, rev)
	if _, is := refs.BranchOf(name); err == nil && is {
		return nil
	}
	if err != nil && !errors.Is(err, refs.ErrNotFound) {
		return err
	}
	if _, err := r.Resolve(ctx, rev); err != nil {
		return cli.Hintf(err, "'kist switch -c %s' makes a branch of this name", cli.Printable(rev))
	}
	return cli.Hintf(cli.Failf(cli.ExitFailed, "not-a-branch", "%s is not a branch", cli.QuoteArg(rev)), "'kist switch -d %s' detaches HEAD at the commit", cli.Printable(rev))
}

package care

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/commands/share"
	"github.com/kist-vcs/kist/cmd/kist/readable"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/exchange"
	"github.com/kist-vcs/kist/remote/exchange/registry"
)

func newRemoteRename(env *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rename OLD NEW",
		Short: "rename a remote",
		Long: `Renames the remote OLD, with its remote-tracking branches and their logs. Local
branches that follow its branches still do. The store does not change. If the
command is interrupted, run it again: it does the rest.`,
		Example:           `  kist remote rename origin cloud`,
		Args:              cli.Arguments(2, 2, "OLD", "NEW"),
		ValidArgsFunction: cli.CompleteNth(env.Complete(share.Remotes), cobra.NoFileCompletions),
	}
	env.Prints(cmd, "", registry.Remote{})
	env.InRepository(cmd, runRemoteRename, cli.ExitBusy, cli.ExitMoved)
	return cmd
}

func runRemoteRename(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
	if err := registry.Rename(ctx, r, args[0], args[1]); err != nil {
		return err
	}
	m, err := registry.Find(r, args[1])
	env.JSON(redacted(m))
	return err
}

func newRemoteGetURL(env *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:               "get-url NAME",
		Short:             "print the URL of a remote",
		Long:              `Prints the URL of the remote NAME. A password in it is not shown.`,
		Example:           `  kist remote get-url origin`,
		Args:              cli.Arguments(1, 1, "NAME"),
		ValidArgsFunction: env.Complete(share.Remotes),
	}
	env.Prints(cmd, "", registry.Remote{})
	env.InRepository(cmd, func(_ context.Context, env *cli.Env, r *kist.Repository, args []string) error {
		m, err := registry.Find(r, args[0])
		if err != nil {
			return err
		}
		if env.JSON(redacted(m)); !env.Global.JSON {
			env.Printf("%s\n", cli.Printable(remote.Redact(m.URL)))
		}
		return nil
	})
	return cmd
}

func newRemoteSetURL(env *cli.Env) *cobra.Command {
	noCheck := false
	cmd := &cobra.Command{
		Use:   "set-url [OPTIONS] NAME URL",
		Short: "change the URL of a remote",
		Long: `Changes the URL of the remote NAME, for example because its folder has moved.
kist checks the store at the new URL, as 'kist remote add' does. If that
store has another remote, kist forgets the state of the old one, except for the
remote-tracking branches. If content is only on this remote, a warning says so.`,
		Example:           `  kist remote set-url origin /mnt/backup/photos`,
		Args:              cli.Arguments(2, 2, "NAME", "URL"),
		ValidArgsFunction: cli.CompleteNth(env.Complete(share.Remotes), cli.Folders),
	}
	env.Prints(cmd, "", remoteCheckedJSON{})
	env.InRepository(cmd, func(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
		return runRemoteSetURL(ctx, env, r, args, noCheck)
	}, cli.ExitBusy, cli.ExitRemote, cli.ExitCredentials)
	cmd.Flags().BoolVar(&noCheck, "no-check", false, "do not check or contact the store")
	return cmd
}

func runRemoteSetURL(ctx context.Context, env *cli.Env, r *kist.Repository, args []string, noCheck bool) error {
	m, err := registry.Find(r, args[0])
	if err != nil {
		return err
	}
	if m.URL, err = env.RemoteURL(args[1]); err != nil {
		return err
	}
	if err := registry.CheckURL(r, m); err != nil {
		return err
	}
	report, err := checkAdded(ctx, env, r, m, noCheck)
	if err != nil {
		return err
	}
	if err := registry.SetURL(ctx, r, m.Name, m.URL); err != nil {
		return err
	}
	env.JSON(newRemoteCheckedJSON(m, report))
	tellChecked(env, m, report)
	n, err := registry.OnlyOn(ctx, r, m.Name)
	if err == nil && n > 0 {
		env.Warn("%s only on this remote; 'kist verify' looks for them at the new URL", readable.Plural(uint64(n), "object of this repository is", "objects of this repository are"))
	}
	return err
}

func newRemotePrune(env *cli.Env) *cobra.Command {
	dryRun := false
	cmd := &cobra.Command{
		Use:   "prune [OPTIONS] NAME",
		Short: "remove the branches of a remote that are gone there",
		Long: `Removes the remote-tracking branches of the remote NAME whose branch is no
longer there. Nothing is fetched. 'kist fetch --prune' does both.`,
		Example: `  kist remote prune origin
  kist remote prune -n origin      only show them`,
		Args:              cli.Arguments(1, 1, "NAME"),
		ValidArgsFunction: env.Complete(share.Remotes),
	}
	env.Prints(cmd, "for each branch", prunedJSON{})
	env.InRepository(cmd, func(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
		return runRemotePrune(ctx, env, r, args[0], dryRun)
	}, cli.ExitBusy, cli.ExitMoved)
	cmd.Flags().BoolVarP(&dryRun, "dry-run", "n", false, "only show what would be removed")
	env.Transfer.Register(cmd)
	return cmd
}

// prunedJSON is a removed branch as remote prune prints it with --json.
type prunedJSON struct {
	Name  string    `json:"name" doc:"the branch on the remote"`
	Local string    `json:"local" doc:"the remote-tracking branch here"`
	ID    object.ID `json:"id" doc:"the commit that it was at"`
}

func runRemotePrune(ctx context.Context, env *cli.Env, r *kist.Repository, name string, dryRun bool) error {
	m, err := registry.Find(r, name)
	if err != nil {
		return err
	}
	gone, err := exchange.Prune(ctx, r, name, dryRun)
	if err != nil {
		return err
	}
	if len(gone) > 0 {
		env.PrintOutcome("Pruning %s\nURL: %s\n", cli.Printable(name), cli.Printable(remote.Redact(m.URL)))
	}
	for _, f := range gone {
		env.JSON(prunedJSON{f.Name, f.Local, f.Old})
		env.PrintOutcome(" * [%s] %s\n", cli.Would(dryRun, "pruned", "prune"), cli.Printable(f.Local[len(refs.Remotes):]))
	}
	return nil
}

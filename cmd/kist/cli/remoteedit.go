package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/exchange"
	"github.com/kist-vcs/kist/remote/exchange/registry"
)

func newRemoteRename(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rename OLD NEW",
		Short: "rename a remote",
		Long: `Renames the remote OLD, with its remote-tracking branches and their logs. Local
branches that follow its branches still do. The store does not change. If the
command is interrupted, run it again: it does the rest.

With --json: name, url, single_writer, object_lock.`,
		Example:           `  kist remote rename origin cloud`,
		Args:              arguments(2, 2, "OLD", "NEW"),
		ValidArgsFunction: completeNth(env.complete(remotes), cobra.NoFileCompletions),
	}
	env.inRepository(cmd, runRemoteRename, exitBusy, exitMoved)
	return cmd
}

func runRemoteRename(ctx context.Context, env *Env, r *kist.Repository, args []string) error {
	if err := registry.Rename(ctx, r, args[0], args[1]); err != nil {
		return err
	}
	m, err := registry.Find(r, args[1])
	env.json(redacted(m))
	return err
}

func newRemoteGetURL(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "get-url NAME",
		Short: "print the URL of a remote",
		Long: `Prints the URL of the remote NAME. A password in it is not shown.

With --json: name, url, single_writer, object_lock.`,
		Example:           `  kist remote get-url origin`,
		Args:              arguments(1, 1, "NAME"),
		ValidArgsFunction: env.complete(remotes),
	}
	env.inRepository(cmd, func(_ context.Context, env *Env, r *kist.Repository, args []string) error {
		m, err := registry.Find(r, args[0])
		if err != nil {
			return err
		}
		if env.json(redacted(m)); !env.global.json {
			env.printf("%s\n", printable(remote.Redact(m.URL)))
		}
		return nil
	})
	return cmd
}

func newRemoteSetURL(env *Env) *cobra.Command {
	noCheck := false
	cmd := &cobra.Command{
		Use:   "set-url [OPTIONS] NAME URL",
		Short: "change the URL of a remote",
		Long: `Changes the URL of the remote NAME, for example because its folder has moved.
kist checks the store at the new URL, as 'kist remote add' does. If that
store has another remote, kist forgets the state of the old one, except for the
remote-tracking branches. If content is only on this remote, a warning says so.

With --json: name, url, single_writer, object_lock, and checks as for
'kist remote check'.`,
		Example:           `  kist remote set-url origin /mnt/backup/photos`,
		Args:              arguments(2, 2, "NAME", "URL"),
		ValidArgsFunction: completeNth(env.complete(remotes), folders),
	}
	env.inRepository(cmd, func(ctx context.Context, env *Env, r *kist.Repository, args []string) error {
		return runRemoteSetURL(ctx, env, r, args, noCheck)
	}, exitBusy, exitRemote, exitCredentials)
	cmd.Flags().BoolVar(&noCheck, "no-check", false, "do not check or contact the store")
	return cmd
}

func runRemoteSetURL(ctx context.Context, env *Env, r *kist.Repository, args []string, noCheck bool) error {
	m, err := registry.Find(r, args[0])
	if err != nil {
		return err
	}
	if m.URL, err = env.remoteURL(args[1]); err != nil {
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
	env.json(newRemoteCheckedJSON(m, report))
	tellChecked(env, m, report)
	n, err := registry.OnlyOn(ctx, r, m.Name)
	if err == nil && n > 0 {
		env.warn("%s only on this remote; 'kist verify' looks for them at the new URL", plural(uint64(n), "object of this repository is", "objects of this repository are"))
	}
	return err
}

func newRemotePrune(env *Env) *cobra.Command {
	dryRun := false
	cmd := &cobra.Command{
		Use:   "prune [OPTIONS] NAME",
		Short: "remove the branches of a remote that are gone there",
		Long: `Removes the remote-tracking branches of the remote NAME whose branch is no
longer there. Nothing is fetched. 'kist fetch --prune' does both.

With --json, for each: name, local and id.`,
		Example: `  kist remote prune origin
  kist remote prune -n origin      only show them`,
		Args:              arguments(1, 1, "NAME"),
		ValidArgsFunction: env.complete(remotes),
	}
	env.inRepository(cmd, func(ctx context.Context, env *Env, r *kist.Repository, args []string) error {
		return runRemotePrune(ctx, env, r, args[0], dryRun)
	}, exitBusy, exitMoved)
	cmd.Flags().BoolVarP(&dryRun, "dry-run", "n", false, "only show what would be removed")
	env.transfer.register(cmd)
	return cmd
}

// prunedJSON is a removed branch as remote prune prints it with --json.
type prunedJSON struct {
	Name  string    `json:"name"`  // on the remote
	Local string    `json:"local"` // here
	ID    object.ID `json:"id"`
}

func runRemotePrune(ctx context.Context, env *Env, r *kist.Repository, name string, dryRun bool) error {
	m, err := registry.Find(r, name)
	if err != nil {
		return err
	}
	gone, err := exchange.Prune(ctx, r, name, dryRun)
	if err != nil {
		return err
	}
	if len(gone) > 0 {
		env.tell("Pruning %s\nURL: %s\n", printable(name), printable(remote.Redact(m.URL)))
	}
	for _, f := range gone {
		env.json(prunedJSON{f.Name, f.Local, f.Old})
		env.tell(" * [%s] %s\n", would(dryRun, "pruned", "prune"), printable(f.Local[len(refs.Remotes):]))
	}
	return nil
}

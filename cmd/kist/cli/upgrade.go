package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/gc/upgrade"
)

func newUpgrade(env *Env) *cobra.Command {
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "upgrade [OPTIONS]",
		Short: "bring the repository to the newest formats",
		Long: `Shows the version of each part of the repository, and converts the files that
have an older form. So far, all formats have one version. Only HEAD, branches
and tags can have an older form, without a checksum. kist reads their commits
before it adds one. An old file stays until the new one is on disk and verified.

A note about a remote can have an older form, too. Only the remote can confirm
its content, so 'kist fetch' converts it.

If a part has a later version than this kist knows, nothing changes.

With --json, for each part: name, files, version (the lowest), newest, and
convert (path, and todo: a command that does the rest).`,
		Example: `  kist upgrade -n
  kist upgrade`,
		Args:              noArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	env.inRepository(cmd, func(ctx context.Context, env *Env, r *kist.Repository, args []string) error {
		parts, err := upgrade.Run(ctx, r, dryRun)
		if err != nil {
			return err
		}
		for _, p := range parts {
			env.json(p)
			if p.Files == 0 || env.global.json {
				continue
			}
			env.printf("%s: %s, version %d, the newest is %d\n", p.Name, plural(uint64(p.Files), "file", "files"), p.Oldest, p.Newest)
			for _, f := range p.Convert {
				switch {
				case f.Todo != "":
					env.printf("  to convert with '%s': %s\n", printable(f.Todo), quotePath(f.Path))
				default:
					env.printf("  %s: %s\n", would(dryRun, "converted", "convert"), quotePath(f.Path))
				}
			}
		}
		return nil
	}, exitBusy)
	cmd.Flags().BoolVarP(&dryRun, "dry-run", "n", false, "only show what would be converted")
	return cmd
}

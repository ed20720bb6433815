package care

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/readable"
	"github.com/kist-vcs/kist/gc/upgrade"
)

func NewUpgrade(env *cli.Env) *cobra.Command {
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "upgrade [OPTIONS]",
		Short: "bring the repository to the newest formats",
		Long: `Shows the version of each part of the repository, and converts the files that
have an older form. So far, all formats have one version. Only HEAD, branches
and tags can lack a checksum, if another program wrote them. kist reads their
commits before it adds one. An old file stays until the new one is on disk and
verified.

If a part has a later version than this kist knows, nothing changes.`,
		Example: `  kist upgrade -n
  kist upgrade`,
		Args:              cli.NoArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	env.Prints(cmd, "for each format", upgrade.Part{})
	env.InRepository(cmd, func(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
		parts, err := upgrade.Run(ctx, r, dryRun)
		if err != nil {
			return err
		}
		for _, p := range parts {
			env.JSON(p)
			if p.Files == 0 || env.Global.JSON {
				continue
			}
			env.Printf("%s: %s, version %d, the newest is %d\n", p.Name, readable.Plural(uint64(p.Files), "file", "files"), p.Oldest, p.Newest)
			for _, f := range p.Convert {
				env.Printf("  %s: %s\n", cli.Would(dryRun, "converted", "convert"), cli.QuotePath(f.Path))
			}
		}
		return nil
	}, cli.ExitBusy)
	cmd.Flags().BoolVarP(&dryRun, "dry-run", "n", false, "only show what would be converted")
	return cmd
}

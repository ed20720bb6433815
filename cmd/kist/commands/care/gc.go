// Package care has the commands that back up, and that look after a repository and its remotes.
package care

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/readable"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/remote/exchange"
)

type gcOptions struct {
	gc.PlanOptions
	auto bool
}

func NewGC(env *cli.Env) *cobra.Command {
	var o gcOptions
	cmd := &cobra.Command{
		Use:   "gc [OPTIONS]",
		Short: "remove unreferenced data",
		Long: `Deletes objects that are unreachable, and frees their disk space. It keeps
everything that HEAD, branches, tags, remote-tracking branches, reflogs, holds,
the index, or a merge or revert in progress refers to. It also keeps all data
stored in the last two weeks (--prune). Reflog entries expire first: after 90
days, or after 30 if the commit is unreachable (gc.reflog-expire and
gc.reflog-expire-unreachable). 'kist remote gc NAME' cleans up a remote.

Volumes without live objects are deleted. Live objects are copied out of others
until at most 5% of the remaining data is garbage (--max-waste). gc stops if a
reachable object is missing or damaged.

--repack compresses as much as possible: it stores similar objects, such as the
versions of a file, as differences. This takes long, and reading gets a little
slower. Data that is already repacked is skipped.

Other commands can run meanwhile. Commands that write start 'kist gc --auto' in
the background, which also repacks data older than two weeks once there is
enough of it (gc.auto-repack). Set gc.auto to false to stop that, or
KIST_GC_AUTO to 0 in the environment.`,
		Example: `  kist gc -n
  kist gc
  kist gc --prune now --max-waste 0
  kist gc --repack`,
		Args:              cli.NoArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	env.Prints(cmd, "", gcJSON{})
	env.InRepository(cmd, cli.FreesSpace(o.run), cli.ExitBusy)
	flags := cmd.Flags()
	flags.BoolVarP(&o.DryRun, "dry-run", "n", false, "only show what would be deleted")
	flags.Var(cli.NewParsed(&o.PruneOlder, "14d", refs.ParseAge), "prune", "keep data stored within `AGE`: 14d, '2 weeks', now")
	flags.Var(cli.NewParsed(&o.MaxWaste, "5%", parseWaste), "max-waste", "leave at most `N%` of garbage")
	flags.BoolVar(&o.Repack, "repack", false, "store similar objects as differences")
	flags.BoolVar(&o.auto, "auto", false, "only if there is enough to do; print nothing")
	flags.BoolVar(&o.SingleHost, "single-host", false, "work on a network file system that no other machine uses now")
	cmd.MarkFlagsMutuallyExclusive("auto", "dry-run")
	cmd.MarkFlagsMutuallyExclusive("auto", "repack")
	return cmd
}

// gcJSON is what gc prints with --json.
type gcJSON struct {
	DryRun bool `json:"dry_run" doc:"true with --dry-run"`
	gc.Stats
	Freed int64 `json:"bytes_freed" doc:"the difference of the two sizes"`
}

// parseWaste returns a percentage as a number from 0 to 1.
func parseWaste(text string) (float64, error) {
	percent, err := strconv.ParseFloat(strings.TrimSuffix(text, "%"), 64)
	if err != nil || !(percent >= 0 && percent <= 100) {
		return 0, errors.New("not a share from 0% to 100%")
	}
	return percent / 100, nil
}

func (o *gcOptions) run(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
	if o.auto {
		return errors.Join(gc.CollectDue(ctx, r, o.PlanOptions), exchange.MaintainAway(ctx, r))
	}
	p := env.Progress("collecting garbage")
	defer p.Stop()
	o.Progress = func(done, total int64) {
		p.SetTotal(0, uint64(total))
		p.SetDone(0, uint64(done))
	}
	stats, err := gc.Collect(ctx, r, o.PlanOptions)
	p.Stop()
	if errors.Is(err, errors.ErrUnsupported) {
		return cli.Hintf(err, "--single-host does it, if no other machine uses the repository now")
	}
	if cli.IsA[*gc.NeededError](err) && !errors.Is(err, object.ErrNewerFormat) {
		return cli.Hintf(err, "no reachable object was deleted; 'kist verify' shows the damage, and gc works again after 'kist verify --repair'")
	}
	if err != nil {
		return err
	}
	env.JSON(gcJSON{o.DryRun, stats, stats.Before - stats.After})
	printGC(env, stats, o.DryRun)
	return nil
}

// tellFreed prints the deleted things, and the space before and after.
func tellFreed(env *cli.Env, dryRun bool, deleted string, before, after int64) {
	env.PrintOutcome("%s %s, %s %s; %s left\n", cli.Would(dryRun, "deleted", "delete"), deleted,
		cli.Would(dryRun, "freed", "free"), readable.FormatSize(uint64(max(0, before-after))), readable.FormatSize(uint64(after)))
}

// repackedText returns the number of volumes or packs that were repacked, or would be.
func repackedText(what string, n int, bytes, patches int64, dryRun bool) string {
	text := cli.Would(dryRun, "repacked", "repack") + " " + readable.Plural(uint64(n), what, what+"s")
	if dryRun {
		return text + " of " + readable.FormatSize(uint64(bytes))
	}
	return text + ": " + readable.Plural(uint64(patches), "object", "objects") + " stored as differences"
}

func printGC(env *cli.Env, st gc.Stats, dryRun bool) {
	if st.Salvaged > 0 {
		env.PrintOutcome("%s %s\n", cli.Would(dryRun, "recovered", "recover"), readable.Plural(uint64(st.Salvaged), "interrupted write", "interrupted writes"))
	}
	if st.Repacked > 0 {
		env.PrintOutcome("%s\n", repackedText("volume", st.Repacked, st.RepackedBytes, st.Patches, dryRun))
	}
	if st.Rewritten+st.Deleted+st.Repacked == 0 && st.Before == st.After {
		if st.Salvaged == 0 {
			env.PrintOutcome("nothing to do\n")
		}
		return
	}
	tellFreed(env, dryRun, readable.Plural(uint64(st.Removed), "object", "objects"), st.Before, st.After)
}

package care

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/commands/share"
	"github.com/kist-vcs/kist/cmd/kist/input"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/remote/exchange"
)

type evictOptions struct {
	exchange.EvictOptions
	older time.Duration
	keep  uint64
}

func NewEvict(env *cli.Env) *cobra.Command {
	var o evictOptions
	cmd := &cobra.Command{
		Use:   "evict [OPTIONS] [REV[:PATH]] [-- PATH...]",
		Short: "give content away that a remote keeps",
		Long: `Removes content from this repository that a remote has, and frees its disk
space. A command that needs the content reads it from the remote. The files in
the worktree stay, and so does the history: 'kist log', 'kist status' and 'kist
ls' need no remote. Without arguments, the content of all files of 1 MiB or more
in pushed commits is given away. With a PATH, that of these files and folders,
also of smaller files, by default in HEAD.

A file of 1 MiB or more in the worktree is then the only copy here. kist reads
its content while the file is unchanged, and otherwise asks the remote.

First, kist makes a keep ref on the remote: refs/keep/ID, a commit that leads to
everything that is away. Nobody else uses it, and while the remote has it,
'kist remote gc' deletes none of that content there, even if others delete the
branches. 'kist remote show NAME' lists the keep refs. Then kist reads the head
of the remote. A chunk is given away only if the keep ref leads to it, and the
file that has it is there with its size. --verify also reads each chunk.

Content stays if it was not pushed, or if a hold protects it here and not on the
remote; and so do damaged volumes, and volumes that another command is writing.
--copies 2 demands two different remotes (local.copies).

With local.limit, a push gives content away until about SIZE is left here, the
oldest first, and so does 'kist gc --auto'.`,
		Example: `  kist evict
  kist evict -n film
  kist evict --older 30d
  kist evict --keep-local 20GB
  kist config local.limit 20GB`,
		ValidArgsFunction: env.CompleteUntilDash(input.TreePaths),
	}
	env.Prints(cmd, "", evictJSON{})
	env.InRepository(cmd, cli.FreesSpace(o.run), cli.ExitBusy, cli.ExitRemote, cli.ExitCredentials)
	flags := cmd.Flags()
	flags.StringVar(&o.Remote, "remote", "", "begin with the remote `NAME`")
	flags.IntVar(&o.Copies, "copies", 0, "demand `N` remotes that keep the content (default 1)")
	flags.Lookup("copies").DefValue = ""
	flags.Var(cli.NewParsed(&o.older, "", refs.ParseAge), "older", "only content stored more than an `AGE` ago: 30d, 2w")
	flags.Var(cli.NewParsed(&o.keep, "", kist.ParseSize), "keep-local", "stop when about `SIZE` is left here")
	flags.BoolVar(&o.Verify, "verify", false, "read and check each chunk on each remote before")
	flags.BoolVarP(&o.DryRun, "dry-run", "n", false, "only show how much would be given away")
	cli.Propose(env, cmd, "remote", env.Complete(share.Remotes))
	env.Transfer.Register(cmd)
	return cmd
}

// evictJSON is what evict prints with --json.
type evictJSON struct {
	DryRun bool `json:"dry_run" doc:"true with --dry-run"`
	gc.EvictStats
	Freed   int64    `json:"bytes_freed" doc:"the bytes that were freed here"`
	Left    int64    `json:"bytes_left" doc:"the bytes that are left here"`
	Remotes []string `json:"remotes" doc:"the remotes that keep the content"`
}

func (o *evictOptions) run(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
	all, _, err := input.LocateAll(ctx, env, r, args)
	if len(args) == 0 {
		all = nil
	} else if err != nil {
		return err
	}
	for _, at := range all {
		if !at.Entry.Content.IsZero() {
			o.Below = append(o.Below, at.Entry.Content)
		}
	}
	if len(all) > 0 && len(o.Below) == 0 {
		env.JSON(evictJSON{DryRun: o.DryRun, Remotes: []string{}})
		env.PrintOutcome("nothing to do\n")
		return nil
	}
	if o.older > 0 {
		o.Before = r.Options().Now().Add(-o.older)
	}
	if _, copies := exchange.LocalLimit(r); o.Copies == 0 {
		o.Copies = copies
	}
	o.Limit, o.Jobs = int64(o.keep), env.Transfer.Jobs

	p := env.Progress("giving content away")
	defer p.Stop()
	o.Progress = func(bytes int64) { p.SetDone(0, uint64(bytes)) }
	result, err := exchange.Evict(ctx, r, o.EvictOptions)
	p.Stop()
	if errors.Is(err, errors.ErrUnsupported) {
		return cli.Hintf(err, "run it on the machine with the disk")
	}
	if err != nil {
		return err
	}
	out := evictJSON{o.DryRun, result.EvictStats, result.Freed, result.Left, result.Remotes}
	if out.Remotes == nil {
		out.Remotes = []string{}
	}
	env.JSON(out)
	share.PrintEvicted(env, r, result, o.DryRun)
	if !o.DryRun {
		share.WarnSmall(env, result, o.Limit)
	}
	return nil
}

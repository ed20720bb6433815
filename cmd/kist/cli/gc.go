package cli

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs"
)

type gcOptions struct {
	transferOptions
	remote remoteGCOptions

	dryRun     bool
	pruneOlder string
	maxWaste   string
	optimise   bool
	auto       bool
	singleHost bool
}

func newGC(env *Env) *cobra.Command {
	var o gcOptions
	cmd := &cobra.Command{
		Use:   "gc [OPTIONS]",
		Short: "remove unreferenced data",
		Long: `Removes stored objects that nobody can reach any more, and makes the disk space
free. Kept is all that HEAD, branches, tags, remote-tracking branches, their
logs, holds, what is staged and a merge or revert under way refer to; and
whatever was stored in the last two weeks (--prune-older), since it may belong
to a command that is still at work, or was interrupted and will be run again.
Holds that are over end. Entries of logs are
removed after 90 days, those of commits that no branch or tag has after 30
(gc.reflogExpire and gc.reflogExpireUnreachable in the configuration).

Volumes in which nothing is needed are removed. Of others, the worst are
replaced by a copy of what is needed in them, until at most 5% of what is left
is garbage (--max-waste). Each copied object is hashed when it is read and once
more after it was written. Small volumes are merged if there are many. If
anything that is needed is found to be missing or damaged, gc stops and removes
no more.

With --optimise, objects are then stored smaller: those that are much like
others, such as versions of a file, as the difference from these, and all others
compressed as well as can be. That takes longer than anything else gc does, and
reading takes a little longer from then on. What is optimised already, and
media, are left alone; what was stored since is done together with what it fits
to.

Other commands can run meanwhile. Commands that write start 'kist gc --auto' in
the background when there is something to do. 'kist config gc.auto false' stops
that, and so does KIST_GC_AUTO=0 in the environment. It optimises what is older
than two weeks when that is 16 MiB or more (gc.autoOptimise in the
configuration: a size, or false).

With --remote, collects the garbage of a remote instead: what none of its
branches and tags leads to. Packs in which nothing is needed are condemned: they
count no more, and are deleted by a gc a day later (--grace), since somebody may
be reading them. Packs that are partly garbage (--max-waste) or small and many
are replaced by copies of what is needed in them. After 30 days (--delist-after)
the remote's log forgets deleted files; a push that began before then begins
anew. What uploads left that were never finished is condemned when it is 30 days
old (--orphan-age). Others can push, fetch and collect garbage meanwhile. With
--optimise, packs are stored smaller, too: those of nodes, and those of which
much is compressed.

With --json: dry_run, objects_live, objects_removed, bytes_before, bytes_after,
bytes_freed; and salvaged (interrupted writes taken over), merged (volumes that
were replaced), written (volumes that replace them), deleted (volumes in which
nothing was needed). Of a remote: packs (before), condemned, bytes_condemned,
repacked, written, indexes (replaced index files), deleted, delisted, waiting,
bytes_waiting and next_delete (of condemned files that are not old enough to be
deleted). Of both: optimised (volumes or packs that were), bytes_optimised (in
them before) and patches (objects stored as differences).`,
		Example: `  kist gc --dry-run
  kist gc
  kist gc --prune-older now --max-waste 0
  kist gc --optimise
  kist gc --remote origin
  kist gc --remote origin --optimise`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(cmd.Flags()); err != nil {
				return err
			}
			if o.remote.name != "" {
				return runRemoteGC(cmd.Context(), env, o)
			}
			return runGC(cmd.Context(), env, o)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	inRepository(cmd)
	mayExit(cmd, exitBusy)
	flags := cmd.Flags()
	flags.BoolVarP(&o.dryRun, "dry-run", "n", false, "only tell what would be removed")
	flags.StringVar(&o.pruneOlder, "prune-older", "14d", "keep what was stored within `AGE`: 14d, '2 weeks', now")
	flags.StringVar(&o.maxWaste, "max-waste", "5%", "leave at most `N%` of garbage")
	flags.BoolVar(&o.optimise, "optimise", false, "store what is alike as differences")
	flags.BoolVar(&o.auto, "auto", false, "only if there is much to do, and nobody else is at it; say nothing")
	flags.BoolVar(&o.singleHost, "single-host", false, "work on a network file system, which no other machine uses now")
	o.remote.register(cmd, env)
	o.register(cmd)
	for _, name := range []string{"prune-older", "max-waste"} {
		must(cmd.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions))
	}
	return cmd
}

// gcJSON is what gc prints with --json.
type gcJSON struct {
	DryRun   bool  `json:"dry_run"`
	Live     int64 `json:"objects_live"`
	Removed  int64 `json:"objects_removed"`
	Before   int64 `json:"bytes_before"`
	After    int64 `json:"bytes_after"`
	Freed    int64 `json:"bytes_freed"`
	Salvaged int   `json:"salvaged"`
	Merged   int   `json:"merged"`
	Written  int   `json:"written"`
	Deleted  int   `json:"deleted"`

	Optimised      int   `json:"optimised"`
	OptimisedBytes int64 `json:"bytes_optimised"`
	Patches        int64 `json:"patches"`
}

// plan returns what the options say of a plan.
func (o gcOptions) plan() (gc.PlanOptions, error) {
	p := gc.PlanOptions{SingleHost: o.singleHost, DryRun: o.dryRun, Optimise: o.optimise}
	var err error
	if p.PruneOlder, err = refs.ParseAge(o.pruneOlder); err != nil {
		return p, usagef("--prune-older %s: %w", quoteArg(o.pruneOlder), err)
	}
	p.MaxWaste, err = o.waste()
	return p, err
}

// waste returns the share that may be garbage.
func (o gcOptions) waste() (float64, error) {
	percent, err := strconv.ParseFloat(strings.TrimSuffix(o.maxWaste, "%"), 64)
	if err != nil || !(percent >= 0 && percent <= 100) {
		return 0, usagef("--max-waste %s is not a share from 0%% to 100%%", quoteArg(o.maxWaste))
	}
	return percent / 100, nil
}

func runGC(ctx context.Context, env *Env, o gcOptions) error {
	if o.auto && o.dryRun {
		return usagef("--auto and --dry-run do not go together")
	}
	if o.auto && o.optimise {
		return usagef("--auto and --optimise do not go together: --auto decides itself")
	}
	plan, err := o.plan()
	if err != nil {
		return err
	}
	r, err := env.open()
	if err != nil {
		return err
	}
	defer r.Close()
	if o.auto {
		err = autoGC(ctx, r, plan)
		if errors.Is(err, disk.ErrBusy) || errors.Is(err, errors.ErrUnsupported) {
			return nil
		}
		return errors.Join(err, gc.NoteAuto(r, err))
	}
	stats, err := env.collect(ctx, r, plan)
	if errors.Is(err, errors.ErrUnsupported) {
		return hintf(err, "--single-host does it, if no other machine uses the repository now")
	}
	if isA[*gc.NeededError](err) {
		return hintf(err, "nothing was removed that is needed; 'kist verify' tells what is damaged, and until it is repaired nothing can be collected")
	}
	if err != nil {
		return err
	}
	if env.global.json {
		return env.json(gcJSON{o.dryRun, stats.Live, stats.Removed, stats.Before, stats.After, stats.Before - stats.After,
			stats.Salvaged, stats.Rewritten, stats.Written, stats.Deleted, stats.Optimised, stats.OptimisedBytes, stats.Patches})
	}
	env.printGC(stats, o.dryRun)
	return nil
}

// autoGC does what is due.
func autoGC(ctx context.Context, r *kist.Repository, o gc.PlanOptions) error {
	if r.Objects().NeedsMaintenance() {
		if _, err := r.Objects().Maintain(ctx, volume.MaintainOptions{SingleHost: o.SingleHost}); err != nil {
			return err
		}
	}
	if !gc.IsDue(r) {
		return nil
	}
	o.Idle = true
	var err error
	if o.Optimise, o.MinOptimise, err = r.Config().AutoOptimise(); err != nil {
		return err
	}
	plan, err := gc.PlanFor(ctx, r, o)
	if err == nil {
		err = plan.Apply(ctx)
		plan.Close()
	}
	if isA[*gc.NeededError](err) { // or each command that writes would begin it again
		err = errors.Join(err, gc.PutOff(ctx, r))
	}
	return err
}

// collect merges small volumes if there are many, makes a plan, and applies it,
// unless nothing is to be done.
func (e *Env) collect(ctx context.Context, r *kist.Repository, o gc.PlanOptions) (gc.Stats, error) {
	p := e.progress("collecting garbage")
	defer p.Stop()
	o.Progress = func(done, total int64) {
		p.Total(0, uint64(total))
		p.Set(0, uint64(done))
	}
	var merged volume.MaintainStats
	before, err := r.Objects().Size(ctx)
	if err == nil && !o.DryRun {
		merged, err = r.Objects().Maintain(ctx, volume.MaintainOptions{SingleHost: o.SingleHost})
	}
	if err != nil {
		return gc.Stats{}, err
	}
	plan, err := gc.PlanFor(ctx, r, o)
	if err != nil {
		return gc.Stats{}, err
	}
	defer plan.Close()
	if !o.DryRun {
		err = plan.Apply(ctx)
	}
	st := plan.Stats()
	st.Before = before
	st.Salvaged += merged.Salvaged
	st.Rewritten += merged.Merged
	st.Written += merged.Written
	return st, err
}

// printOptimised tells how many volumes or packs were optimised, or would be.
func (e *Env) printOptimised(what string, n int, bytes, patches int64, dryRun bool) {
	text := plural(uint64(n), what, what+"s")
	if dryRun {
		e.tell("would optimise %s of %s\n", text, formatSize(uint64(bytes)))
	} else {
		e.tell("optimised %s: %s stored as differences\n", text, plural(uint64(patches), "object", "objects"))
	}
}

func (e *Env) printGC(st gc.Stats, dryRun bool) {
	if st.Salvaged > 0 {
		took := "took"
		if dryRun {
			took = "would take"
		}
		e.tell("%s over %s\n", took, plural(uint64(st.Salvaged), "interrupted write", "interrupted writes"))
	}
	if st.Optimised > 0 {
		e.printOptimised("volume", st.Optimised, st.OptimisedBytes, st.Patches, dryRun)
	}
	if st.Rewritten+st.Deleted+st.Optimised == 0 && st.Before == st.After {
		if st.Salvaged == 0 {
			e.tell("nothing to do\n")
		}
		return
	}
	removed, freed := "removed", "freed"
	if dryRun {
		removed, freed = "would remove", "would free"
	}
	freedBytes := uint64(max(0, st.Before-st.After))
	e.tell("%s %s, %s %s; %s left\n", removed, plural(uint64(st.Removed), "object", "objects"),
		freed, formatSize(freedBytes), formatSize(uint64(st.After)))
}

package care

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/commands/share"
	"github.com/kist-vcs/kist/cmd/kist/readable"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/remote/collect"
)

type remoteGCOptions struct {
	collect.Options
	grace   *cli.Parsed[time.Duration]
	keepAge time.Duration
}

func newRemoteGC(env *cli.Env) *cobra.Command {
	o := remoteGCOptions{Options: gc.DefaultRemoteOptions}
	cmd := &cobra.Command{
		Use:   "gc [OPTIONS] NAME",
		Short: "remove unreferenced data from a remote",
		Long: `Deletes data that no branch, tag or hold of the remote reaches. This takes two
runs, because another clone may be reading the data. The first run marks files
for deletion, and a run at least a day later (--grace) deletes them. Use --grace
now if no other clone is fetching or pushing: it deletes at once, also
unfinished uploads, which otherwise stay for 30 days.

Packs that are partly garbage are rewritten: copies of their live objects
replace them, until at most 5% is garbage (--max-waste). Small packs are merged.

--repack compresses as much as possible: it stores similar objects, such as the
versions of a file, as differences. It downloads the packs that it replaces.

--rekey encrypts everything of an encrypted remote with the newest key, except
the log of past changes, which has names of branches. Removed recipients can
read no older content once the marked files are deleted. It downloads the files
that it replaces.

A keep ref holds what another repository has given away (see 'kist help
evict'). It is renewed monthly, and deleted after a year without (--keep-age).

On a remote with --object-lock, marked files stay until their locks have ended.
Archived packs (see 'kist help thaw') stay until half of each is garbage, and
then until the store has thawed them.

Others can push, fetch and run gc meanwhile: they lose nothing, and at worst
send or fetch some data twice. remote gc needs permission to delete. It stops if
a reachable object is missing or damaged.`,
		Example: `  kist remote gc -n origin
  kist remote gc origin
  kist remote gc --grace now origin
  kist remote gc --repack origin`,
		Args:              cli.Arguments(1, 1, "NAME"),
		ValidArgsFunction: env.Complete(share.Remotes),
	}
	env.Prints(cmd, "", remoteGCJSON{})
	env.InRepository(cmd, o.run, cli.ExitRemote, cli.ExitCredentials)
	flags := cmd.Flags()
	flags.BoolVarP(&o.DryRun, "dry-run", "n", false, "only show what would be marked and deleted")
	o.grace = cli.NewParsed(&o.Grace, "1d", refs.ParseAge)
	flags.Var(o.grace, "grace", "delete files marked `AGE` ago: 1d, 2w, 36h, now")
	o.keepAge = gc.DefaultKeepAge
	flags.Var(cli.NewParsed(&o.keepAge, "1y", refs.ParseAge), "keep-age", "delete keep refs that were not renewed for an `AGE`")
	flags.Var(cli.NewParsed(&o.MaxWaste, "5%", parseWaste), "max-waste", "leave at most `N%` of garbage")
	flags.BoolVar(&o.Repack, "repack", false, "store similar objects as differences")
	flags.BoolVar(&o.Rekey, "rekey", false, "encrypt older content of an encrypted remote with the newest key")
	env.Transfer.Register(cmd)
	return cmd
}

// remoteGCJSON is the JSON of remote gc.
type remoteGCJSON struct {
	DryRun bool `json:"dry_run" doc:"true with --dry-run"`
	collect.Stats
	Freed      int64      `json:"bytes_freed" doc:"the difference of the two sizes"`
	NextDelete *time.Time `json:"next_delete" doc:"when the first of these files is due; null: there are none"`

	LockedUntil *time.Time `json:"locked_until,omitempty" doc:"when the last of these locks ends"`
}

// run collects the garbage of a remote.
func (o *remoteGCOptions) run(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
	name, err := share.RemoteArg(env, r, args[0])
	if err != nil {
		return err
	}
	if o.Grace <= 0 { // no other client uses the remote, and no push continues
		o.ForgetAfter, o.PruneAge = 0, 0
	}

	p := env.Progress("collecting garbage of " + name)
	defer p.Stop()
	o.Progress = p.Transferred()
	st, err := gc.CollectRemote(ctx, r, name, o.keepAge, o.Options)
	p.Stop()
	if err != nil {
		return collectionFailed(name, err)
	}
	out := remoteGCJSON{DryRun: o.DryRun, Stats: st, Freed: st.Before - st.After}
	if !st.Next.IsZero() {
		next := object.Writable(st.Next.UTC().Truncate(time.Second))
		out.NextDelete = &next
	}
	if st.Locked > 0 {
		until := object.Writable(st.LockedUntil.UTC())
		out.LockedUntil = &until
	}
	env.JSON(out)
	printRemoteGC(env, name, st, o)
	return nil
}

// collectionFailed adds advice to the error of a collection of a remote.
func collectionFailed(name string, err error) error {
	if cli.IsA[*collect.NeededError](err) && !errors.Is(err, object.ErrNewerFormat) {
		return cli.Hintf(err, "nothing was deleted; 'kist verify --remote %s' shows the damage, and gc works again after '--repair'", name)
	}
	return err
}

// printRemoteGC prints the effect of a collection.
func printRemoteGC(env *cli.Env, name string, st collect.Stats, o *remoteGCOptions) {
	files := func(n int, bytes int64) string {
		return readable.Plural(uint64(n), "file", "files") + " with " + readable.FormatSize(uint64(bytes))
	}
	if st.Repacked > 0 {
		env.PrintOutcome("%s\n", repackedText("pack", st.Repacked, st.RepackedBytes, st.Patches, o.DryRun))
	}
	if st.Condemned > 0 {
		text := ""
		if st.Rewritten > 0 {
			text = "; " + cli.Would(o.DryRun, "rewrote", "rewrite") + " " + readable.Plural(uint64(st.Rewritten), "pack", "packs")
		}
		env.PrintOutcome("%s %s for deletion: %s%s\n", cli.Would(o.DryRun, "marked", "mark"), files(st.Condemned, st.CondemnedBytes),
			readable.Plural(uint64(st.Removed), "unreferenced object", "unreferenced objects"), text)
	}

	switch {
	case st.Deleted > 0:
		tellFreed(env, o.DryRun, readable.Plural(uint64(st.Deleted), "file", "files"), st.Before, st.After)
	case st.Condemned+st.Waiting+st.Locked == 0:
		env.PrintOutcome("nothing to do\n")
	}
	if st.Locked > 0 {
		env.PrintOutcome("%s locked until %s: gc deletes them after that\n", files(st.Locked, st.LockedBytes), st.LockedUntil.Local().Format("2006-01-02 15:04"))
	}
	if st.Archived > 0 {
		env.PrintOutcome("left %s in the archive: gc rewrites them when the store has thawed them, see 'kist help thaw'\n", files(st.Archived, st.ArchivedBytes))
	}
	if st.Waiting > 0 {
		again := "kist remote gc"
		if o.Grace != collect.DefaultGrace {
			again += " --grace " + o.grace.Text
		}
		due := ""
		if !st.Next.IsZero() {
			due = ", due " + st.Next.Local().Format("2006-01-02 15:04")
		}
		env.PrintOutcome("%s marked for deletion%s: run '%s %s' then\n", files(st.Waiting, st.WaitingBytes), due, again, name)
	}
}

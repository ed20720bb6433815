package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/remote/registry"
	"github.com/kist-vcs/kist/remote/transfer"
)

// remoteGCOptions are the options of gc that are for a remote only.
type remoteGCOptions struct {
	name                          string
	grace, delistAfter, orphanAge string
}

func (o *remoteGCOptions) register(cmd *cobra.Command, env *Env) {
	flags := cmd.Flags()
	flags.StringVar(&o.name, "remote", "", "collect the garbage of the remote `NAME`")
	flags.StringVar(&o.grace, "grace", "1d", "delete what was condemned `AGE` ago: 1d, 2w, 36h, now")
	flags.StringVar(&o.delistAfter, "delist-after", "30d", "forget what was condemned `AGE` ago and is deleted")
	flags.StringVar(&o.orphanAge, "orphan-age", "30d", "condemn what uploads left unfinished `AGE` ago")
	must(cmd.RegisterFlagCompletionFunc("remote", env.complete(remotes)))
	for _, name := range []string{"grace", "delist-after", "orphan-age"} {
		must(cmd.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions))
	}
}

// check says whether options go together.
func (o gcOptions) check(flags *pflag.FlagSet) error {
	others, where := []string{"grace", "delist-after", "orphan-age", "limit-upload", "limit-download"}, "is for a remote: add --remote NAME"
	if o.remote.name != "" {
		others, where = []string{"prune-older", "auto", "single-host"}, "is not for a remote"
	}
	for _, name := range others {
		if flags.Changed(name) {
			return usagef("--%s %s", name, where)
		}
	}
	return nil
}

// collection returns what the options say of a collection.
func (o gcOptions) collection() (c transfer.CollectOptions, err error) {
	c.DryRun, c.Optimise = o.dryRun, o.optimise
	for _, age := range []struct {
		flag, text string
		to         *time.Duration
	}{
		{"grace", o.remote.grace, &c.Grace},
		{"delist-after", o.remote.delistAfter, &c.DelistAfter},
		{"orphan-age", o.remote.orphanAge, &c.OrphanAge},
	} {
		if *age.to, err = refs.ParseAge(age.text); err != nil {
			return c, usagef("--%s %s: %w", age.flag, quoteArg(age.text), err)
		}
	}
	c.MaxWaste, err = o.waste()
	return c, err
}

// remoteGCJSON is what gc prints with --json and --remote.
type remoteGCJSON struct {
	DryRun         bool       `json:"dry_run"`
	Live           int64      `json:"objects_live"`
	Removed        int64      `json:"objects_removed"`
	Before         int64      `json:"bytes_before"`
	After          int64      `json:"bytes_after"`
	Freed          int64      `json:"bytes_freed"`
	Packs          int        `json:"packs"`
	Condemned      int        `json:"condemned"`
	CondemnedBytes int64      `json:"bytes_condemned"`
	Repacked       int        `json:"repacked"`
	Written        int        `json:"written"`
	Indexes        int        `json:"indexes"`
	Deleted        int        `json:"deleted"`
	Delisted       int        `json:"delisted"`
	Waiting        int        `json:"waiting"`
	WaitingBytes   int64      `json:"bytes_waiting"`
	NextDelete     *time.Time `json:"next_delete"`

	Optimised      int   `json:"optimised"`
	OptimisedBytes int64 `json:"bytes_optimised"`
	Patches        int64 `json:"patches"`
}

// runRemoteGC collects the garbage of a remote.
func runRemoteGC(ctx context.Context, env *Env, o gcOptions) error {
	options, err := o.collection()
	if err != nil {
		return err
	}
	env.transfer = o.transferOptions
	r, err := env.open()
	if err != nil {
		return err
	}
	defer r.Close()
	name, err := env.remoteArg(r, o.remote.name)
	if err != nil {
		return err
	}
	opened, err := registry.OpenNamed(ctx, r, name)
	if err != nil {
		return err
	}
	defer opened.Close()
	p := env.progress("collecting garbage of " + name)
	defer p.Stop()
	options.Progress = p.transferred()
	plan, err := opened.PlanGC(ctx, r.Objects(), options)
	if err == nil {
		defer plan.Close()
		if !o.dryRun {
			err = plan.Apply(ctx)
		}
	}
	p.Stop()
	if isA[*transfer.NeededError](err) {
		return hintf(err, "nothing was condemned or deleted; 'kist verify --remote %s' tells what is damaged, and until it is repaired nothing can be collected", name)
	}
	if err != nil {
		return err
	}
	st := plan.Stats()
	if env.global.json {
		out := remoteGCJSON{
			DryRun: o.dryRun, Live: st.Live, Removed: st.Removed, Before: st.Before, After: st.After, Freed: st.Before - st.After,
			Packs: st.Packs, Condemned: st.Condemned, CondemnedBytes: st.CondemnedBytes, Repacked: st.Repacked, Written: st.Written,
			Indexes: st.Indexes, Deleted: st.Deleted, Delisted: st.Delisted, Waiting: st.Waiting, WaitingBytes: st.WaitingBytes,
			Optimised: st.Optimised, OptimisedBytes: st.OptimisedBytes, Patches: st.Patches,
		}
		if !st.Next.IsZero() {
			next := object.Writable(st.Next.UTC().Truncate(time.Second))
			out.NextDelete = &next
		}
		return env.json(out)
	}
	env.printRemoteGC(name, st, o)
	return nil
}

// printRemoteGC tells what a collection has done, or would do.
func (e *Env) printRemoteGC(name string, st transfer.CollectStats, o gcOptions) {
	files := func(n int) string { return plural(uint64(n), "file", "files") }
	would := ""
	if o.dryRun {
		would = "would "
	}
	past := func(verb, past string) string {
		if o.dryRun {
			return would + verb
		}
		return past
	}
	if st.Optimised > 0 {
		e.printOptimised("pack", st.Optimised, st.OptimisedBytes, st.Patches, o.dryRun)
	}
	if st.Condemned > 0 {
		text := past("condemn", "condemned") + " " + files(st.Condemned) + " with " + formatSize(uint64(st.CondemnedBytes)) +
			": " + plural(uint64(st.Removed), "object", "objects") + " that nothing needs"
		if st.Repacked > 0 {
			text += "; " + past("repack", "repacked") + " " + plural(uint64(st.Repacked), "pack", "packs")
		}
		e.tell("%s\n", text)
	}
	if st.Delisted > 0 {
		e.tell("%s %s that %s deleted long ago\n", past("forget", "forgot"), files(st.Delisted), map[bool]string{true: "was", false: "were"}[st.Delisted == 1])
	}
	switch {
	case st.Deleted > 0:
		e.tell("%s %s, %s %s; %s left\n", past("delete", "deleted"), files(st.Deleted), past("free", "freed"),
			formatSize(uint64(max(0, st.Before-st.After))), formatSize(uint64(st.After)))
	case st.Condemned+st.Delisted+st.Waiting == 0:
		e.tell("nothing to do\n")
	}
	if st.Waiting > 0 {
		again := "kist gc --remote " + name
		if o.remote.grace != "1d" {
			again += " --grace " + o.remote.grace
		}
		when := ""
		if !st.Next.IsZero() {
			when = " from " + st.Next.Local().Format("2006-01-02 15:04") + " on"
		}
		e.tell("%s with %s wait to be deleted: run '%s'%s\n", files(st.Waiting), formatSize(uint64(st.WaitingBytes)), again, when)
	}
}

package look

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/commands/share"
	"github.com/kist-vcs/kist/cmd/kist/input"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/gc/stats"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/tree/look/compare"
	"github.com/kist-vcs/kist/tree/pathspec"
)

type statsOptions struct {
	commits bool
	number  int
	sort    string
	bytes   bool
	volumes bool
	remote  string
}

func NewStats(env *cli.Env) *cobra.Command {
	var o statsOptions
	cmd := &cobra.Command{
		Use:   "stats [OPTIONS] [REV...] [-- PATH...]",
		Short: "show what takes space",
		Long: `Shows how much space branches, tags and other refs use in the repository. A REV
that is the name of a ref stands for all its history; any other REV, such as
HEAD, an ID or main~2, for the content of that one commit. --commits shows each
commit that the REVs reach. With PATHs, shows the use of each of them in the
commits of the REVs, by default in all commits.

  files, size  in the newest commit
  stored       bytes of all objects that it needs: compressed, each object
               once, with the lists of files and chunks
  unique       the part of stored that nothing else needs: gc could free it
               if only this were deleted
  dedup        factor that is saved by storing equal data once, for all commits
  compr        factor that is saved by compression

Sizes are of stored objects. A volume needs about 170 bytes more for each
object. Unique is exact, except for data that only reflogs or the index need:
each of them has a line of its own. gc frees the data of reflogs when their
entries expire (see 'kist gc').

With several REVs, 'together' is the size that gc could free if all of them were
deleted. It is more than the sum, as data that only two of them share is unique
to neither.

--volumes shows how much of each volume is needed, --remote how much of each
pack on a remote.`,
		Example: `  kist stats                          which branch takes the space?
  kist stats old-idea                 what would be free without this branch?
  kist stats --commits --sort unique  which commit does?
  kist stats -- film                  and the folder film, in all commits?
  kist stats --remote origin`,
		ValidArgsFunction: env.CompleteUntilDash(cli.Revisions, cli.TrackedPaths),
	}
	env.Prints(cmd, "for each ref, commit or path", spaceJSON{})
	env.Prints(cmd, "after several REVs", togetherJSON{})
	env.Prints(cmd, "at the end, without a REV", totalJSON{})
	env.Prints(cmd, "with --volumes, for each volume", volumeJSON{})
	env.Prints(cmd, "with --remote, for each pack", packJSON{})
	env.Prints(cmd, "with --remote, at the end", remoteStatsJSON{})
	env.InRepository(cmd, o.run)
	cli.PassesOverLost(cmd, env)
	flags := cmd.Flags()
	flags.BoolVar(&o.commits, "commits", false, "show each commit that REVs reach, by default all; A..B is those of B that A lacks")
	cli.RegisterCount(cmd, &o.number, "commits")
	flags.Var(cli.NewChoice(&o.sort, "none", "size", "stored", "unique"), "sort", "sort by the column of this name, the largest first")
	flags.BoolVarP(&o.bytes, "bytes", "b", false, "exact sizes in bytes")
	flags.BoolVar(&o.volumes, "volumes", false, "show the volumes instead")
	flags.StringVar(&o.remote, "remote", "", "show the packs of the remote `NAME` instead")
	cli.Propose(env, cmd, "remote", env.Complete(share.Remotes))
	env.Transfer.Register(cmd)
	cmd.MarkFlagsMutuallyExclusive("volumes", "commits", "remote")
	return cmd
}

// checkOptions returns an error for options and arguments that exclude each other.
func (o *statsOptions) checkOptions(args []string) error {
	switch {
	case (o.volumes || o.remote != "") && len(args) > 0:
		return cli.Usagef("--volumes and --remote take no revision or path: %s", cli.QuoteArg(args[0]))
	case o.number >= 0 && !o.commits:
		return cli.Usagef("-n needs --commits")
	}
	return nil
}

func (o *statsOptions) run(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
	if err := o.checkOptions(args); err != nil || o.number == 0 {
		return err
	}
	if o.remote != "" {
		return statsRemote(ctx, env, r, o)
	}

	revs, specs, err := input.RevsAndPaths(ctx, env, r, args)
	if err != nil {
		return err
	}
	paths, err := statsPaths(ctx, env, r, revs, specs)
	if err != nil {
		return err
	}

	if !o.commits && slices.ContainsFunc(revs, func(rev string) bool { return strings.HasPrefix(rev, "^") || strings.Contains(rev, "..") }) {
		return cli.Hintf(cli.Usagef("stats needs --commits for a range of commits"), "--commits shows each of its commits")
	}
	p := env.Progress("counting")
	defer p.Stop()
	s, err := o.countTotals(ctx, r, revs, paths, p)
	if err != nil {
		return err
	}

	if s.Account.Incomplete {
		env.Warn("some referenced content is not in the repository, and is not counted")
	}
	if o.volumes {
		p.Stop()
		o.printVolumes(env, s.Account)
		return nil
	}

	total := len(revs) == 0 && len(paths) == 0 && !o.commits
	var freed *int64
	if total {
		if freed, err = freeNow(ctx, r); err != nil {
			return err
		}
	}
	p.Stop()
	o.sortSpaces(s.Spaces)
	if env.Global.JSON {
		statsJSON(env, s, total, freed)
		return nil
	}
	if err := o.printSpaces(ctx, env, r, s); err != nil {
		return err
	}

	if total {
		o.printTotal(env, s, freed)
	}
	return nil
}

// countTotals counts the space, and words the errors about arguments.
func (o *statsOptions) countTotals(ctx context.Context, r *kist.Repository, revs, paths []string, p *cli.Progress) (*stats.Stats, error) {
	s, err := stats.Totals(ctx, r, stats.Options{
		Revs: revs, Paths: paths, Commits: o.commits, Number: max(o.number, 0),
		Progress: func(objects int64) { p.SetDone(uint64(objects), 0) },
	})
	var overlap *stats.PathsOverlapError
	switch {
	case errors.Is(err, stats.ErrMixedRevs):
		return nil, cli.Hintf(cli.Usagef("%w", err), "'main~0' is only the commit at main")
	case errors.As(err, &overlap):
		return nil, cli.Usagef("path %s lies in %s: ask for one of them", cli.QuoteArg(overlap.Below), cli.QuoteArg(overlap.Path))
	}
	return s, err
}

// statsPaths returns the paths that pathspecs select in the commits of revs.
func statsPaths(ctx context.Context, env *cli.Env, r *kist.Repository, revs []string, specs pathspec.List) ([]string, error) {
	var in pathspec.Places
	if !specs.IsPlain() {
		if len(revs) == 0 {
			revs = []string{"HEAD"}
		}
		for _, rev := range revs {
			view, err := compare.OfCommit(ctx, r, rev)
			if err != nil {
				return nil, err
			}
			in.Views = append(in.Views, view)
		}
	}
	return pathspec.Find(ctx, r, specs, in)
}

// freeNow returns the number of bytes that 'kist gc' would free now. It returns nil if
// another process collects garbage, or if records are damaged.
func freeNow(ctx context.Context, r *kist.Repository) (*int64, error) {
	plan, err := gc.PlanFor(ctx, r, gc.PlanOptions{PruneOlder: gc.DefaultPruneOlder, MaxWaste: gc.DefaultMaxWaste, DryRun: true})
	if errors.Is(err, disk.ErrBusy) || errors.Is(err, errors.ErrUnsupported) || errors.Is(err, record.ErrDamaged) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer plan.Close()
	st := plan.Stats()
	return new(max(0, st.Before-st.After)), nil
}

// sortSpaces sorts the lines by the column of --sort.
func (o *statsOptions) sortSpaces(spaces []stats.Space) {
	by := map[string]func(stats.Space) int64{
		"size":   func(s stats.Space) int64 { return int64(s.Bytes) },
		"stored": func(s stats.Space) int64 { return s.All.Stored },
		"unique": func(s stats.Space) int64 { return s.Own.Stored },
	}[o.sort]
	if by == nil {
		return
	}
	if i := slices.IndexFunc(spaces, isRest); i >= 0 {
		spaces = spaces[:i]
	}
	slices.SortStableFunc(spaces, func(a, b stats.Space) int { return cmp.Compare(by(b), by(a)) })
}

// isRest reports whether a space has no name, so that it comes last.
func isRest(s stats.Space) bool { return s.Kind == stats.SpaceIndex || s.Kind == stats.SpaceLogs }

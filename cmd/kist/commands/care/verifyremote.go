package care

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/commands/share"
	"github.com/kist-vcs/kist/cmd/kist/readable"
	"github.com/kist-vcs/kist/cmd/kist/show"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/remote/collect"
	"github.com/kist-vcs/kist/remote/exchange/registry"
	"github.com/kist-vcs/kist/remote/keyset"
	"github.com/kist-vcs/kist/remote/transfer"
)

// remoteVerifyJSON is what verify prints with --json and --remote.
type remoteVerifyJSON struct {
	collect.Checked
	Errors   []show.ProblemJSON `json:"errors" doc:"the damaged and missing things"`
	Accepted []show.ProblemJSON `json:"accepted" doc:"the accepted losses"`
}

// remoteRepairJSON is what verify prints with --json, --remote and --repair.
type remoteRepairJSON struct {
	DryRun   bool               `json:"dry_run" doc:"true with --dry-run"`
	Errors   []show.ProblemJSON `json:"errors" doc:"the damaged and missing things"`
	Repaired []string           `json:"repaired" doc:"the packs and index files that were replaced"`
	Objects  int64              `json:"objects_sent" doc:"the number of objects that were sent"`
	Lost     []show.ProblemJSON `json:"lost" doc:"the things that stay damaged or missing"`

	collect.ArchiveStats
}

// remoteProblems describes problems of a remote, with the commits and paths that they
// affect.
func remoteProblems(ctx context.Context, r *kist.Repository, opened *transfer.Remote, found []collect.Problem) ([]show.ProblemJSON, error) {
	problems, err := gc.AffectedOn(ctx, r, opened, found)
	return show.NewProblemsJSON(problems, show.NewRemoteProblemJSON), err
}

// remoteRun checks a remote, or repairs it.
func (o verifyOptions) remoteRun(ctx context.Context, env *cli.Env, r *kist.Repository, check volume.CheckOptions) error {
	opened, err := o.openRemote(ctx, env, r)
	if err != nil {
		return err
	}
	defer opened.Close()
	if o.repair {
		return o.repairRemote(ctx, env, r, opened)
	}
	return o.verifyRemote(ctx, env, r, opened, check)
}

// openRemote opens the remote, if needed with the keys in a file.
func (o verifyOptions) openRemote(ctx context.Context, env *cli.Env, r *kist.Repository) (*transfer.Remote, error) {
	if o.keyset == "" {
		return share.OpenRemote(ctx, env, r, o.remote)
	}
	name, err := share.RemoteArg(env, r, o.remote)
	if err != nil {
		return nil, err
	}
	export, err := keyset.ReadFile(env.Path(o.keyset))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", cli.QuoteArg(o.keyset), err)
	}
	return registry.OpenToRestore(ctx, r, name, export)
}

// verifyRemote checks a remote.
func (o verifyOptions) verifyRemote(ctx context.Context, env *cli.Env, r *kist.Repository, opened *transfer.Remote, check volume.CheckOptions) error {
	p := env.Progress("verifying " + o.remote)
	defer p.Stop()
	var found, lost []collect.Problem
	done, err := collect.Check(ctx, opened, collect.CheckOptions{
		ReadData: check.ReadData, Subset: check.Subset, Progress: func(bytes int64) { p.SetDone(0, uint64(bytes)) },
	}, func(problem collect.Problem) { found = append(found, problem) })
	if err != nil {
		return err
	}

	for _, key := range slices.SortedFunc(maps.Keys(done.Lost), object.Key.Compare) {
		lost = append(lost, collect.Problem{Key: key, Err: &object.AbsentError{Key: key}})
	}
	out := remoteVerifyJSON{Checked: done}
	if out.Errors, err = remoteProblems(ctx, r, opened, found); err != nil {
		return err
	}

	if out.Accepted, err = remoteProblems(ctx, r, opened, lost); err != nil {
		return err
	}
	p.Stop()

	if env.Global.JSON {
		env.JSON(out)
	} else {
		show.PrintProblems(ctx, env, r, out.Errors)
		for _, gap := range out.Accepted {
			env.PrintOutcome("accepted as lost: %s %s\n", gap.Kind, gap.ID)
			show.PrintAffected(ctx, env, r, gap.Commits, gap.Paths)
		}
		if len(out.Errors) == 0 {
			env.PrintOutcome("no errors found%s, %s read; %s\n", intactText(done), readable.FormatSize(uint64(done.Bytes)), readable.Plural(uint64(done.Roots), "root", "roots"))
		}
	}
	on := " damaged or missing on " + cli.QuoteArg(o.remote)
	return cmp.Or(show.DamageFound(env, len(out.Errors), "thing is"+on, "things are"+on,
		[]string{"'kist verify --remote " + o.remote + " --repair' sends the intact copies from here; do not remove anything there"}),
		tellUnchecked(env, done.ArchiveStats))
}

// tellUnchecked warns of packs that were not checked because they have to be thawed first. Then it returns the error for a check that
// is not complete. Its caller has printed everything else.
func tellUnchecked(env *cli.Env, unread collect.ArchiveStats) error {
	if unread.Archived == 0 {
		return nil
	}
	if !env.Global.JSON {
		env.Warn("%s: see 'kist help thaw'", uncheckedText(unread))
	}
	return cli.Quiet(cli.ExitPartial)
}

// uncheckedText describes packs that were not checked.
func uncheckedText(unread collect.ArchiveStats) string {
	return fmt.Sprintf("not checked: %s with %s in an archive", readable.Plural(uint64(unread.Archived), "pack", "packs"), readable.FormatSize(uint64(unread.ArchivedBytes)))
}

// intactText describes the objects and packs of a check that found no damage. Of objects in an archive, only their place is known.
func intactText(done collect.Checked) string {
	objects := readable.Plural(uint64(done.Objects), "object", "objects")
	packs := readable.Plural(uint64(done.Packs-done.Archived), "pack", "packs")
	if done.Archived > 0 {
		return " in the other " + packs + ": " + objects + " exist"
	}
	return ": " + objects + " in " + packs
}

// repairRemote repairs a remote from the repository here.
func (o verifyOptions) repairRemote(ctx context.Context, env *cli.Env, r *kist.Repository, opened *transfer.Remote) error {
	plugins, err := env.Identities().Plugins()
	if err != nil {
		return err
	}
	p := env.Progress("repairing " + o.remote)
	defer p.Stop()
	result, err := collect.Repair(ctx, opened, r.Objects(), collect.RepairOptions{DryRun: o.dryRun, Plugins: plugins, Progress: p.Transferred()})
	p.Stop()
	if missing := new(object.AbsentError); errors.As(err, &missing) && r.Objects().IsLost(missing.Key) {
		return cli.Hintf(err, "its loss was accepted here: 'kist push --force %s SOURCE:NAME' moves the branch or tag there, and 'kist push --delete' deletes it; then repair", o.remote)
	}

	if cli.IsA[*collect.NeededError](err) {
		return cli.Hintf(err, "nothing was changed: 'kist verify --remote %s' lists the damage; a clone with intact copies can repair it", o.remote)
	}
	if err != nil {
		return err
	}

	lost, err := remoteProblems(ctx, r, opened, result.Lost)
	if err != nil {
		return err
	}

	if env.Global.JSON {
		found, err := remoteProblems(ctx, r, opened, result.Found)
		if err != nil {
			return err
		}
		env.JSON(remoteRepairJSON{
			DryRun: o.dryRun, Errors: found, Repaired: append([]string{}, result.Repaired...), Objects: result.Objects, Lost: lost,
			ArchiveStats: result.ArchiveStats,
		})
	} else {
		o.printRemoteRepair(ctx, env, r, result, lost)
	}
	on := " damaged or missing on " + cli.QuoteArg(o.remote)
	return cmp.Or(show.DamageFound(env, len(lost), "thing stays"+on, "things stay"+on,
		[]string{"a clone with intact copies can repair it; whoever pushed or fetched last can restore a damaged root; a state file or kist.json cannot be replaced: push to a new remote then"}),
		tellUnchecked(env, result.ArchiveStats))
}

func (o verifyOptions) printRemoteRepair(ctx context.Context, env *cli.Env, r *kist.Repository, result *collect.RepairResult, lost []show.ProblemJSON) {
	for _, blob := range result.Repaired {
		env.PrintOutcome("%s %s\n", env.Paint(cli.Green, cli.Would(o.dryRun, "replaced", "replace")), blob)
	}
	show.PrintProblems(ctx, env, r, lost)
	switch {
	case len(lost) > 0:
	case len(result.Found) == 0 && result.Archived > 0:
		env.PrintOutcome("no errors found in the other packs: nothing to repair\n")
	case len(result.Found) == 0:
		env.PrintOutcome("no errors found: nothing to repair\n")
	case !o.dryRun:
		env.PrintOutcome("repaired: %s sent; gc of the remote deletes the damaged copies\n", readable.Plural(uint64(result.Objects), "object", "objects"))
	}
}

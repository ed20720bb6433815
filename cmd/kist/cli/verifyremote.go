package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote/transfer"
)

// remoteVerifyJSON is what verify prints with --json and --remote.
type remoteVerifyJSON struct {
	Roots   int                 `json:"roots"`
	Indexes int                 `json:"indexes"`
	Packs   int                 `json:"packs"`
	Objects int64               `json:"objects"`
	Bytes   int64               `json:"bytes"`
	Errors  []remoteProblemJSON `json:"errors"`

	Accepted []remoteProblemJSON `json:"accepted"` // losses
}

// remoteRepairJSON is what verify prints with --json, --remote and --repair.
type remoteRepairJSON struct {
	DryRun   bool                `json:"dry_run"`
	Errors   []remoteProblemJSON `json:"errors"`
	Repaired []string            `json:"repaired"` // packs and index files
	Objects  int64               `json:"objects_sent"`
	Lost     []remoteProblemJSON `json:"lost"`
}

// remoteProblemJSON is something that verify found to be wrong on a remote.
type remoteProblemJSON struct {
	Kind    string      `json:"kind"` // of object, or: blob
	ID      *object.ID  `json:"id"`
	Blob    string      `json:"blob,omitempty"`
	Problem string      `json:"problem"`
	Commits []object.ID `json:"commits"`
	Paths   []string    `json:"paths"`
	RawPath [][]byte    `json:"paths_raw,omitempty"` // all of paths, if one is not UTF-8
}

// remoteProblems describes problems of a remote, with the commits and paths that they
// affect.
func remoteProblems(ctx context.Context, r *kist.Repository, opened *transfer.Remote, found []transfer.Problem) ([]remoteProblemJSON, error) {
	affected, err := gc.AffectedOn(ctx, r, opened, found)
	if err != nil {
		return nil, err
	}
	list := make([]remoteProblemJSON, len(found))
	for i, p := range found {
		list[i] = newRemoteProblemJSON(p)
		affects := newProblemJSON(affected[i])
		list[i].Commits, list[i].Paths, list[i].RawPath = affects.Commits, affects.Paths, affects.RawPath
	}
	return list, nil
}

func newRemoteProblemJSON(p transfer.Problem) remoteProblemJSON {
	out := remoteProblemJSON{Kind: "blob", Blob: p.Blob, Problem: remoteProblemText(p)}
	if !p.Key.IsZero() {
		out.Kind, out.ID = p.Key.Kind.String(), &p.Key.ID
	}
	return out
}

// remoteProblemText describes a problem, without the object, which is printed beside
// it.
func remoteProblemText(p transfer.Problem) string {
	var corrupt *object.CorruptError
	if errors.As(p.Err, &corrupt) && corrupt.Key == p.Key {
		return corrupt.Where + ": " + corrupt.Err.Error()
	}
	return p.Err.Error()
}

// runVerifyRemote checks a remote.
func runVerifyRemote(ctx context.Context, env *Env, o verifyOptions) error {
	check, err := o.check(env)
	if err != nil {
		return err
	}
	r, err := env.open()
	if err != nil {
		return err
	}
	defer r.Close()
	opened, err := openRemote(ctx, env, r, o.remote)
	if err != nil {
		return err
	}
	defer opened.Close()
	if o.repair {
		return o.repairRemote(ctx, env, r, opened)
	}
	out := remoteVerifyJSON{Errors: []remoteProblemJSON{}}
	p := env.progress("verifying " + o.remote)
	defer p.Stop()
	var found []transfer.Problem
	done, err := opened.Check(ctx, transfer.CheckOptions{
		ReadData: check.ReadData, Subset: check.Subset, Progress: func(bytes int64) { p.Set(0, uint64(bytes)) },
	}, func(problem transfer.Problem) { found = append(found, problem) })
	if err == nil {
		out.Errors, err = remoteProblems(ctx, r, opened, found)
	}
	if err == nil {
		var lost []transfer.Problem
		for _, key := range slices.SortedFunc(maps.Keys(done.Lost), object.Key.Compare) {
			lost = append(lost, transfer.Problem{Key: key, Err: &object.NotFoundError{Key: key}})
		}
		out.Accepted, err = remoteProblems(ctx, r, opened, lost)
	}
	p.Stop()
	if err != nil {
		return err
	}
	out.Roots, out.Indexes, out.Packs, out.Objects, out.Bytes = done.Roots, done.Indexes, done.Packs, done.Objects, done.Bytes
	n := uint64(len(out.Errors))
	if env.global.json {
		env.json(out)
		if n == 0 {
			return nil
		}
		return quiet(exitDamaged)
	}
	printRemoteProblems(ctx, env, r, out.Errors)
	for _, gap := range out.Accepted {
		env.tell("accepted as lost: %s %s\n", gap.Kind, gap.ID)
		printAffected(ctx, env, r, gap.Commits, gap.Paths)
	}
	if n == 0 {
		env.tell("no errors found: %s in %s, %s read; %s\n", plural(uint64(done.Objects), "object", "objects"),
			plural(uint64(done.Packs), "pack", "packs"), formatSize(uint64(done.Bytes)), plural(uint64(done.Roots), "root", "roots"))
		return nil
	}
	return &failure{
		err:   fmt.Errorf("%s damaged or missing on %s", plural(n, "thing is", "things are"), quoteArg(o.remote)),
		exit:  exitDamaged,
		hints: []string{"'kist verify --remote " + o.remote + " --repair' sends again what is whole here; do not remove anything there"},
	}
}

func printRemoteProblems(ctx context.Context, env *Env, r *kist.Repository, problems []remoteProblemJSON) {
	for i, problem := range problems {
		if i == shownProblems {
			env.printf("and %s more; --json shows all\n", formatCount(uint64(len(problems)-i)))
			break
		}
		what := problem.Blob
		if problem.ID != nil {
			what = problem.Kind + " " + problem.ID.String()
		}
		env.printf("%s: %s\n", env.paint(red, printable(what)), printable(problem.Problem))
		printAffected(ctx, env, r, problem.Commits, problem.Paths)
	}
}

// repairRemote repairs a remote from the repository here.
func (o verifyOptions) repairRemote(ctx context.Context, env *Env, r *kist.Repository, opened *transfer.Remote) error {
	p := env.progress("repairing " + o.remote)
	defer p.Stop()
	result, err := opened.Repair(ctx, r.Objects(), transfer.RepairOptions{DryRun: o.dryRun, Progress: p.transferred()})
	p.Stop()
	if missing := new(object.NotFoundError); errors.As(err, &missing) && r.Objects().IsLost(missing.Key) {
		return hintf(err, "its loss was accepted here: 'kist push --force %s SOURCE:NAME' moves the branch or tag there, and 'kist push --delete' deletes it; then repair", o.remote)
	}
	if isA[*transfer.NeededError](err) {
		return hintf(err, "nothing was changed: 'kist verify --remote %s' lists the damage; a clone with intact copies can repair it", o.remote)
	}
	if err != nil {
		return err
	}
	n := uint64(len(result.Lost))
	lost, err := remoteProblems(ctx, r, opened, result.Lost)
	if err != nil {
		return err
	}
	if env.global.json {
		found, err := remoteProblems(ctx, r, opened, result.Found)
		if err != nil {
			return err
		}
		out := remoteRepairJSON{
			DryRun: o.dryRun, Errors: found, Repaired: append([]string{}, result.Repaired...), Objects: result.Objects, Lost: lost,
		}
		env.json(out)
		if n == 0 {
			return nil
		}
		return quiet(exitDamaged)
	}
	repaired := "replaced"
	if o.dryRun {
		repaired = "would replace"
	}
	for _, blob := range result.Repaired {
		env.tell("%s %s\n", env.paint(green, repaired), blob)
	}
	printRemoteProblems(ctx, env, r, lost)
	switch {
	case n > 0:
		return &failure{
			err:   fmt.Errorf("%s damaged or missing on %s", plural(n, "thing stays", "things stay"), quoteArg(o.remote)),
			exit:  exitDamaged,
			hints: []string{"whoever has it whole can repair it; a damaged root can be put back by who pushed or fetched last; a state file or kist.json cannot be replaced: push to another, new remote then"},
		}
	case len(result.Found) == 0:
		env.tell("no errors found: nothing to repair\n")
	case !o.dryRun:
		env.tell("repaired: %s sent; gc of the remote deletes the damaged copies\n", plural(uint64(result.Objects), "object", "objects"))
	}
	return nil
}

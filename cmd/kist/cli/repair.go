package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/gc/repair"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
)

// repairJSON is what verify prints besides with --repair.
type repairJSON struct {
	DryRun      bool              `json:"dry_run"`
	Repaired    []repairedJSON    `json:"repaired"`
	Quarantined []quarantinedJSON `json:"quarantined"`
	Lost        []problemJSON     `json:"lost"`
}

// repairedJSON is something that was repaired, or would be.
type repairedJSON struct {
	Kind string     `json:"kind"` // of object, or: file
	ID   *object.ID `json:"id"`
	File string     `json:"file,omitempty"`
	How  string     `json:"how"`
}

// quarantinedJSON is something that is in the quarantine, or would be.
type quarantinedJSON struct {
	File string `json:"file"`
	To   string `json:"to,omitempty"`
}

// combine says whether the options go together.
func (o verifyOptions) combine() error {
	switch {
	case o.repair && o.remote != "" && (len(o.from) > 0 || o.singleHost || o.acceptLoss):
		return usagef("--from, --single-host and --accept-loss do not go together with --remote")
	case o.repair && o.readData != "" && o.readData != "100%":
		return usagef("--repair reads everything: --read-data takes no share with it")
	case !o.repair && (len(o.from) > 0 || o.dryRun || o.singleHost || o.acceptLoss):
		return usagef("--from, --dry-run, --single-host and --accept-loss need --repair")
	}
	return nil
}

func runRepair(ctx context.Context, env *Env, o verifyOptions) error {
	r, err := env.open()
	if err != nil {
		return err
	}
	defer r.Close()
	at := newVerifyProgress(ctx, env, r, volume.CheckOptions{ReadData: true})
	defer at.stop()
	result, err := repair.Run(ctx, r, repair.Options{
		Remotes: o.from, AcceptLoss: o.acceptLoss, DryRun: o.dryRun, SingleHost: o.singleHost,
		Checking: at.checking, Following: at.following, Restoring: at.restoring,
	})
	at.stop()
	if errors.Is(err, errors.ErrUnsupported) {
		return hintf(err, "if no other machine uses the repository now, use --single-host")
	}
	if err != nil {
		return err
	}
	if env.global.json {
		return printRepairJSON(env, result, o.dryRun)
	}
	printRepair(ctx, env, r, result, o.dryRun)
	n := uint64(len(result.Lost))
	if n == 0 {
		return nil
	}
	return &failure{
		err:   fmt.Errorf("%s damaged or missing, with no good copy", plural(n, "thing stays", "things stay")),
		exit:  exitDamaged,
		hints: lostHints(result, o),
	}
}

func printRepairJSON(env *Env, result *repair.Result, dryRun bool) error {
	out := newVerifyJSON(result.Found)
	out.Accepted = newProblemsJSON(result.Accepted)
	out.repairJSON = &repairJSON{
		DryRun: dryRun, Repaired: []repairedJSON{}, Quarantined: []quarantinedJSON{}, Lost: newProblemsJSON(result.Lost),
	}
	for _, done := range result.Repaired {
		item := repairedJSON{Kind: "file", File: done.File, How: done.How}
		if !done.Key.IsZero() {
			item.Kind, item.ID = done.Key.Kind.String(), &done.Key.ID
		}
		out.Repaired = append(out.Repaired, item)
	}
	for _, q := range result.Quarantined {
		out.Quarantined = append(out.Quarantined, quarantinedJSON(q))
	}
	env.json(out)
	if len(result.Lost) == 0 {
		return nil
	}
	return quiet(exitDamaged)
}

// printRepair prints the result of a repair.
func printRepair(ctx context.Context, env *Env, r *kist.Repository, result *repair.Result, dryRun bool) {
	repaired, moved := "repaired", "moved"
	if dryRun {
		repaired, moved = "would repair", "would move"
	}
	for _, line := range repairedLines(r, result.Repaired) {
		env.tell("%s %s\n", env.paint(green, repaired), line)
	}
	for _, q := range result.Quarantined {
		to := cmp.Or(q.To, volume.QuarantineDir)
		env.tell("%s to %s: %s\n", moved, quotePath(repositoryFile(r, to)), quotePath(repositoryFile(r, q.File)))
	}
	printProblems(ctx, env, r, result.Lost)
	if len(result.Lost) > 0 {
		return
	}
	if len(result.Accepted) > 0 {
		what := "accepted as lost:\n"
		if dryRun {
			what = "would accept as lost:\n"
		}
		env.tell("%s", what)
		printProblems(ctx, env, r, result.Accepted)
		return
	}
	if len(result.Repaired)+len(result.Quarantined) == 0 {
		env.tell("no errors found: nothing to repair\n")
	} else if !dryRun {
		env.tell("repaired: everything is intact again\n")
	}
}

// manyAlike is how many objects that were repaired in the same way are named.
const manyAlike = 5

// repairedLines describes each repair. Objects that are too many to be named are
// counted.
func repairedLines(r *kist.Repository, list []repair.Repaired) (lines []string) {
	type way struct {
		kind object.Kind
		how  string
	}
	alike := map[way]uint64{}
	for _, done := range list {
		alike[way{done.Key.Kind, done.How}]++
	}
	for _, done := range list {
		w := way{done.Key.Kind, done.How}
		what := quotePath(repositoryFile(r, done.File))
		switch n := alike[w]; {
		case done.Key.IsZero():
		case n == 0:
			continue // printed above
		case n > manyAlike:
			what = plural(n, w.kind.String(), w.kind.String()+"s")
			alike[w] = 0
		default:
			what = w.kind.String() + " " + done.Key.ID.String()
		}
		lines = append(lines, what+": "+printable(done.How))
	}
	return lines
}

// lostHints gives advice on what could not be repaired.
func lostHints(result *repair.Result, o verifyOptions) []string {
	hints := []string{"'kist verify --repair' can be run again: when a remote can be reached that has it, or the file is back in the worktree"}
	if slices.ContainsFunc(result.Lost, func(p *gc.Problem) bool { return problemKind(p) == "ref" }) {
		hints = append(hints, "a file of a ref is text: write into it, as its only line, the ID of the commit, or into HEAD 'ref: refs/heads/BRANCH'")
	}
	if slices.ContainsFunc(result.Lost, func(p *gc.Problem) bool { return problemKind(p) == "remote" }) {
		hints = append(hints, "'kist verify --repair --accept-loss' goes on with the remote as it is now")
	}
	if slices.ContainsFunc(result.Lost, func(p *gc.Problem) bool { return errors.Is(p.Err, object.ErrNotFound) }) {
		hints = append(hints, "'kist verify --repair --accept-loss' goes on without what is missing")
	}
	if slices.ContainsFunc(result.Lost, func(p *gc.Problem) bool { return problemKind(p) == "records" }) {
		return []string{hintNoRecords}
	}
	if o.acceptLoss {
		hints = append(hints, "missing content may have expired: 'kist expire COMMIT' records that again")
	}
	return hints
}

const hintNoRecords = "a remote can tell what was held, had expired or was purged; " +
	"without one, 'kist verify --repair --accept-loss' goes on with the records that can be read, and what was held may be lost"

package care

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/readable"
	"github.com/kist-vcs/kist/cmd/kist/show"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/gc/repair"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/remote/exchange"
)

// repairJSON has the fields that --repair adds to verify's JSON.
type repairJSON struct {
	DryRun      bool                 `json:"dry_run" doc:"with --repair: true with --dry-run"`
	Repaired    []repairedJSON       `json:"repaired" doc:"with --repair: the repaired things"`
	Quarantined []repair.Quarantined `json:"quarantined" doc:"with --repair: damaged files that were moved away"`
	Lost        []show.ProblemJSON   `json:"lost" doc:"with --repair: the things that stay damaged or missing"`
}

// repairedJSON is something that was repaired, or would be.
type repairedJSON struct {
	Kind string     `json:"kind" doc:"the kind of the object, or file"`
	ID   *object.ID `json:"id" doc:"the object; null: it is a file"`
	File string     `json:"file,omitempty" doc:"the file, below .kist"`
	How  string     `json:"how" doc:"how it was repaired"`

	Loses bool `json:"loses,omitempty" doc:"true if a part of it is lost"`
}

func (o verifyOptions) runRepair(ctx context.Context, env *cli.Env, r *kist.Repository) error {
	at := newVerifyProgress(ctx, env, r, volume.CheckOptions{ReadData: true})
	defer at.stopProgress()
	result, err := repair.Run(ctx, r, repair.Options{
		Remotes: o.from, AcceptLoss: o.acceptLoss, DryRun: o.dryRun, SingleHost: o.singleHost,
		Checking: at.showChecking, Following: at.showFollowing, Restoring: at.showRestoring,
	})
	at.stopProgress()
	if errors.Is(err, errors.ErrUnsupported) {
		return cli.Hintf(err, "if no other machine uses the repository now, use --single-host")
	}
	if err != nil {
		return err
	}

	if result.Found.Unkept > 0 && !o.dryRun {
		secured, err := exchange.SecureAway(ctx, r)
		if err != nil {
			env.Warn("content is only on a remote that does not promise to keep it: %v", err)
		}
		if secured.Fetched > 0 {
			env.PrintOutcome("brought %s here that no remote keeps\n", readable.Plural(uint64(secured.Fetched), "object", "objects"))
		}
	}

	out := newVerifyJSON(result.Found)
	out.Accepted = show.NewProblemsJSON(result.Accepted, show.NewProblemJSON)
	out.repairJSON = &repairJSON{
		DryRun: o.dryRun, Repaired: []repairedJSON{}, Quarantined: append([]repair.Quarantined{}, result.Quarantined...),
		Lost: show.NewProblemsJSON(result.Lost, show.NewProblemJSON),
	}

	for _, done := range result.Repaired {
		item := repairedJSON{Kind: "file", File: done.File, How: done.How, Loses: done.Loses}
		if !done.Key.IsZero() {
			item.Kind, item.ID = done.Key.Kind.String(), &done.Key.ID
		}
		out.Repaired = append(out.Repaired, item)
	}
	if env.Global.JSON {
		env.JSON(out)
	} else {
		printRepair(ctx, env, r, result.Found, out)
	}
	return show.DamageFound(env, len(out.Lost), "thing stays damaged or missing, with no good copy",
		"things stay damaged or missing, with no good copy", lostHints(result, out.Lost, o.acceptLoss))
}

// printRepair prints the result of a repair.
func printRepair(ctx context.Context, env *cli.Env, r *kist.Repository, found *gc.Report, out verifyJSON) {
	repaired, moved := cli.Would(out.DryRun, "repaired", "repair"), cli.Would(out.DryRun, "moved", "move")
	for _, line := range repairedLines(r, out.Repaired) {
		env.PrintOutcome("%s %s\n", env.Paint(cli.Green, repaired), line)
	}

	for _, q := range out.Quarantined {
		to := cmp.Or(q.To, volume.QuarantineDir)
		env.PrintOutcome("%s to %s: %s\n", moved, cli.QuotePath(cli.RepositoryFile(r, to)), cli.QuotePath(cli.RepositoryFile(r, q.File)))
	}

	show.PrintProblems(ctx, env, r, out.Lost)
	warnUnchecked(env, found)
	switch {
	case len(out.Lost) > 0:
	case len(out.Accepted) > 0:
		env.PrintOutcome("%s as lost:\n", cli.Would(out.DryRun, "accepted", "accept"))
		show.PrintProblems(ctx, env, r, out.Accepted)
	case len(out.Repaired)+len(out.Quarantined) == 0:
		env.PrintOutcome("no errors found: nothing to repair\n")
	case out.DryRun:
	case slices.ContainsFunc(out.Repaired, func(done repairedJSON) bool { return done.Loses }):
		env.PrintOutcome("repaired: everything is intact again, except the losses above\n")
	default:
		env.PrintOutcome("repaired: everything is intact again\n")
	}
}

// manyAlike is how many objects that were repaired in the same way are named.
const manyAlike = 5

// repairedLines describes each repair. Objects that are too many to be named are
// counted.
func repairedLines(r *kist.Repository, list []repairedJSON) (lines []string) {
	type way struct{ kind, how string }
	alike := map[way]uint64{}
	for _, done := range list {
		alike[way{done.Kind, done.How}]++
	}

	for _, done := range list {
		w := way{done.Kind, done.How}
		what := cli.QuotePath(cli.RepositoryFile(r, done.File))
		switch n := alike[w]; {
		case done.ID == nil:
		case n == 0:
			continue // printed above
		case n > manyAlike:
			what = readable.Plural(n, w.kind, w.kind+"s")
			alike[w] = 0
		default:
			what = w.kind + " " + done.ID.String()
		}
		lines = append(lines, what+": "+cli.Printable(done.How))
	}
	return lines
}

// lostHints gives advice on problems that could not be repaired.
func lostHints(result *repair.Result, lost []show.ProblemJSON, acceptLoss bool) []string {
	any := func(kind string) bool {
		return slices.ContainsFunc(lost, func(p show.ProblemJSON) bool { return p.Kind == kind })
	}
	if any("records") {
		return []string{hintNoRecords}
	}
	hints := []string{"run 'kist verify --repair' again when a remote that has it can be reached, or the file is back in the worktree"}
	if any("ref") {
		hints = append(hints, "a file of a ref is text: write into it, as its only line, the ID of the commit, or into HEAD 'ref: refs/heads/BRANCH'")
	}
	if any("remote") {
		hints = append(hints, "'kist verify --repair --accept-loss' goes on with the remote as it is now")
	}
	if slices.ContainsFunc(result.Lost, func(p *gc.Problem) bool { return errors.Is(p.Err, object.ErrNotFound) }) {
		hints = append(hints, "'kist verify --repair --accept-loss' goes on without the missing objects")
	}
	if acceptLoss {
		hints = append(hints, "missing content may have expired: 'kist expire COMMIT' records that again")
	}
	return hints
}

const hintNoRecords = "a remote may have the records of holds, expirations and purges; " +
	"without one, 'kist verify --repair --accept-loss' goes on with the readable records, and held commits may be lost"

package show

import (
	"context"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/readable"
	"github.com/kist-vcs/kist/remote/exchange"
)

// lostJSON is an object whose loss was accepted.
type lostJSON struct {
	ProblemJSON
	Who string `json:"who" doc:"who accepted the loss on the remote; empty: it was accepted here"`
}

func NewLostJSON(list []exchange.LostObject) []lostJSON {
	var out []lostJSON
	for _, gap := range list {
		out = append(out, lostJSON{NewProblemJSON(gap.Problem), gap.Who})
	}
	return out
}

// PrintLost names the objects that neither the remote nor the repository has, with the
// affected commits and paths.
func PrintLost(ctx context.Context, env *cli.Env, r *kist.Repository, name string, list []exchange.LostObject) {
	if len(list) == 0 {
		return
	}
	env.Warn("%s on %s, and here: the loss was accepted", readable.Plural(uint64(len(list)), "object is missing", "objects are missing"), cli.QuoteArg(name))
	if env.Global.Quiet {
		return
	}
	for i, gap := range list {
		if i == ShownProblems {
			env.PrintOutcome("%s; --json shows all\n", cli.AndMore(uint64(len(list)-i)))
			break
		}
		by := ""
		if gap.Who != "" {
			by = ", by " + cli.Printable(gap.Who)
		}
		env.PrintOutcome("accepted as lost: %s %s%s\n", gap.Key.Kind, gap.Key.ID, by)
		PrintAffected(ctx, env, r, gap.Commits, gap.Paths)
	}
}

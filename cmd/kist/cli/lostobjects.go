package cli

import (
	"context"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/remote/exchange"
)

// lostJSON is an object whose loss was accepted.
type lostJSON struct {
	problemJSON
	Who string `json:"who"` // who accepted it on the remote; empty: here
}

func newLostJSON(list []exchange.LostObject) []lostJSON {
	var out []lostJSON
	for _, gap := range list {
		out = append(out, lostJSON{newProblemJSON(gap.Problem), gap.Who})
	}
	return out
}

// printLost names the objects that neither the remote nor the repository has, with the
// affected commits and paths.
func printLost(ctx context.Context, env *Env, r *kist.Repository, name string, list []exchange.LostObject) {
	if len(list) == 0 {
		return
	}
	env.warn("%s on %s, and here: the loss was accepted", plural(uint64(len(list)), "object is missing", "objects are missing"), quoteArg(name))
	if env.global.quiet {
		return
	}
	for i, gap := range list {
		if i == shownProblems {
			env.tell("%s; --json shows all\n", andMore(uint64(len(list)-i)))
			break
		}
		by := ""
		if gap.Who != "" {
			by = ", by " + printable(gap.Who)
		}
		env.tell("accepted as lost: %s %s%s\n", gap.Key.Kind, gap.Key.ID, by)
		printAffected(ctx, env, r, gap.Commits, gap.Paths)
	}
}

package cli

import (
	"context"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/remote/tracking"
)

// lostJSON is an object whose loss was accepted.
type lostJSON struct {
	problemJSON
	Who string `json:"who"` // who accepted it on the remote; empty: here
}

func newLostJSON(list []tracking.LostObject) []lostJSON {
	var out []lostJSON
	for _, gap := range list {
		out = append(out, lostJSON{newProblemJSON(gap.Problem), gap.Who})
	}
	return out
}

// printLost names the objects that neither a remote nor the repository has, with
// the commits and paths that they affect.
func (e *Env) printLost(ctx context.Context, r *kist.Repository, name string, list []tracking.LostObject) {
	if len(list) == 0 {
		return
	}
	e.warn("%s on %s, and here: the loss was accepted", plural(uint64(len(list)), "object is missing", "objects are missing"), quoteArg(name))
	if e.global.quiet {
		return
	}
	for i, gap := range list {
		if i == shownProblems {
			e.tell("and %s more; --json shows all\n", formatCount(uint64(len(list)-i)))
			break
		}
		by := ""
		if gap.Who != "" {
			by = ", by " + printable(gap.Who)
		}
		e.tell("accepted as lost: %s %s%s\n", gap.Key.Kind, gap.Key.ID, by)
		e.printAffected(ctx, r, gap.Commits, gap.Paths)
	}
}

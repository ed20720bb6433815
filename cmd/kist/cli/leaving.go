package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs/log"
)

// leavingShown is how many commits are listed that would be left behind.
const leavingShown = 4

// warnLeaving warns of commits that no branch or tag has, when HEAD, which was
// detached at id, has gone elsewhere. It reports whether there are any.
func (e *Env) warnLeaving(ctx context.Context, r *kist.Repository, id object.ID) bool {
	list, err := r.Refs().List("refs/")
	if err != nil {
		return false
	}
	revs := []string{id.String(), "^HEAD"}
	for _, ref := range list {
		if ref.ID == id {
			return false
		}
		revs = append(revs, "^"+ref.ID.String())
	}
	var lost []string
	n := 0
	for c, err := range log.Commits(ctx, r, log.Options{Revs: revs}) {
		if err != nil {
			return false
		}
		if n++; n <= leavingShown {
			lost = append(lost, fmt.Sprintf("  %s %s", c.ID.Short(), subject(c.Message)))
		}
	}
	if n == 0 {
		return false
	}
	if n > leavingShown {
		lost = append(lost, fmt.Sprintf("  and %d more", n-leavingShown))
	}
	e.warn("%s left behind that no branch has:\n%s\n'kist branch NEW %s' makes a branch of %s",
		plural(uint64(n), "commit is", "commits are"), strings.Join(lost, "\n"), id.Short(), map[bool]string{true: "it", false: "them"}[n == 1])
	return true
}

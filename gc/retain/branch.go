package retain

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/graph"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/history"
)

// branch applies the policy to a branch. The rules consider only the branch's
// own commits, on its line of first parents, so that a commit of another
// branch never takes the place of one of them. Merged commits share the fate
// of their merge.
func (e *expiring) branch(ctx context.Context, branch refs.Ref, p *Policy) error {
	name := strings.TrimPrefix(branch.Name, refs.Heads)
	all := map[object.ID]history.Commit{}
	for c, err := range history.Walk(ctx, e.r.Objects(), []object.ID{branch.ID}, history.Options{}) {
		if err != nil {
			return err
		}
		all[c.ID] = c
		if _, expired := e.records.Expired(c.ID); expired {
			e.all[c.ID] = nil
			continue
		}
		if e.all[c.ID] == nil {
			e.all[c.ID] = &Considered{ID: c.ID, Commit: c.Commit}
		}
		e.all[c.ID].Branches = append(e.all[c.ID].Branches, name)
	}

	if len(all) == 0 { // the loss of the branch's commit was accepted
		return nil
	}

	line := firstParents(all, branch.ID)
	var own []*Considered
	var commits []Commit
	for _, id := range line {
		if c := e.all[id]; c != nil {
			own = append(own, c)
			commits = append(commits, Commit{Time: c.Commit.Committer.When(), Tags: e.tags[id]})
		}
	}

	now := e.r.Options().Date()
	kept := map[object.ID]bool{}
	for i, reasons := range p.Apply(commits, now) {
		own[i].keep(reasons...)
		kept[own[i].ID] = len(reasons) > 0
	}
	brought, err := broughtIn(ctx, all, line)
	if err != nil {
		return err
	}
	for id, merge := range brought {
		if c := e.all[id]; c != nil {
			c.keepBrought(merge, kept[merge], now)
		}
	}

	return nil
}

// keepBrought keeps a merged commit if its merge is kept. It also keeps a
// commit dated in the future.
func (c *Considered) keepBrought(merge object.ID, kept bool, now time.Time) {
	switch {
	case kept:
		c.keep("merged by " + merge.Short())
	case c.Commit.Committer.When().After(now):
		c.keep("dated in the future")
	}
}

// firstParents returns the commits from tip back along first parents, newest
// first.
func firstParents(all map[object.ID]history.Commit, tip object.ID) []object.ID {
	line := []object.ID{tip}
	for c := all[tip]; len(c.Parents) > 0; c = all[c.Parents[0]] {
		line = append(line, c.Parents[0])
	}
	return line
}

// broughtIn returns, for each commit off the line of first parents, the commit
// of the line that merged it: the oldest one that reaches it.
func broughtIn(ctx context.Context, all map[object.ID]history.Commit, line []object.ID) (map[object.ID]object.ID, error) {
	by := map[object.ID]object.ID{}
	on := make(map[object.ID]bool, len(line))
	for _, id := range line {
		on[id] = true
	}
	for _, merge := range slices.Backward(line) {
		err := graph.Walk(ctx, on, all[merge].Parents, func(id object.ID) ([]object.ID, error) {
			by[id] = merge
			return all[id].Parents, nil
		})
		if err != nil {
			return nil, err
		}
	}
	return by, nil
}

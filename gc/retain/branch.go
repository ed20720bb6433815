package retain

import (
	"context"
	"fmt"
	"path"
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

// Commit has the properties of a commit that a policy considers.
type Commit struct {
	Time time.Time // the committer's time, in its recorded zone
	Tags []string  // the short names of its tags
}

// Apply returns the reasons to keep each commit, or none. The commits are
// those of one branch, in any order. Among equal times, a commit must come
// before its parents. An empty policy keeps all.
//
// Rules use the recorded time, not the order of history. Hours, days, weeks
// and years are those of the recorded zone, so that every machine keeps the
// same commits. A commit dated after now comes from a wrong clock, or now is
// wrong: it is kept, and no rule counts it. The policy must pass
// [Policy.Check].
func (p *Policy) Apply(commits []Commit, now time.Time) [][]string {
	a := applying{commits: commits, reasons: make([][]string, len(commits))}
	if p.IsEmpty() {
		for i := range commits {
			a.keep(i, "no rule")
		}
		return a.reasons
	}

	for i, c := range commits {
		if c.Time.After(now) {
			a.keep(i, "dated in the future")
		} else {
			a.order = append(a.order, i)
		}
	}

	slices.SortStableFunc(a.order, func(i, j int) int { return commits[j].Time.Compare(commits[i].Time) })
	for _, r := range p.counts() {
		a.count(r)
	}

	for _, r := range p.durations() {
		a.within(r)
	}

	for _, pattern := range p.Tags {
		a.tagged(pattern)
	}

	return a.reasons
}

// applying is the state of one Apply.
type applying struct {
	commits []Commit
	order   []int // the commits that rules count, newest first
	reasons [][]string
}

func (a *applying) keep(i int, reason string) {
	if !slices.Contains(a.reasons[i], reason) {
		a.reasons[i] = append(a.reasons[i], reason)
	}
}

// count keeps the last commit of each of r.count periods.
func (a *applying) count(r countRule) {
	seen := map[[3]int64]bool{}
	left := r.count
	for n, i := range a.order {
		if left == 0 {
			return
		}
		in := r.period.of(a.commits[i].Time)
		switch {
		case r.period == commit:
			a.keep(i, "one of the last")
		case !seen[in]:
			a.keep(i, "last of its "+names[r.period])
		case n == len(a.order)-1:
			a.keep(i, "oldest of all")
		default:
			continue
		}
		seen[in] = true
		if left > 0 {
			left--
		}
	}
}

// within keeps the last commit of each period that is recent enough.
func (a *applying) within(r durationRule) {
	if r.within == (Duration{}) || len(a.order) == 0 {
		return
	}

	seen := map[[3]int64]bool{}
	since := r.within.before(a.commits[a.order[0]].Time)
	for n, i := range a.order {
		at := a.commits[i].Time
		if !at.After(since) {
			return
		}
		in := r.period.of(at)
		switch {
		case r.period == commit:
			a.keep(i, fmt.Sprintf("within %s", r.within))
		case !seen[in]:
			a.keep(i, fmt.Sprintf("last of its %s within %s", names[r.period], r.within))
		case n == len(a.order)-1:
			a.keep(i, fmt.Sprintf("oldest of all within %s", r.within))
		}
		seen[in] = true
	}
}

// tagged keeps the commits with a matching tag.
func (a *applying) tagged(pattern string) {
	for _, i := range a.order {
		for _, tag := range a.commits[i].Tags {
			if ok, _ := path.Match(pattern, tag); ok {
				a.keep(i, "tag "+tag)
				break
			}
		}
	}
}

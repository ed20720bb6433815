package retain

import (
	"fmt"
	"path"
	"slices"
	"time"
)

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

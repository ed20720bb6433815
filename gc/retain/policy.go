// Package retain decides whose content is kept: retention policies, expirations
// and holds of commits.
package retain

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kist-vcs/kist/refs"
)

// Unlimited, as a number in a [Policy], keeps one commit of every period.
const Unlimited = -1

// ErrValue means that a policy has an invalid value.
var ErrValue = errors.New("unknown policy value")

// valueError is the error for a text that is not such a value. It matches [ErrValue].
type valueError string

func (e valueError) Error() string        { return string(e) }
func (e valueError) Is(target error) bool { return target == ErrValue }

// Policy selects the commits of a branch to keep. A commit is kept if any rule
// keeps it. The zero value has no rule and keeps everything.
type Policy struct {
	// These rules keep the last commit of each of so many hours, days, weeks
	// (from Monday on), months or years that have a commit; Last counts
	// commits. 0 means no rule, [Unlimited] means all periods. If there are
	// fewer periods, the oldest commit is kept as well.
	Last, Hourly, Daily, Weekly, Monthly, Yearly int

	// Within keeps every commit that is at most this much older than the
	// newest one. The others keep the last commit of every period in that
	// time, and the oldest commit, if it is in that time.
	Within, WithinHourly, WithinDaily, WithinWeekly, WithinMonthly, WithinYearly Duration

	// Tags keeps commits with a tag whose name matches one of these patterns,
	// see [path.Match].
	Tags []string
}

// policyRule is one rule of a policy: a number of periods, or a length of time.
type policyRule struct {
	option string
	period period
	count  int
	within Duration
}

// allRules returns the rules of p, except the tags. It includes unset rules.
func (p *Policy) allRules() []policyRule {
	return []policyRule{
		{"--keep-last", commit, p.Last, Duration{}},
		{"--keep-hourly", hour, p.Hourly, Duration{}},
		{"--keep-daily", day, p.Daily, Duration{}},
		{"--keep-weekly", week, p.Weekly, Duration{}},
		{"--keep-monthly", month, p.Monthly, Duration{}},
		{"--keep-yearly", year, p.Yearly, Duration{}},
		{"--keep-within", commit, 0, p.Within},
		{"--keep-within-hourly", hour, 0, p.WithinHourly},
		{"--keep-within-daily", day, 0, p.WithinDaily},
		{"--keep-within-weekly", week, 0, p.WithinWeekly},
		{"--keep-within-monthly", month, 0, p.WithinMonthly},
		{"--keep-within-yearly", year, 0, p.WithinYearly},
	}
}

// optionValue returns the argument of the rule's option, or "" if the rule is not set.
func (r *policyRule) optionValue() string {
	switch {
	case r.within != (Duration{}):
		return r.within.String()
	case r.count == Unlimited:
		return "unlimited"
	case r.count != 0:
		return strconv.Itoa(r.count)
	}
	return ""
}

// IsEmpty reports whether the policy has no rule.
func (p *Policy) IsEmpty() bool { return p.String() == "" }

// Check returns an error that matches [ErrValue] if a rule is invalid.
func (p *Policy) Check() error {
	for _, r := range p.allRules() {
		if r.count < Unlimited || r.within.checkRange() != nil {
			return fmt.Errorf("%s %s: %w", r.option, r.optionValue(), ErrValue)
		}
	}

	for _, tag := range p.Tags {
		if _, err := path.Match(tag, ""); err != nil || tag == "" {
			return fmt.Errorf("--keep-tag %q: %w", tag, ErrValue)
		}
	}

	return nil
}

// String returns the policy as options of a command line, such as
// "--keep-daily 7 --keep-weekly 4"; "" if it is empty.
func (p *Policy) String() string {
	var words []string
	for _, r := range p.allRules() {
		if value := r.optionValue(); value != "" {
			words = append(words, r.option, value)
		}
	}

	for _, tag := range p.Tags {
		words = append(words, "--keep-tag", tag)
	}

	return strings.Join(words, " ")
}

// ParseCount returns the number in a text, for a [Policy]: 0 or more, or
// "unlimited". The error matches [ErrValue].
func ParseCount(text string) (int, error) {
	if text == "unlimited" {
		return Unlimited, nil
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return 0, valueError("not a number from 0 upwards, or unlimited")
	}
	return int(n), nil
}

// Duration is a length of time by the calendar.
type Duration struct{ Years, Months, Days, Hours int }

// maxDuration is the largest number in a [Duration].
const maxDuration = 1_000_000

// ParseDuration reads an age, in the forms of [refs.ParseSpan], of whole hours.
// The error matches [ErrValue].
func ParseDuration(text string) (Duration, error) {
	span, ok := refs.ParseSpan(text)
	d := Duration{span.Years, span.Months, span.Days, int(span.Seconds / 3600)}
	if !ok || span.Seconds%3600 != 0 || d.checkRange() != nil {
		return Duration{}, valueError("not an age like 90d, 2w, '90 days' or 1y6m")
	}
	return d, nil
}

// String returns the text that [ParseDuration] reads.
func (d Duration) String() string {
	var text strings.Builder
	for _, unit := range d.units() {
		if *unit.n != 0 {
			fmt.Fprintf(&text, "%d%s", *unit.n, unit.letter)
		}
	}

	if text.Len() == 0 {
		return "0h"
	}
	return text.String()
}

type durationUnit struct {
	letter string
	n      *int
}

func (d *Duration) units() []durationUnit {
	return []durationUnit{{"y", &d.Years}, {"m", &d.Months}, {"d", &d.Days}, {"h", &d.Hours}}
}

func (d Duration) checkRange() error {
	for _, unit := range d.units() {
		if *unit.n < 0 || *unit.n > maxDuration {
			return ErrValue
		}
	}
	return nil
}

// After returns the time d after t. A month after is the same day of the
// month, or the last day of a shorter month.
func (d Duration) After(t time.Time) time.Time {
	return Duration{-d.Years, -d.Months, -d.Days, -d.Hours}.timeBefore(t)
}

// timeBefore returns the time d before t. A month before is the same day of the
// month, or the last day of a shorter month.
func (d Duration) timeBefore(t time.Time) time.Time {
	return refs.Span{Years: d.Years, Months: d.Months, Days: d.Days, Seconds: int64(d.Hours) * 3600}.Before(t)
}

// period is a length of time. A rule keeps one commit for each.
type period int

const (
	commit period = iota // every commit has its own
	hour
	day
	week
	month
	year
)

// names are the names of periods in reasons.
var names = [...]string{hour: "hour", day: "day", week: "week", month: "month", year: "year"}

// periodOf returns the period that contains t, by the clock of t's zone. An hour is
// identified by the moment at which it begins, so the repeated hour at the end
// of summer time counts as two.
func (p period) periodOf(t time.Time) [3]int64 {
	switch y, m, d := t.Date(); p {
	case hour:
		return [3]int64{t.Unix() - int64(t.Minute()*60+t.Second())}
	case day:
		return [3]int64{int64(y), int64(m), int64(d)}
	case week:
		y, w := t.ISOWeek()
		return [3]int64{int64(y), int64(w)}
	case month:
		return [3]int64{int64(y), int64(m)}
	default:
		return [3]int64{int64(y)}
	}
}

// Candidate describes a commit to a policy.
type Candidate struct {
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
func (p *Policy) Apply(commits []Candidate, now time.Time) [][]string {
	a := policyRun{commits: commits, reasons: make([][]string, len(commits))}
	if p.IsEmpty() {
		for i := range commits {
			a.keepCommit(i, "no rule")
		}
		return a.reasons
	}

	for i, c := range commits {
		if c.Time.After(now) {
			a.keepCommit(i, "dated in the future")
		} else {
			a.order = append(a.order, i)
		}
	}

	slices.SortStableFunc(a.order, func(i, j int) int { return commits[j].Time.Compare(commits[i].Time) })
	for _, r := range p.allRules() {
		if r.optionValue() != "" {
			a.applyRule(r)
		}
	}

	for _, pattern := range p.Tags {
		a.keepTagged(pattern)
	}

	return a.reasons
}

// policyRun is the state of one Apply.
type policyRun struct {
	commits []Candidate
	order   []int // the commits that rules count, newest first
	reasons [][]string
}

func (a *policyRun) keepCommit(i int, reason string) {
	if !slices.Contains(a.reasons[i], reason) {
		a.reasons[i] = append(a.reasons[i], reason)
	}
}

// applyRule keeps the last commit of each period, as far as the rule goes: for a
// number of periods, or in a length of time.
func (a *policyRun) applyRule(r policyRule) {
	if len(a.order) == 0 {
		return
	}
	left, since, within := r.count, time.Time{}, ""
	if r.within != (Duration{}) {
		left, since, within = Unlimited, r.within.timeBefore(a.commits[a.order[0]].Time), " within "+r.within.String()
	}

	seen := map[[3]int64]bool{}
	for n, i := range a.order {
		at := a.commits[i].Time
		if left == 0 || within != "" && !at.After(since) {
			return
		}
		in := r.period.periodOf(at)
		switch {
		case r.period == commit && within == "":
			a.keepCommit(i, "one of the last")
		case r.period == commit:
			a.keepCommit(i, strings.TrimSpace(within))
		case !seen[in]:
			a.keepCommit(i, "last of its "+names[r.period]+within)
		case n == len(a.order)-1:
			a.keepCommit(i, "oldest of all"+within)
		default:
			continue
		}
		seen[in] = true
		if left > 0 {
			left--
		}
	}
}

// keepTagged keeps the commits with a matching tag.
func (a *policyRun) keepTagged(pattern string) {
	for _, i := range a.order {
		for _, tag := range a.commits[i].Tags {
			if ok, _ := path.Match(pattern, tag); ok {
				a.keepCommit(i, "tag "+tag)
				break
			}
		}
	}
}

// Package retain decides whose content is kept: retention policies, expirations
// and holds of commits.
package retain

import (
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/kist-vcs/kist/refs"
)

// Unlimited, as a number in a [Policy], keeps one commit of every period.
const Unlimited = -1

// ErrValue means that a policy has an invalid value.
var ErrValue = errors.New("unknown policy value")

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

// countRule is a rule with a number of periods.
type countRule struct {
	option string
	count  int
	period period
}

// durationRule is a rule with a length of time.
type durationRule struct {
	option string
	within Duration
	period period
}

func (p *Policy) counts() []countRule {
	return []countRule{
		{"--keep-last", p.Last, commit},
		{"--keep-hourly", p.Hourly, hour},
		{"--keep-daily", p.Daily, day},
		{"--keep-weekly", p.Weekly, week},
		{"--keep-monthly", p.Monthly, month},
		{"--keep-yearly", p.Yearly, year},
	}
}

func (p *Policy) durations() []durationRule {
	return []durationRule{
		{"--keep-within", p.Within, commit},
		{"--keep-within-hourly", p.WithinHourly, hour},
		{"--keep-within-daily", p.WithinDaily, day},
		{"--keep-within-weekly", p.WithinWeekly, week},
		{"--keep-within-monthly", p.WithinMonthly, month},
		{"--keep-within-yearly", p.WithinYearly, year},
	}
}

// IsEmpty reports whether the policy has no rule.
func (p *Policy) IsEmpty() bool { return p.String() == "" }

// Check returns an error that matches [ErrValue] if a rule is invalid.
func (p *Policy) Check() error {
	for _, r := range p.counts() {
		if r.count < Unlimited {
			return fmt.Errorf("%s %d: %w", r.option, r.count, ErrValue)
		}
	}

	for _, r := range p.durations() {
		if r.within.check() != nil {
			return fmt.Errorf("%s %s: %w", r.option, r.within, ErrValue)
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
	for _, r := range p.counts() {
		switch {
		case r.count == Unlimited:
			words = append(words, r.option, "unlimited")
		case r.count != 0:
			words = append(words, r.option, strconv.Itoa(r.count))
		}
	}

	for _, r := range p.durations() {
		if r.within != (Duration{}) {
			words = append(words, r.option, r.within.String())
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
		return 0, fmt.Errorf("%w, not a number from 0 or unlimited", ErrValue)
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
	if !ok || span.Seconds%3600 != 0 || d.check() != nil {
		return Duration{}, fmt.Errorf("%w, not an age like 90d, 2w, '90 days' or 1y6m", ErrValue)
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

func (d Duration) check() error {
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
	return Duration{-d.Years, -d.Months, -d.Days, -d.Hours}.before(t)
}

// before returns the time d before t. A month before is the same day of the
// month, or the last day of a shorter month.
func (d Duration) before(t time.Time) time.Time {
	first := t.AddDate(0, 0, 1-t.Day()).AddDate(-d.Years, -d.Months, 0)
	last := first.AddDate(0, 1, -1).Day()
	t = first.AddDate(0, 0, min(t.Day(), last)-1)
	return t.AddDate(0, 0, -d.Days).Add(-time.Duration(d.Hours) * time.Hour)
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

// of returns the period that contains t, by the clock of t's zone. An hour is
// identified by the moment at which it begins, so the repeated hour at the end
// of summer time counts as two.
func (p period) of(t time.Time) [3]int64 {
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

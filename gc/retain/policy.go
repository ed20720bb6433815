// Package retain decides which commits of a branch a policy keeps: so many of
// the last ones, and of the days, weeks or months before them one each. It
// knows nothing of a repository, and changes nothing.
package retain

import (
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
)

// Unlimited, as a number in a [Policy], keeps one commit of every hour, day or
// whatever the rule is about.
const Unlimited = -1

// ErrValue says that a policy has a value that means nothing.
var ErrValue = errors.New("unknown policy value")

// Policy says which commits of a branch are kept. A commit that any rule keeps
// is kept. The zero value has no rule, and keeps everything.
type Policy struct {
	// Of the last hours, days, weeks (from Monday on), months or years that
	// have a commit, so many keep their last one; Last counts commits. 0 is no
	// rule, and [Unlimited] has no end. If there are fewer than that, the
	// oldest commit is kept as well.
	Last, Hourly, Daily, Weekly, Monthly, Yearly int

	// Within keeps every commit that is newer than the newest one less a
	// duration; the others do with one of every hour, day and so on in it, and
	// with the oldest commit, if that is in it.
	Within, WithinHourly, WithinDaily, WithinWeekly, WithinMonthly, WithinYearly Duration

	// Tags keeps commits that have a tag whose name matches one of these
	// patterns, see [path.Match].
	Tags []string
}

// countRule is a rule of a policy that counts.
type countRule struct {
	option string
	count  int
	period period
}

// durationRule is a rule of a policy that looks back for some time.
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

// Check returns an error that matches [ErrValue] if a rule means nothing.
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

// ParseCount returns the number that a text stands for in a [Policy]: one of 0
// or more, or "unlimited". The error matches [ErrValue].
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

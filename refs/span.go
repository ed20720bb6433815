package refs

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Span is an age: a length of time by the calendar.
type Span struct {
	Years, Months, Days int
	Seconds             int64
}

// maxSpan is the largest number of most units in the text of a span. Smaller
// units may have more: days ten times as many, seconds a thousand times.
const maxSpan = 1_000_000

func maxOf(unit string) int {
	switch unit {
	case "s":
		return 1000 * maxSpan
	case "min":
		return 100 * maxSpan
	case "d":
		return 10 * maxSpan
	}
	return maxSpan
}

// spanPart is a number and a unit at the beginning of a text.
var spanPart = regexp.MustCompile(`^([0-9]+|[a-z]+)[ ._-]*([a-z]+)[ ._-]*`)

// ParseSpan reads an age as people write it: "90 days", "90d", "2.weeks.ago",
// "a week", "1y6m". A number alone is days. A text has each unit once. Case
// does not matter. docs/ages.md lists the forms.
//
// This is the only parser of ages: options, keys of the configuration and
// [ParseTime] use it.
func ParseSpan(text string) (span Span, ok bool) {
	rest := strings.ToLower(strings.TrimSpace(text))
	if len(rest) > 64 {
		return Span{}, false
	}
	if n, err := strconv.ParseUint(rest, 10, 31); err == nil {
		return Span{Days: int(n)}, n <= maxSpan
	}
	if before, ago := strings.CutSuffix(rest, "ago"); ago && strings.TrimRight(before, " ._-") != before {
		rest = strings.TrimRight(before, " ._-")
	}
	if rest == "" || strings.ContainsAny(rest[len(rest)-1:], " ._-") {
		return Span{}, false
	}

	used := map[string]bool{}
	for rest != "" {
		part := spanPart.FindStringSubmatch(rest)
		if part == nil {
			return Span{}, false
		}
		rest = rest[len(part[0]):]
		unit := spanUnit(part[2])
		n, known := numbers[part[1]]
		if !known {
			parsed, err := strconv.ParseUint(part[1], 10, 31)
			if err != nil || int(parsed) > maxOf(unit) {
				return Span{}, false
			}
			n = int(parsed)
		}
		if unit == "" || used[unit] {
			return Span{}, false
		}
		used[unit] = true
		span.add(n, unit)
	}

	return span, true
}

// spanUnit returns the letter of a unit, in its short or long form; "" for a
// word that is not a unit. "m" is a month everywhere.
func spanUnit(word string) string {
	switch strings.TrimSuffix(word, "s") {
	case "y", "year":
		return "y"
	case "m", "mo", "month":
		return "m"
	case "w", "week":
		return "w"
	case "d", "day":
		return "d"
	case "h", "hour":
		return "h"
	case "min", "minute":
		return "min"
	case "", "sec", "second": // "s" alone
		return "s"
	}

	return ""
}

func (s *Span) add(n int, unit string) {
	switch unit {
	case "y":
		s.Years += n
	case "m":
		s.Months += n
	case "w":
		s.Days += 7 * n
	case "d":
		s.Days += n
	case "h":
		s.Seconds += int64(n) * 3600
	case "min":
		s.Seconds += int64(n) * 60
	case "s":
		s.Seconds += int64(n)
	}
}

// Before returns the time s before t. A month before is the same day
// of the month, or the last day of a shorter month.
func (s Span) Before(t time.Time) time.Time {
	const step = 1e9 // seconds, which a time.Duration can hold
	t = monthsBefore(t, 12*s.Years+s.Months).AddDate(0, 0, -s.Days)
	rest := s.Seconds
	for ; rest > step; rest -= step {
		t = t.Add(-step * time.Second)
	}
	return t.Add(-time.Duration(rest) * time.Second)
}

package refs

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// ParseTime reads a time as people write it. Without a zone, it is in the zone of
// now. Case does not matter. The forms are:
//
//	2026-01-31T15:04:05Z   RFC 3339, with "T" or a space; seconds, fraction and
//	                       zone are optional
//	2026-01-31             the beginning of that day; also 2026/01/31, 31.1.2026,
//	                       Jan 31 2026, 31 January, the last such day
//	Sat Jan 31 15:04:05 2026 +0100, and the same as in mails
//	                       as git prints times
//	1769871845, @1769871845  seconds since 1970, with 9 digits or more, or an @;
//	                       +0100 behind them is the zone, as in git's raw form
//	now, today, yesterday  this moment, the beginning of the day, one day ago
//	monday, last monday    the beginning of the last such day before today
//	today 15:04            that time on the day; also with the other days. A time
//	                       is also noon, midnight, tea, 3pm or 3:30 pm, and can
//	                       come first. Alone, it is today, or for a word the last
//	                       such time
//	3 days ago, 2.weeks.ago, 90d, last month, 1 year 2 months ago
//	                       an age, see [ParseSpan]: the time that long ago
//
// The error matches [ErrTime].
func ParseTime(s string, now time.Time) (time.Time, error) {
	text := strings.ToLower(strings.TrimSpace(s))
	if len(text) <= 64 {
		for _, parse := range []func(string, time.Time) (time.Time, bool){parseDate, parseUnix, parseDay, parseAgo, parseClocked} {
			if t, ok := parse(text, now); ok && t.Year() >= 0 && t.Year() <= 9999 {
				return t, nil
			}
		}
	}
	return time.Time{}, fmt.Errorf("%w: %.64q", ErrTime, s)
}

func parseDate(text string, now time.Time) (time.Time, bool) {
	text = strings.ToUpper(text)
	for _, day := range []string{"2006-01-02", "2006-01-02T15:04", "2006-01-02T15:04:05"} {
		for _, zone := range []string{"", "Z07:00", "Z0700", " Z07:00", " -0700"} {
			for _, layout := range []string{day + zone, strings.Replace(day, "T", " ", 1) + zone} {
				if zone != "" && len(day) == len("2006-01-02") {
					continue
				}
				if t, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
					return t, true
				}
			}
		}
	}

	for _, layout := range []string{
		"Mon Jan 2 15:04:05 2006", "Mon Jan 2 15:04:05 2006 -0700", "Mon, 2 Jan 2006 15:04:05 -0700", "20060102T150405",
		"2006/01/02", "2.1.2006", "Jan 2 2006", "Jan 2, 2006", "2 Jan 2006", "January 2 2006", "January 2, 2006", "2 January 2006",
	} {
		if t, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return t, true
		}
	}

	for _, layout := range []string{"Jan 2", "2 Jan", "January 2", "2 January"} {
		if t, err := time.Parse(layout, text); err == nil {
			at := time.Date(now.Year(), t.Month(), t.Day(), 0, 0, 0, 0, now.Location())
			if at.After(now) {
				at = at.AddDate(-1, 0, 0)
			}
			return at, true
		}
	}

	return time.Time{}, false
}

// clockPart is a time of day, with a day before or after it.
var clockPart = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(.*?)\b(noon|midnight|tea|[0-9]{1,2}(?::[0-9]{2}){0,2} ?[ap]m|[0-9]{1,2}(?::[0-9]{2}){1,2})\b(.*)$`)
})

// parseClocked reads a day and a time of day, in any order, or a time of day alone.
func parseClocked(text string, now time.Time) (time.Time, bool) {
	part := clockPart().FindStringSubmatch(text)
	if part == nil {
		return time.Time{}, false
	}
	before, after := strings.Trim(part[1], " ,"), strings.Trim(part[3], " ,")
	hour, word := map[string]int{"noon": 12, "midnight": 0, "tea": 17}[part[2]]
	clock := time.Date(0, 1, 1, hour, 0, 0, 0, time.UTC)
	for _, layout := range []string{"15:04", "15:04:05", "3PM", "3:04PM", "3:04:05PM"} {
		if t, err := time.Parse(layout, strings.ToUpper(strings.ReplaceAll(part[2], " ", ""))); err == nil && !word {
			clock, word = t, true
			hour = -1
		}
	}
	if !word || before != "" && after != "" {
		return time.Time{}, false
	}

	day, ok, ago := now, true, false
	switch text := before + after; {
	case text == "now":
		return time.Time{}, false
	case text != "":
		if day, ok = parseDay(text, now); !ok {
			day, ok = parseDate(text, now)
		}
		if !ok {
			day, ok = parseAgo(text, now)
			ago = true
		}
	case now.Hour() < hour:
		day = now.AddDate(0, 0, -1)
	}

	y, m, d := day.Date()
	at := time.Date(y, m, d, clock.Hour(), clock.Minute(), clock.Second(), 0, now.Location())
	return at, ok && !(ago && at.After(now))
}

func parseUnix(text string, now time.Time) (time.Time, bool) {
	text, zone, zoned := strings.Cut(text, " ")
	location := now.Location()
	if zoned {
		t, err := time.Parse("-0700", zone)
		if err != nil {
			return time.Time{}, false
		}
		location = t.Location()
	}

	digits, at := strings.CutPrefix(text, "@")
	if !at && len(digits) < 9 || strings.HasPrefix(digits, "+") {
		return time.Time{}, false
	}
	sec, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || sec > 1<<40 || sec < -1<<40 {
		return time.Time{}, false
	}
	return time.Unix(sec, 0).In(location), true
}

// parseDay reads a day relative to today, with or without a time of day.
func parseDay(text string, now time.Time) (time.Time, bool) {
	words := strings.Fields(text)
	if len(words) > 1 && words[0] == "last" {
		words = words[1:]
	}
	if len(words) == 0 || len(words) > 2 {
		return time.Time{}, false
	}

	ago, known := daysAgo(words[0], now.Weekday())
	switch {
	case words[0] == "now" && len(words) == 1:
		return now, true
	case !known:
		return time.Time{}, false
	case words[0] == "yesterday" && len(words) == 1:
		return now.AddDate(0, 0, -1), true
	}

	var clock time.Time
	if len(words) == 2 {
		var err error
		if clock, err = time.Parse("15:04", words[1]); err != nil {
			if clock, err = time.Parse("15:04:05", words[1]); err != nil {
				return time.Time{}, false
			}
		}
	}

	y, m, d := now.Date()
	return time.Date(y, m, d-ago, clock.Hour(), clock.Minute(), clock.Second(), 0, now.Location()), true
}

func daysAgo(word string, today time.Weekday) (days int, known bool) {
	switch word {
	case "today":
		return 0, true
	case "yesterday":
		return 1, true
	}
	for day := time.Sunday; day <= time.Saturday; day++ {
		if len(word) >= 3 && strings.HasPrefix(strings.ToLower(day.String()), word) {
			return (int(today-day)+6)%7 + 1, true
		}
	}
	return 0, false
}

var numbers = map[string]int{
	"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6,
	"seven": 7, "eight": 8, "nine": 9, "ten": 10, "eleven": 11, "twelve": 12,
}

// parseAgo reads an age as the time that long ago, and "last week" as a week.
func parseAgo(text string, now time.Time) (time.Time, bool) {
	if rest, last := strings.CutPrefix(text, "last "); last {
		text = "one " + rest
	}
	if strings.Trim(text, "0123456789") == "" {
		return time.Time{}, false // a number alone is a time in seconds, or nothing
	}
	span, ok := ParseSpan(text)
	return span.Before(now), ok
}

// monthsBefore returns the same day n months before, or the last day of a shorter
// month.
func monthsBefore(t time.Time, n int) time.Time {
	first := t.AddDate(0, 0, 1-t.Day()).AddDate(0, -n, 0)
	last := first.AddDate(0, 1, -1).Day()
	return first.AddDate(0, 0, min(t.Day(), last)-1)
}

// Span is an age: a length of time by the calendar.
type Span struct {
	Years, Months, Days int
	Seconds             int64
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

// maxSpan is the largest number of most units in the text of a span.
const maxSpan = 1_000_000

type unit struct {
	names []string // in the singular; "" for "s"
	one   Span
	max   int // the largest number
}

// units are the units of spans. "m" is a month everywhere.
var units = []unit{
	{[]string{"y", "year"}, Span{Years: 1}, maxSpan},
	{[]string{"m", "mo", "month"}, Span{Months: 1}, maxSpan},
	{[]string{"w", "week"}, Span{Days: 7}, maxSpan},
	{[]string{"d", "day"}, Span{Days: 1}, 10 * maxSpan},
	{[]string{"h", "hour"}, Span{Seconds: 3600}, maxSpan},
	{[]string{"min", "minute"}, Span{Seconds: 60}, 100 * maxSpan},
	{[]string{"", "sec", "second"}, Span{Seconds: 1}, 1000 * maxSpan},
}

// spanPart is a number and a unit at the beginning of a text.
var spanPart = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^([0-9]+|[a-z]+)[ ._-]*([a-z]+)[ ._-]*`)
})

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

	used := map[int]bool{}
	for rest != "" {
		part := spanPart().FindStringSubmatch(rest)
		if part == nil {
			return Span{}, false
		}
		rest = rest[len(part[0]):]
		word := strings.TrimSuffix(part[2], "s")
		i := slices.IndexFunc(units, func(u unit) bool { return slices.Contains(u.names, word) })
		if i < 0 || used[i] {
			return Span{}, false
		}
		used[i] = true

		n, known := numbers[part[1]]
		if !known {
			parsed, err := strconv.ParseUint(part[1], 10, 31)
			if err != nil || int(parsed) > units[i].max {
				return Span{}, false
			}
			n = int(parsed)
		}
		one := units[i].one
		span.Years += n * one.Years
		span.Months += n * one.Months
		span.Days += n * one.Days
		span.Seconds += int64(n) * one.Seconds
	}

	return span, true
}

// Forever is larger than every age.
const Forever = time.Duration(math.MaxInt64)

var errAge = errors.New("not an age like 90d, 2w, '90 days', 2.weeks.ago, now or never")

// ParseAge returns the age of a text: "now", "never" ([Forever]), or a span
// that [ParseSpan] reads. A month counts as 30 days, a year as 365.
func ParseAge(text string) (time.Duration, error) {
	switch strings.ToLower(strings.TrimSpace(text)) {
	case "now":
		return 0, nil
	case "never":
		return Forever, nil
	}

	span, ok := ParseSpan(text)
	if !ok {
		return 0, errAge
	}

	seconds := span.Seconds + 86400*int64(365*span.Years+30*span.Months+span.Days)
	if seconds > int64(Forever/time.Second) {
		return Forever, nil
	}

	return time.Duration(seconds) * time.Second, nil
}

package refs

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ParseTime reads a time as people write it, in the zone of now unless it
// says its own. Case does not matter. It may be
//
//	2026-01-31T15:04:05Z   RFC 3339, the seconds, their fraction and the zone
//	                       as far as wanted, with "T" or a space
//	2026-01-31             the beginning of that day
//	1769871845, @1769871845  seconds since 1970, with 9 digits or more, or an @
//	now, today, yesterday  this moment, the beginning of the day, one day ago
//	monday, last monday    the beginning of the last such day before today
//	today 15:04            that time on the day; also with yesterday, monday
//	3 days ago, a week ago, 2.weeks.ago, last month, 1 year 2 months ago
//	                       units are second, minute, hour, day, week, month
//	                       and year; a month ago is the same day of the month,
//	                       or else the last one
//
// The error matches [ErrTime].
func ParseTime(s string, now time.Time) (time.Time, error) {
	text := strings.ToLower(strings.TrimSpace(s))
	if len(text) <= 64 {
		for _, parse := range []func(string, time.Time) (time.Time, bool){parseDate, parseUnix, parseDay, parseAgo} {
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
	return time.Time{}, false
}

func parseUnix(text string, now time.Time) (time.Time, bool) {
	digits, at := strings.CutPrefix(text, "@")
	if !at && len(digits) < 9 || strings.HasPrefix(digits, "+") {
		return time.Time{}, false
	}
	sec, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || sec > 1<<40 || sec < -1<<40 {
		return time.Time{}, false
	}
	return time.Unix(sec, 0).In(now.Location()), true
}

// parseDay reads a day named in relation to today, with a time of day or not.
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
		if word == strings.ToLower(day.String()) {
			return (int(today-day)+6)%7 + 1, true
		}
	}
	return 0, false
}

var numbers = map[string]int{
	"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6,
	"seven": 7, "eight": 8, "nine": 9, "ten": 10, "eleven": 11, "twelve": 12,
}

// parseAgo reads "3 days ago" and "last week", the words parted by spaces,
// dots, dashes or underscores.
func parseAgo(text string, now time.Time) (time.Time, bool) {
	words := strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" .-_", r) })
	switch {
	case len(words) == 2 && words[0] == "last":
		words[0] = "one"
	case len(words) >= 3 && words[len(words)-1] == "ago":
		words = words[:len(words)-1]
	default:
		return time.Time{}, false
	}
	if len(words)%2 != 0 {
		return time.Time{}, false
	}
	for i := 0; i < len(words); i += 2 {
		n, ok := numbers[words[i]]
		if !ok {
			var err error
			if n, err = strconv.Atoi(words[i]); err != nil || n < 0 || n > 1e9 {
				return time.Time{}, false
			}
		}
		if now, ok = before(now, n, strings.TrimSuffix(words[i+1], "s")); !ok {
			return time.Time{}, false
		}
	}
	return now, true
}

// before returns the time n units before t.
func before(t time.Time, n int, unit string) (time.Time, bool) {
	switch unit {
	case "second", "sec":
		return t.Add(-time.Duration(n) * time.Second), true
	case "minute", "min":
		return t.Add(-time.Duration(min(n, 1e8)) * time.Minute), n <= 1e8
	case "hour":
		return t.Add(-time.Duration(min(n, 1e6)) * time.Hour), n <= 1e6
	case "day":
		return t.AddDate(0, 0, -min(n, 1e7)), n <= 1e7
	case "week":
		return t.AddDate(0, 0, -7*min(n, 1e6)), n <= 1e6
	case "month":
		return monthsBefore(t, min(n, 1e6)), n <= 1e6
	case "year":
		return monthsBefore(t, 12*min(n, 1e5)), n <= 1e5
	}
	return t, false
}

// monthsBefore returns the same day n months before, or, where a month has
// fewer days, its last.
func monthsBefore(t time.Time, n int) time.Time {
	first := t.AddDate(0, 0, 1-t.Day()).AddDate(0, -n, 0)
	last := first.AddDate(0, 1, -1).Day()
	return first.AddDate(0, 0, min(t.Day(), last)-1)
}

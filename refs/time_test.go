package refs

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kist-vcs/kist/object/objecttest"
)

func TestParseTime(t *testing.T) {
	now := time.Date(2026, 3, 31, 15, 4, 5, 6, time.FixedZone("CEST", 7200)) // a Tuesday
	for text, want := range map[string]string{
		"2026-01-31T15:04:05Z":         "2026-01-31T15:04:05Z",
		"2026-01-31t15:04:05z":         "2026-01-31T15:04:05Z",
		"2026-01-31T15:04:05.25+01:00": "2026-01-31T15:04:05.25+01:00",
		"2026-01-31 15:04:05 +0100":    "2026-01-31T15:04:05+01:00",
		"2026-01-31 15:04 -07:30":      "2026-01-31T15:04:00-07:30",
		"2026-01-31T15:04":             "2026-01-31T15:04:00+02:00",
		"2026-01-31 15:04":             "2026-01-31T15:04:00+02:00",
		" 2026-01-31 15:04:05 ":        "2026-01-31T15:04:05+02:00",
		"2026-01-31":                   "2026-01-31T00:00:00+02:00",
		"1769871845":                   "2026-01-31T17:04:05+02:00",
		"@1769871845":                  "2026-01-31T17:04:05+02:00",
		"1769871845 -0730":             "2026-01-31T07:34:05-07:30",
		"@1769871845 +0100":            "2026-01-31T16:04:05+01:00",
		"@0":                           "1970-01-01T02:00:00+02:00",
		"now":                          "2026-03-31T15:04:05.000000006+02:00",
		"today":                        "2026-03-31T00:00:00+02:00",
		"Yesterday":                    "2026-03-30T15:04:05.000000006+02:00",
		"yesterday 15:04":              "2026-03-30T15:04:00+02:00",
		"today 08:00:07":               "2026-03-31T08:00:07+02:00",
		"monday":                       "2026-03-30T00:00:00+02:00",
		"last tuesday":                 "2026-03-24T00:00:00+02:00",
		"wednesday 9:30":               "2026-03-25T09:30:00+02:00",
		"wed":                          "2026-03-25T00:00:00+02:00",
		"2026/01/31":                   "2026-01-31T00:00:00+02:00",
		"31.1.2026":                    "2026-01-31T00:00:00+02:00",
		"Jan 31, 2026":                 "2026-01-31T00:00:00+02:00",
		"31 january":                   "2026-01-31T00:00:00+02:00",
		"apr 1":                        "2025-04-01T00:00:00+02:00",
		"2026-01-31 noon":              "2026-01-31T12:00:00+02:00",
		"3pm Jan 31":                   "2026-01-31T15:00:00+02:00",
		"tea":                          "2026-03-30T17:00:00+02:00",
		"16:00":                        "2026-03-31T16:00:00+02:00",
		"90 seconds ago":               "2026-03-31T15:02:35.000000006+02:00",
		"5 min ago":                    "2026-03-31T14:59:05.000000006+02:00",
		"24 hours ago":                 "2026-03-30T15:04:05.000000006+02:00",
		"3.days.ago":                   "2026-03-28T15:04:05.000000006+02:00",
		"2_weeks-ago":                  "2026-03-17T15:04:05.000000006+02:00",
		"a week ago":                   "2026-03-24T15:04:05.000000006+02:00",
		"last month":                   "2026-02-28T15:04:05.000000006+02:00",
		"one month ago":                "2026-02-28T15:04:05.000000006+02:00",
		"13 months ago":                "2025-02-28T15:04:05.000000006+02:00",
		"4 months ago":                 "2025-11-30T15:04:05.000000006+02:00",
		"3 months ago":                 "2025-12-31T15:04:05.000000006+02:00",
		"2 years ago":                  "2024-03-31T15:04:05.000000006+02:00",
		"1 year 2 months 3 days ago":   "2025-01-28T15:04:05.000000006+02:00",
		"0 days ago":                   "2026-03-31T15:04:05.000000006+02:00",
	} {
		got, err := ParseTime(text, now)
		if err != nil || got.Format(time.RFC3339Nano) != want {
			t.Errorf("%q: %v, %v, want %s", text, got.Format(time.RFC3339Nano), err, want)
		}
	}

	for _, text := range []string{"", " ", "soon", "2026", "2026-02-30", "2026-01-31T25:00", "01/02/2026", "2026-01-31Z", "12345678",
		"3 dayz", "days ago", "ago", "x days ago", "3 moons ago", "3 days 4 ago", "now 15:04", "monday 25:00", "last", "last 15:04",
		"99999999999999999999", "@x", "@", "99999999999 years ago", "20000 years ago", "1000000000 hours ago", "2026-01-31 15:04:05 CET",
		"-1 days from now", "noon 15:04", "13pm", "noon 2026", "now noon", "tomorrow noon", "16:04 0 days", "@99999999999999", strings.Repeat("1 day ", 100) + "ago"} {
		if got, err := ParseTime(text, now); !errors.Is(err, ErrTime) {
			t.Errorf("ParseTime(%q) = %v, %v, want ErrTime", text, got, err)
		}
	}
}

// TestTimeLikeGit compares kist and git for all forms with a time of day. A day without a time
// means the present time of day in git, and the beginning of the day in kist.
func TestTimeLikeGit(t *testing.T) {
	objecttest.NeedProgram(t, "git")
	now := time.Date(2026, 3, 18, 15, 30, 45, 0, time.UTC) // a Wednesday
	dir := t.TempDir()

	git := func(args ...string) string {
		out, err := objecttest.Git(dir, "", []string{"GIT_TEST_DATE_NOW=" + strconv.FormatInt(now.Unix(), 10)}, args...)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(out)
	}

	git("init", "-q")
	for _, text := range []string{
		"now", "yesterday", "noon", "midnight", "tea", "noon today", "today noon", "noon yesterday", "yesterday noon",
		"5 days ago noon", "3 days ago", "3.days.ago", "2.weeks.ago", "last week", "last month", "last year",
		"last monday 10:00", "10:00 last friday", "noon last friday", "last tuesday noon", "yesterday 15:04", "15:04 yesterday",
		"15:04", "10:00", "23:59", "6am", "6pm", "6 am", "12am", "12pm", "10:30 pm", "6am yesterday", "10pm last friday",
		"1 hour ago", "1 year 2 months ago", "3 hours ago", "2 days 3 hours ago", "one month ago", "two weeks ago", "six months ago",
		"10 minutes ago", "10 seconds ago", "1 day", "10.days", "2026-01-31 15:04", "2026-01-31 15:04:05 -0500",
		"Sat Jan 31 15:04:05 2026", "Sat Jan 31 15:04:05 2026 +0100", "Sat, 31 Jan 2026 15:04:05 +0100",
		"2026-01-31T15:04:05Z", "2026-01-31T15:04:05+01:00", "20260131T150405", "1769871845", "@1769871845", "1769871845 -0730",
		"Jan 31 15:04", "31 Jan 2026 noon", "15:04 31.01.2026", "2026/01/31 15:04",
	} {
		got, err := ParseTime(text, now)
		want := strings.TrimPrefix(git("rev-parse", "--since="+text), "--max-age=")
		if err != nil || strconv.FormatInt(got.Unix(), 10) != want {
			sec, _ := strconv.ParseInt(want, 10, 64)
			t.Errorf("ParseTime(%q) = %v, %v; git has %v", text, got, err, time.Unix(sec, 0).UTC())
		}
	}
}

// A day that the earlier month lacks becomes the last day of that month.
func TestMonthsBefore(t *testing.T) {
	for _, test := range []struct {
		from string
		n    int
		want string
	}{
		{"2024-02-29", 12, "2023-02-28"},
		{"2024-03-30", 1, "2024-02-29"},
		{"2024-01-31", 2, "2023-11-30"},
		{"2024-05-31", 1, "2024-04-30"},
		{"2024-05-15", 5, "2023-12-15"},
		{"2024-05-31", 0, "2024-05-31"},
	} {
		from, err := time.Parse(time.DateOnly, test.from)
		if err != nil {
			t.Fatal(err)
		}
		if got := monthsBefore(from, test.n).Format(time.DateOnly); got != test.want {
			t.Errorf("%d months before %s: %s, want %s", test.n, test.from, got, test.want)
		}
	}
}

func FuzzParseTime(f *testing.F) {
	for _, text := range []string{"2026-01-31 15:04", "yesterday", "3.days.ago", "@1769871845", "last friday 10:00", "noon 2 days ago", "3pm Jan 31", "1 year 2 months ago", "999999999 seconds ago"} {
		f.Add(text)
	}
	now := time.Date(2026, 3, 31, 15, 4, 5, 6, time.FixedZone("CEST", 7200))
	f.Fuzz(func(t *testing.T, text string) {
		got, err := ParseTime(text, now)
		if err != nil {
			if !errors.Is(err, ErrTime) || !got.IsZero() {
				t.Errorf("%q: %v, %v", text, got, err)
			}
			return
		}
		// The full form of an accepted time gives the same time.
		again, err := ParseTime(got.Format(time.RFC3339Nano), now)
		if err != nil || !again.Equal(got) {
			t.Errorf("%q: %v, again %v, %v", text, got, again, err)
		}
		if ago := strings.HasSuffix(strings.ToLower(strings.TrimSpace(text)), "ago"); ago && got.After(now) {
			t.Errorf("%q is in the future: %v", text, got)
		}
	})
}

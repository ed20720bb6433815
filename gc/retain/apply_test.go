package retain

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// at returns a commit for each line: a time in RFC 3339, with a space for "T", and
// then tags.
func at(t *testing.T, lines ...string) []Candidate {
	t.Helper()
	var commits []Candidate
	for _, line := range lines {
		words := strings.Fields(line)
		when, err := time.Parse("2006-01-02 15:04Z07:00", words[0]+" "+words[1])
		if err != nil {
			t.Fatal(err)
		}
		commits = append(commits, Candidate{Time: when, Tags: words[2:]})
	}
	return commits
}

var future = time.Date(20000, 1, 1, 0, 0, 0, 0, time.UTC)

func TestApply(t *testing.T) {
	days := []string{
		"2026-03-04 18:00Z", "2026-03-04 09:30Z", "2026-03-03 18:00Z", "2026-03-01 18:00Z",
		"2026-02-28 23:59Z", "2026-02-28 00:00Z", "2025-12-31 12:00Z", "2025-06-01 12:00Z",
	}
	for _, test := range []struct {
		name    string
		policy  Policy
		commits []string
		want    []int // numbers of the kept commits
	}{
		{"empty", Policy{}, days, []int{0, 1, 2, 3, 4, 5, 6, 7}},
		{"no commits", Policy{Daily: 1, Within: Duration{Days: 1}}, nil, nil},
		{"last", Policy{Last: 2}, days, []int{0, 1}},
		{"last, more than all", Policy{Last: 20}, days, []int{0, 1, 2, 3, 4, 5, 6, 7}},
		{"all", Policy{Last: Unlimited}, days, []int{0, 1, 2, 3, 4, 5, 6, 7}},
		{"days without a commit do not count", Policy{Daily: 3}, days, []int{0, 2, 3}},
		{"weeks begin on Monday", Policy{Weekly: 2}, days, []int{0, 3}},
		{"months", Policy{Monthly: 2}, days, []int{0, 4}},
		{"years", Policy{Yearly: 1}, days, []int{0}},
		{"years, used up", Policy{Yearly: 2}, days, []int{0, 6}},
		{"years, not used up: the oldest", Policy{Yearly: 3}, days, []int{0, 6, 7}},
		{"unlimited is never used up", Policy{Monthly: Unlimited}, days, []int{0, 4, 6, 7}},
		{"the oldest of a period with a kept commit", Policy{Daily: 9}, []string{"2026-01-02 10:00Z", "2026-01-02 09:00Z", "2026-01-02 08:00Z"}, []int{0, 2}},
		{"rules add up", Policy{Last: 1, Monthly: 2, Yearly: 2}, days, []int{0, 4, 6}},
		{"one day, several commits", Policy{Daily: 1}, []string{"2026-01-02 23:59Z", "2026-01-02 12:00Z", "2026-01-02 00:00Z"}, []int{0}},

		{"within", Policy{Within: Duration{Days: 4}}, days, []int{0, 1, 2, 3, 4}},
		{"within counts from the newest and excludes the exact age", Policy{Within: Duration{Days: 3}}, days, []int{0, 1, 2}},
		{"within hours", Policy{Within: Duration{Hours: 9}}, days, []int{0, 1}},
		{"within months of different lengths", Policy{Within: Duration{Months: 1}},
			[]string{"2026-03-31 12:00Z", "2026-02-28 12:01Z", "2026-02-28 12:00Z"}, []int{0, 1}},
		{"days within", Policy{WithinDaily: Duration{Days: 5}}, days, []int{0, 2, 3, 4}},
		{"months within", Policy{WithinMonthly: Duration{Years: 1}}, days, []int{0, 4, 6, 7}},
		{"the oldest, if within", Policy{WithinYearly: Duration{Years: 2}}, []string{"2026-02-01 10:00Z", "2026-01-02 09:00Z"}, []int{0, 1}},
		{"not the oldest, if not within", Policy{WithinYearly: Duration{Days: 2}}, []string{"2026-02-01 10:00Z", "2026-01-31 12:00Z", "2026-01-02 09:00Z"}, []int{0}},
		{"within more than all time", Policy{Within: Duration{maxDuration, maxDuration, maxDuration, maxDuration}}, days, []int{0, 1, 2, 3, 4, 5, 6, 7}},

		{"tags", Policy{Tags: []string{"v*", "gold"}},
			[]string{"2026-01-04 10:00Z", "2026-01-03 10:00Z v1", "2026-01-02 10:00Z gold v2", "2026-01-01 10:00Z golden"}, []int{1, 2}},

		{"years 0 and 9999", Policy{Yearly: 3},
			[]string{"9999-12-31 23:59Z", "2026-01-01 00:00Z", "2025-01-01 00:00Z", "0000-01-01 00:00Z"}, []int{0, 1, 2}},
		{"years 0 and 9999, all", Policy{Weekly: Unlimited, WithinHourly: Duration{Years: 9999}},
			[]string{"9999-12-31 23:59Z", "9999-12-31 23:58Z", "0000-01-01 00:01Z", "0000-01-01 00:00Z"}, []int{0, 2, 3}},

		{"times count, not the order", Policy{Last: 2},
			[]string{"2026-01-01 10:00Z", "1970-01-01 00:00Z", "2026-01-03 10:00Z", "2026-01-02 10:00Z"}, []int{2, 3}},
		{"the first of equal times", Policy{Daily: 1}, []string{"2026-01-01 10:00Z", "2026-01-01 10:00Z"}, []int{0}},
		{"days of the recorded zone", Policy{Daily: 2},
			[]string{"2026-01-02 00:30+02:00", "2026-01-01 21:00Z", "2025-12-31 12:00Z"}, []int{0, 1}},
		{"one day in two zones", Policy{Daily: 3},
			[]string{"2026-01-01 23:00Z", "2026-01-02 00:30+02:00", "2026-01-01 22:00Z", "2025-12-30 12:00Z", "2025-12-29 12:00Z"}, []int{0, 1, 3}},

		// In Berlin, 2026-03-29 has 23 hours and 2026-10-25 has 25.
		{"the day summer begins", Policy{Hourly: 3, Daily: 1},
			[]string{"2026-03-29 03:10+02:00", "2026-03-29 01:50+01:00", "2026-03-29 01:10+01:00", "2026-03-29 00:10+01:00", "2026-03-28 23:10+01:00"}, []int{0, 1, 3}},
		{"the repeated hour", Policy{Hourly: 3},
			[]string{"2026-10-25 03:10+01:00", "2026-10-25 02:10+01:00", "2026-10-25 02:10+02:00", "2026-10-25 01:10+02:00"}, []int{0, 1, 2}},
		{"the day summer ends", Policy{Daily: 2},
			[]string{"2026-10-25 23:59+01:00", "2026-10-25 00:00+02:00", "2026-10-24 23:59+02:00", "2026-10-24 00:00+02:00"}, []int{0, 2}},
		{"hours of a zone with half an hour", Policy{Hourly: 2},
			[]string{"2026-01-01 12:10+05:30", "2026-01-01 12:00+05:30", "2026-01-01 11:59+05:30", "2026-01-01 10:00+05:30"}, []int{0, 2}},
		{"hours before 1970", Policy{Hourly: 2}, []string{"1969-12-31 23:59Z", "1969-12-31 23:01Z", "1969-12-31 22:59Z", "1969-12-31 21:59Z"}, []int{0, 2}},
		{"the ISO week of another year", Policy{Weekly: 2},
			[]string{"2027-01-03 12:00Z", "2026-12-28 12:00Z", "2026-12-27 12:00Z", "2026-12-01 12:00Z"}, []int{0, 2}},
	} {
		if err := test.policy.Check(); err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		var kept []int
		for i, reasons := range test.policy.Apply(at(t, test.commits...), future) {
			if len(reasons) > 0 {
				kept = append(kept, i)
			}
		}
		if !slices.Equal(kept, test.want) {
			t.Errorf("%s: kept %v, want %v", test.name, kept, test.want)
		}
	}
}

func TestReasons(t *testing.T) {
	p := Policy{Last: 1, Daily: 2, Yearly: 5, Monthly: 5, Within: Duration{Days: 1}, WithinWeekly: Duration{Years: 1}, Tags: []string{"v*"}}
	got := p.Apply(at(t, "2027-01-01 00:00Z", "2026-03-04 18:00Z", "2026-03-04 09:30Z", "2026-03-02 12:00Z v1", "2026-03-01 12:00Z", "2026-03-01 11:00Z"),
		time.Date(2026, 3, 5, 0, 0, 0, 0, time.UTC))
	want := [][]string{
		{"dated in the future"},
		{"one of the last", "last of its day", "last of its month", "last of its year", "within 1d", "last of its week within 1y"},
		{"within 1d"},
		{"last of its day", "tag v1"},
		{"last of its week within 1y"},
		{"oldest of all", "oldest of all within 1y"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Commits after now are kept and do not count, whether a commit's clock is wrong
// or the present one.
func TestFuture(t *testing.T) {
	commits := at(t, "2038-01-19 03:14Z", "2026-01-03 10:00Z", "2026-01-02 10:00Z", "2026-01-01 10:00Z")
	p := Policy{Last: 1, Within: Duration{Days: 2}}
	kept := func(now time.Time) (n []int) {
		for i, reasons := range p.Apply(commits, now) {
			if len(reasons) > 0 {
				n = append(n, i)
			}
		}
		return n
	}
	if got := kept(time.Date(2026, 1, 4, 0, 0, 0, 0, time.UTC)); !slices.Equal(got, []int{0, 1, 2}) {
		t.Errorf("with a commit from the future: kept %v, want 0 to 2", got)
	}
	if got := kept(time.Unix(0, 0)); !slices.Equal(got, []int{0, 1, 2, 3}) {
		t.Errorf("with now in 1970: kept %v, want all", got)
	}
}

// Apply agrees with a simple implementation, on random commits in random order.
func TestApplyRandom(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	number := func() int { return []int{0, 0, 1, 2, 5, 40, Unlimited}[rng.IntN(7)] }
	for range 300 {
		p := Policy{number(), number(), number(), number(), number(), number(), Duration{Days: rng.IntN(3) * rng.IntN(20)},
			Duration{}, Duration{}, Duration{}, Duration{Months: rng.IntN(3)}, Duration{}, nil}
		commits := make([]Candidate, rng.IntN(60))
		for i := range commits {
			zone := time.FixedZone("", (rng.IntN(24)-12)*3600)
			commits[i].Time = time.Unix(1.7e9+int64(math.Pow(rng.Float64(), 3)*1e8), 0).In(zone)
		}

		got := p.Apply(commits, future)
		if p.IsEmpty() {
			continue
		}

		want := simple(p, commits)
		for i := range commits {
			if (len(got[i]) > 0) != want[i] {
				t.Fatalf("%s: commit %d of %v: %q, want kept %v", &p, i, commits, got[i], want[i])
			}
		}

		// Applied to the kept commits, the policy keeps all of them.
		var left []Candidate
		for i, c := range commits {
			if len(got[i]) > 0 {
				left = append(left, c)
			}
		}

		for i, reasons := range p.Apply(left, future) {
			if len(reasons) == 0 {
				t.Fatalf("%s: the second Apply drops commit %d of %v", &p, i, left)
			}
		}
	}
}

// simple implements policies with counts, Within and WithinMonthly. A commit is
// the last of its period if no other commit of the period is newer. It is kept if
// fewer last commits than the count are newer.
func simple(p Policy, commits []Candidate) []bool {
	newer := func(a, b int) bool {
		if c := commits[a].Time.Compare(commits[b].Time); c != 0 {
			return c > 0
		}
		return a < b
	}
	lastOf := func(name func(int) string) map[int]bool {
		last := map[int]bool{}
		for i := range commits {
			last[i] = true
			for j := range commits {
				if name(i) == name(j) && newer(j, i) {
					last[i] = false
				}
			}
		}
		return last
	}

	format := func(layout string) func(int) string {
		return func(i int) string { return commits[i].Time.Format(layout) }
	}
	names := []func(int) string{
		func(i int) string { return fmt.Sprint(i) },
		func(i int) string { return commits[i].Time.UTC().Format("2006-01-02 15") },
		format("2006-01-02"),
		func(i int) string { y, w := commits[i].Time.ISOWeek(); return fmt.Sprint(y, w) },
		format("2006-01"), format("2006"),
	}
	kept := make([]bool, len(commits))

	var newest, oldest int
	for i := range commits {
		if newer(i, newest) {
			newest = i
		}
		if newer(oldest, i) {
			oldest = i
		}
	}

	for rule, count := range []int{p.Last, p.Hourly, p.Daily, p.Weekly, p.Monthly, p.Yearly} {
		if count == 0 {
			continue
		}

		last := lastOf(names[rule])
		periods := 0
		for i := range commits {
			before := 0
			for j := range commits {
				if last[j] && newer(j, i) {
					before++
				}
			}
			if last[i] {
				periods++
				kept[i] = kept[i] || count < 0 || before < count
			}
		}

		if len(commits) > 0 && (count < 0 || periods < count) {
			kept[oldest] = true
		}
	}

	lastOfMonth := lastOf(names[4])
	for i, c := range commits {
		if d := p.Within.Days; d > 0 && c.Time.After(commits[newest].Time.AddDate(0, 0, -d)) {
			kept[i] = true
		}
		if p.WithinMonthly.Months > 0 && c.Time.After(p.WithinMonthly.timeBefore(commits[newest].Time)) {
			kept[i] = kept[i] || i == oldest || lastOfMonth[i]
		}
	}
	return kept
}

// Apply accepts times that no calendar has.
func TestExtremes(t *testing.T) {
	var commits []Candidate
	for _, sec := range []int64{math.MaxInt64, 1 << 62, 1 << 40, 0, -1 << 40, -1 << 62, math.MinInt64} {
		commits = append(commits, Candidate{Time: time.Unix(sec, 999_999_999).In(time.FixedZone("", -23*3600))})
	}
	p := Policy{Hourly: 1, Daily: 1, Weekly: 1, Monthly: 1, Yearly: 1, WithinYearly: Duration{Years: maxDuration}}
	if got := p.Apply(commits, time.Unix(1<<41, 0)); len(got[2]) == 0 || len(got[3]) > 1 {
		t.Errorf("reasons %q", got)
	}
}

package retain

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestParseCount(t *testing.T) {
	for text, want := range map[string]int{"0": 0, "7": 7, "007": 7, "2147483647": 2147483647, "unlimited": Unlimited} {
		if got, err := ParseCount(text); got != want || err != nil {
			t.Errorf("ParseCount(%q) = %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "-1", "+1", "1.5", " 1", "all", "Unlimited", "2147483648", "99999999999999999999", "0x10", "1_0"} {
		if n, err := ParseCount(text); !errors.Is(err, ErrValue) {
			t.Errorf("ParseCount(%q) = %d, %v, want ErrValue", text, n, err)
		}
	}
}

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]Duration{
		"1y5m7d2h": {1, 5, 7, 2}, "14d": {Days: 14}, "2h": {Hours: 2}, "1y2h": {Years: 1, Hours: 2}, "0d": {}, "1000000y": {Years: 1000000},
		"1w": {Days: 7}, "1m2w3d": {Months: 1, Days: 17}, "142857w1d": {Days: 1000000},
		"7": {Days: 7}, "7 d": {Days: 7}, "90 days": {Days: 90}, "2.weeks.ago": {Days: 14}, "7D": {Days: 7}, "7d1y": {Years: 1, Days: 7}, "a week": {Days: 7}, "120 min": {Hours: 2},
	} {
		got, err := ParseDuration(text)
		if got != want || err != nil {
			t.Errorf("ParseDuration(%q) = %v, %v, want %v", text, got, err, want)
		}
		if again, err := ParseDuration(got.String()); again != want || err != nil {
			t.Errorf("ParseDuration(%q) = %v, %v, want %v", got, again, err, want)
		}
	}
	for _, text := range []string{"", "d", "1h30min", "7d7d", "-7d", "+7d", "1.5d", "142857w2d", "w", "1000001d", "99999999999999999999h", "1y5", "y5m"} {
		if d, err := ParseDuration(text); !errors.Is(err, ErrValue) || d != (Duration{}) {
			t.Errorf("ParseDuration(%q) = %v, %v, want ErrValue", text, d, err)
		}
	}
}

func TestBefore(t *testing.T) {
	const layout = "2006-01-02T15:04"
	for _, test := range []struct {
		from string
		d    Duration
		want string
	}{
		{"2026-03-31T12:00", Duration{Months: 1}, "2026-02-28T12:00"},
		{"2024-03-31T12:00", Duration{Months: 1}, "2024-02-29T12:00"},
		{"2024-02-29T12:00", Duration{Years: 1}, "2023-02-28T12:00"},
		{"2026-01-15T00:30", Duration{Hours: 1}, "2026-01-14T23:30"},
		{"2026-01-15T00:30", Duration{1, 1, 1, 1}, "2024-12-13T23:30"},
		{"2026-01-15T00:30", Duration{Months: 25}, "2023-12-15T00:30"},
	} {
		from, err := time.Parse(layout, test.from)
		if got := test.d.timeBefore(from).Format(layout); err != nil || got != test.want {
			t.Errorf("%s before %s: %s, want %s", test.d, test.from, got, test.want)
		}
	}
}

func TestPolicyString(t *testing.T) {
	for want, p := range map[string]Policy{
		"":                               {},
		"--keep-daily 7 --keep-weekly 4": {Daily: 7, Weekly: 4},
		"--keep-last 1 --keep-yearly unlimited --keep-within 1y2h --keep-tag v* --keep-tag gold": {
			Last: 1, Yearly: Unlimited, Within: Duration{Years: 1, Hours: 2}, Tags: []string{"v*", "gold"}},
		"--keep-hourly 3 --keep-monthly 2 --keep-within-hourly 1h --keep-within-daily 1d --keep-within-weekly 2d --keep-within-monthly 1m --keep-within-yearly 1y": {
			Hourly: 3, Monthly: 2, WithinHourly: Duration{Hours: 1}, WithinDaily: Duration{Days: 1}, WithinWeekly: Duration{Days: 2},
			WithinMonthly: Duration{Months: 1}, WithinYearly: Duration{Years: 1}},
	} {
		if got := p.String(); got != want || p.IsEmpty() != (want == "") || p.Check() != nil {
			t.Errorf("String() = %q, want %q; Check() = %v", got, want, p.Check())
		}
	}
}

func TestCheck(t *testing.T) {
	for option, p := range map[string]Policy{
		"--keep-last -2":           {Last: -2},
		"--keep-yearly -7":         {Daily: 1, Yearly: -7},
		"--keep-within -1d":        {Within: Duration{Days: -1}},
		"--keep-within-weekly -1m": {WithinWeekly: Duration{Months: -1}},
		"--keep-within 1000001h":   {Within: Duration{Hours: maxDuration + 1}},
		`--keep-tag "v["`:          {Tags: []string{"v["}},
		`--keep-tag ""`:            {Tags: []string{"v1", ""}},
	} {
		if err := p.Check(); !errors.Is(err, ErrValue) || !strings.HasPrefix(err.Error(), option+": unknown policy value") {
			t.Errorf("%s: error %v, want ErrValue with the option", option, err)
		}
	}
}

func FuzzParseDuration(f *testing.F) {
	for _, seed := range []string{"1y5m7d2h", "14d", "", "7", "99999999999h", "1m1m"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := ParseDuration(text)
		if err != nil {
			return
		}
		if again, err := ParseDuration(d.String()); again != d || err != nil || d.checkRange() != nil {
			t.Errorf("ParseDuration(%q) = %v, and of its String() = %v, %v", text, d, again, err)
		}
		d.timeBefore(time.Date(2026, 3, 31, 0, 0, 0, 0, time.UTC))
	})
}

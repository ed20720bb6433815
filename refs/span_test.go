package refs

import (
	"strings"
	"testing"
	"time"
)

func TestParseSpan(t *testing.T) {
	for text, want := range map[string]Span{
		"90 days": {Days: 90}, "90d": {Days: 90}, "90": {Days: 90}, "2.weeks.ago": {Days: 14}, "2w": {Days: 14},
		" 1Y6M ": {Years: 1, Months: 6}, "1 year 6 months": {Years: 1, Months: 6}, "a week": {Days: 7}, "twelve-hours": {Seconds: 43200},
		"36h": {Seconds: 129600}, "5min": {Seconds: 300}, "1s": {Seconds: 1}, "3_mo": {Months: 3}, "999999999 seconds ago": {Seconds: 999999999},
	} {
		if got, ok := ParseSpan(text); !ok || got != want {
			t.Errorf("%q: %+v, %v, want %+v", text, got, ok, want)
		}
	}
	for _, text := range []string{
		"", " ", "d", "ago", "-1d", "+1d", "1.5d", "1d.", "d1", "1d 2 days", "1 fortnight", "a", "soon", "now", "never",
		"1000001h", "99999999999999999999d", "1dago", strings.Repeat("1", 65),
	} {
		if got, ok := ParseSpan(text); ok {
			t.Errorf("ParseSpan(%q) = %+v, want a refusal", text, got)
		}
	}
}

func FuzzParseSpan(f *testing.F) {
	for _, text := range []string{"90 days", "2.weeks.ago", "1y6m", "1000000h100000000min1000000000s", "a week"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		now := time.Date(2026, 3, 31, 0, 0, 0, 0, time.UTC)
		if span, ok := ParseSpan(text); ok && (span.Before(now).After(now) || span.Seconds < 0) {
			t.Errorf("%q: %+v is in the future", text, span)
		}
	})
}

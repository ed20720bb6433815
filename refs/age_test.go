package refs_test

import (
	"testing"
	"time"

	"github.com/kist-vcs/kist/refs"
)

func TestParseAge(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"now": 0, "0": 0, "never": refs.Forever, "14": 14 * 24 * time.Hour, "14d": 14 * 24 * time.Hour, "2w": 14 * 24 * time.Hour,
		"36h": 36 * time.Hour, "1s": time.Second, "1000000y": refs.Forever,
		"90 days": 90 * 24 * time.Hour, "2.weeks.ago": 14 * 24 * time.Hour, "1y": 365 * 24 * time.Hour, "6m": 180 * 24 * time.Hour, "1 D": 24 * time.Hour, "Never": refs.Forever, "30 min": 30 * time.Minute,
	} {
		if got, err := refs.ParseAge(text); err != nil || got != want {
			t.Errorf("ParseAge(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "d", "-1d", "1.5d", "1dd", "soon", "99999999999d", "2000000000w", "1d 1 day", "90 days.", "last"} {
		if got, err := refs.ParseAge(text); err == nil {
			t.Errorf("ParseAge(%q) = %v, want an error", text, got)
		}
	}
}

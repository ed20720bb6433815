package retain

import (
	"fmt"
	"strings"
	"time"

	"github.com/kist-vcs/kist/refs"
)

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

package refs

import (
	"errors"
	"math"
	"strings"
	"time"
)

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

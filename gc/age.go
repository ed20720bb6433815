package gc

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

// Forever is an age that nothing has.
const Forever = time.Duration(math.MaxInt64)

var errAge = errors.New("not an age like 14d, 2w, 36h, now or never")

// ParseAge returns the age that a text stands for: a number of days, of weeks,
// hours or seconds with the letter of the unit as in "14d", "2w" or "36h", "now",
// or "never", which is [Forever]. There is no "m": elsewhere it stands for months.
func ParseAge(text string) (time.Duration, error) {
	switch text {
	case "now":
		return 0, nil
	case "never":
		return Forever, nil
	}
	digits := strings.TrimRight(text, "wdhs")
	n, err := strconv.ParseUint(digits, 10, 31)
	unit, ok := map[string]time.Duration{
		"": 24 * time.Hour, "w": 7 * 24 * time.Hour, "d": 24 * time.Hour, "h": time.Hour, "s": time.Second,
	}[text[len(digits):]]
	if err != nil || !ok {
		return 0, errAge
	}
	if time.Duration(n) > Forever/unit {
		return Forever, nil
	}
	return time.Duration(n) * unit, nil
}

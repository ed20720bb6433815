package check

import (
	"fmt"
	"strings"
	"time"
)

// Status is how a check ended.
type Status string

// The ends of a check.
const (
	OK      Status = "ok"
	Note    Status = "note"    // passed, but there is something to know
	Failed  Status = "failed"  // the store does not do what kist needs
	Skipped Status = "skipped" // not asked for, or of no use after what failed
)

// Result is the result of one check.
type Result struct {
	Name   string        `json:"name"` // one of the constants, as in "create-race"
	What   string        `json:"what"` // what was to be shown, in a line
	Status Status        `json:"status"`
	Detail string        `json:"detail,omitempty"` // why; empty if OK
	Took   time.Duration `json:"took_ns"`
	Err    error         `json:"-"` // of the call that failed, if it is that; else nil
}

// Report tells what a store does. It has the checks in the order they ran, all
// of them unless [Run] returned an error.
type Report struct {
	Prefix string   `json:"prefix"` // of the names that were used, as in "probe/3f…/"
	Checks []Result `json:"checks"`
}

// Shared reports whether the store is safe for any number of writers: all
// checks ran, and none failed.
func (r *Report) Shared() bool {
	for i := range steps {
		if !r.passed(&steps[i]) {
			return false
		}
	}
	return true
}

// Usable reports whether the store is safe as long as there is one writer at a
// time: nothing failed but what keeps writers apart. A store that refuses to
// create only what is not there yet, instead of ignoring the condition, is not
// usable in the way it was opened.
func (r *Report) Usable() bool {
	for i := range steps {
		if s := &steps[i]; !s.exclusive && !r.passed(s) {
			return false
		}
	}
	return true
}

// passed reports whether the store does what a step looks at.
func (r *Report) passed(s *step) bool {
	for _, c := range r.Checks {
		if c.Name == s.name {
			return c.Status == OK || c.Status == Note || c.Status == Skipped && s.optional
		}
	}
	return false
}

// String returns the report as lines of text, one for each check and more for
// the details of those that are not OK.
func (r *Report) String() string {
	width := 0
	for _, c := range r.Checks {
		width = max(width, len(c.What))
	}
	var b strings.Builder
	for _, c := range r.Checks {
		fmt.Fprintf(&b, "%-7s  %-*s  %s\n", c.Status, width, c.What, c.Took.Round(time.Millisecond))
		if c.Detail != "" {
			fmt.Fprintf(&b, "         %s\n", c.Detail)
		}
	}
	return b.String()
}

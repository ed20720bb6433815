package check

import (
	"fmt"
	"strings"
	"time"
)

// Status is the outcome of a check.
type Status string

// The outcomes of a check.
const (
	OK      Status = "ok"
	Note    Status = "note"    // passed, with a remark
	Failed  Status = "failed"  // the store does not behave as kist needs
	Skipped Status = "skipped" // not requested, or useless after a failure
)

// Result is the result of one check.
type Result struct {
	Name   string        `json:"name"` // one of the constants, as in "create-race"
	What   string        `json:"what"` // what the check shows, in one line
	Status Status        `json:"status"`
	Detail string        `json:"detail,omitempty"` // the reason; empty if OK
	Took   time.Duration `json:"took_ns"`
	Err    error         `json:"-"` // error of the failed call, if any
}

// Report has the results for a store, in the order in which the checks ran. It
// has all checks unless [Run] returned an error.
type Report struct {
	Prefix string   `json:"prefix"` // prefix of all names used, such as "probe/3f…/"
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

// Usable reports whether the store is safe for one writer at a time: nothing
// failed except checks for several writers. A store that refuses conditional
// requests, instead of ignoring the condition, is not usable as it was opened.
func (r *Report) Usable() bool {
	for i := range steps {
		if s := &steps[i]; !s.exclusive && !r.passed(s) {
			return false
		}
	}
	return true
}

// passed reports whether a step has passed.
func (r *Report) passed(s *step) bool {
	for _, c := range r.Checks {
		if c.Name == s.name {
			return c.Status == OK || c.Status == Note || c.Status == Skipped && s.optional
		}
	}
	return false
}

// String returns the report as text: one line for each check, with details if
// it is not OK.
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

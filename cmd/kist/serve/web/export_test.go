package web

import "time"

// The tests of pages do not depend on the speed of the machine.
func init() {
	for _, limit := range []*time.Duration{&maxHighlighting, &maxComparing, &maxSearching, &maxIndexing, &niceIndexing, &maxTime, &maxCounting} {
		*limit = 5 * time.Minute
	}
}

package web

import "time"

// Long limits make the tests of pages independent of the speed of the machine.
func init() {
	for _, limit := range []*time.Duration{&maxHighlighting, &maxComparing, &maxSearching, &maxRendering, &maxBlaming, &maxIndexing, &niceIndexing, &maxTime, &maxCounting} {
		*limit = 5 * time.Minute
	}
}

// Patterns returns the patterns of all pages.
func Patterns() (list []string) {
	for _, route := range routes {
		list = append(list, route.pattern)
	}
	return list
}

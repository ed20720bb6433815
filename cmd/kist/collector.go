package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// garbage is how many bytes of garbage are let be between two collections,
// within limits of least and most percent of what is in use. With little in
// use, fewer collections are worth some megabytes; with much, as with a million
// files, a collection is worth what it saves.
const (
	garbage      = 48 << 20
	leastGarbage = 15
	mostGarbage  = 1200
)

// tuneCollector sets how much garbage is let be, and does so again after each
// collection.
func tuneCollector() {
	debug.SetGCPercent(mostGarbage)
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	percent := mostGarbage
	type collected struct{ _ *byte } // with a pointer, it is not put together with others
	var again func(*collected)
	again = func(c *collected) {
		metrics.Read(live)
		if n := percentFor(live[0].Value.Uint64()); n < percent*9/10 || n > percent*11/10 {
			percent = n
			debug.SetGCPercent(percent)
		}
		runtime.SetFinalizer(c, again)
	}
	runtime.SetFinalizer(&collected{}, again)
}

// percentFor returns how much garbage is let be, in percent of so many bytes
// in use.
func percentFor(live uint64) int {
	return int(min(max(garbage*100/max(live, 1), leastGarbage), mostGarbage))
}

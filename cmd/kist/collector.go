package main

import (
	"runtime"
	"runtime/debug"
)

// garbage is the number of bytes of garbage that a collection waits for. It is at
// least leastGarbage and at most mostGarbage percent of the bytes in use. If few
// bytes are in use, fewer collections are worth some megabytes. If many are, as with
// a million files, each collection frees enough to be worth its time.
const (
	garbage      = 48 << 20
	leastGarbage = 15
	mostGarbage  = 1200
)

// tuneCollector sets the share of garbage that starts a collection. It adapts the
// share after each collection.
func tuneCollector() {
	debug.SetGCPercent(mostGarbage)
	percent := mostGarbage
	var stats runtime.MemStats       // package runtime/metrics would cost 0.1 ms before main
	type collected struct{ _ *byte } // has a pointer, so the allocator does not pack it with others
	var again func(*collected)
	again = func(c *collected) {
		runtime.ReadMemStats(&stats)
		live := stats.NextGC * 100 / uint64(100+percent)
		if n := percentFor(live); n < percent*9/10 || n > percent*11/10 {
			percent = n
			debug.SetGCPercent(percent)
		}
		runtime.SetFinalizer(c, again)
	}
	runtime.SetFinalizer(&collected{}, again)
}

// percentFor returns the garbage that starts a collection, in percent of the live
// bytes.
func percentFor(live uint64) int {
	return int(min(max(garbage*100/max(live, 1), leastGarbage), mostGarbage))
}

//go:build !race

package main

// raceDetector reports whether the race detector is built in. The detector needs extra memory.
const raceDetector = false

//go:build !race

package main

// raceDetector says whether the race detector is built in, which needs memory of
// its own.
const raceDetector = false

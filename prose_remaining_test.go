package kist_test

// remaining has, for folders that are not clean yet, how many findings of
// TestProse they may have.
var remaining = map[string]int{}

// Package history walks commits: in order for a log, and to tell how two
// commits are related. It holds no state, reads commits through an
// [object.Reader], and never recurses: a history may be as long as it likes.
//
// The times in commits come from clocks that may be wrong. They decide the
// order in which commits are visited, and with it how many are read; what is
// answered never depends on them.
package history

// Package history walks commits by date, and finds out how two commits are related. It
// holds no state, reads commits through an [object.Reader], and never recurses, so that
// a history may have any length. Package object/graph has the walks whose order does
// not matter.
//
// The times in commits come from clocks that may be wrong. They decide in which order
// commits are visited, and so how many are read. The answers never depend on them,
// except as [AheadBehind] describes.
package history

package index

import (
	"slices"
)

// notes are values that belong to paths, sorted as a walk meets the paths.
type notes[T any] struct {
	list []T
	path func(*T) string
}

func (n notes[T]) find(path string) (int, bool) {
	return slices.BinarySearchFunc(n.list, path, func(v T, path string) int { return comparePaths(n.path(&v), path) })
}

// put returns the list with v in place of what belongs to its path.
func (n notes[T]) put(v T) []T {
	i, ok := n.find(n.path(&v))
	if ok {
		n.list[i] = v
		return n.list
	}
	return slices.Insert(n.list, i, v)
}

// clear returns the list without what belongs to path or a path below it, and
// whether that was anything.
func (n notes[T]) clear(path string) ([]T, bool) {
	from, _ := n.find(path)
	to := from
	for to < len(n.list) && below(n.path(&n.list[to]), path) {
		to++
	}
	return slices.Delete(n.list, from, to), to > from
}

// clearOne returns the list without what belongs to path, and whether that was
// anything.
func (n notes[T]) clearOne(path string) ([]T, bool) {
	i, ok := n.find(path)
	if !ok {
		return n.list, false
	}
	return slices.Delete(n.list, i, i+1), true
}

func (x *Index) conflictNotes() notes[Conflict] {
	return notes[Conflict]{x.conflicts, func(c *Conflict) string { return c.Path }}
}

func (x *Index) skippedNotes() notes[skipped] {
	return notes[skipped]{x.skipped, func(s *skipped) string { return s.Path }}
}

// clearNotes removes the conflicts and skipped paths at path and below it, and
// reports whether there were any.
func (x *Index) clearNotes(path string) bool {
	conflicts, a := x.conflictNotes().clear(path)
	skipped, b := x.skippedNotes().clear(path)
	x.conflicts, x.skipped = conflicts, skipped
	x.changed = x.changed || a || b
	return a || b
}

// clearOwnNotes removes the conflict and the skipped path at path.
func (x *Index) clearOwnNotes(path string) {
	conflicts, a := x.conflictNotes().clearOne(path)
	skipped, b := x.skippedNotes().clearOne(path)
	x.conflicts, x.skipped = conflicts, skipped
	x.changed = x.changed || a || b
}

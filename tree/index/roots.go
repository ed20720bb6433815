package index

import (
	"iter"

	"github.com/kist-vcs/kist/object"
)

// Roots goes through every object that the index names, so that gc keeps it
// and verify can look for it: the contents of entries, cached trees, and the
// contents of conflicts' sides. An object may come more than once.
func (x *Index) Roots() iter.Seq[object.Key] {
	return func(yield func(object.Key) bool) {
		for d := range x.root.recorded(true) {
			if !d.tree.ID.IsZero() && !yield(object.Key{Kind: object.KindTree, ID: d.tree.ID}) {
				return
			}
			for e := range d.entries.all() {
				if !e.Content.IsZero() && !yield(e.Content) {
					return
				}
			}
		}
		for _, c := range x.conflicts {
			for _, side := range []*object.Entry{c.Base, c.Ours, c.Theirs} {
				if side != nil && !side.Content.IsZero() && !yield(side.Content) {
					return
				}
			}
		}
	}
}

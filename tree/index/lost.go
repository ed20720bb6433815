package index

import (
	"iter"

	"github.com/kist-vcs/kist/object"
)

var emptyTree, _ = object.EmptyTree()

// SetLost makes the directory at path one of unknown content: it holds nothing,
// and trees that are written have t in its place, though t is damaged or missing.
// As soon as something is set in the directory, it is one like others, with only
// that in it. Missing directories above are made, as [Index.Set] does.
func (x *Index) SetLost(path string, mode uint16, t TreeInfo) error {
	if err := x.SetDir(path, mode); err != nil {
		return err
	}
	x.setLost(x.Dir(path), t)
	return nil
}

func (x *Index) setLost(d *Dir, t TreeInfo) {
	x.empty(d)
	if d.tree == t {
		return
	}
	if d.parent != nil && d.tree.ID != t.ID {
		d.parent.forget()
	}
	d.tree = t
	x.touch(d)
}

// Lost reports whether the directory is one of unknown content, see
// [Index.SetLost].
func (d *Dir) Lost() bool {
	return d.entries.n == 0 && len(d.subs) == 0 && !d.tree.ID.IsZero() && d.tree.ID != emptyTree
}

// LostDirs goes through the directories of unknown content.
func (x *Index) LostDirs() iter.Seq2[string, *Dir] {
	return func(yield func(string, *Dir) bool) {
		for path, d := range x.Dirs() {
			if d.Lost() && !yield(path, d) {
				return
			}
		}
	}
}

package purge

import (
	"context"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs/history"
	"github.com/kist-vcs/kist/refs/intact"
	"github.com/kist-vcs/kist/tree"
)

// TargetsOf calls each for the targets in a commit and its ancestors.
func (w *Walk) TargetsOf(ctx context.Context, commit object.ID, each func(object.Key)) error {
	seen := map[object.ID]bool{}
	into := func(_ string, node object.ID) (bool, error) {
		if seen[node] {
			return false, nil
		}
		seen[node] = true
		return w.below(ctx, node)
	}

	for c, err := range history.Walk(ctx, w.r.Objects(), []object.ID{commit}, history.Options{}) {
		if err != nil {
			return err
		}
		if _, expired := w.Records.Expired(c.ID); expired && intact.IsMissing(ctx, w.r, TreeOf(c.Commit)) {
			continue
		}
		w.begin(c.ID)
		err := tree.WalkInto(ctx, w.here, c.Tree, into, func(_ string, e object.Entry) error {
			w.EachTarget(&e, each)
			return nil
		})
		if err != nil {
			return err
		}
	}

	return nil
}

// EachTarget calls each for the targets in a file. The walk must have visited the file.
func (w *Walk) EachTarget(e *object.Entry, each func(object.Key)) {
	if w.Targets[e.Content] != nil {
		each(e.Content)
	}
	for _, key := range w.lists[e.Content] {
		each(key)
	}
}

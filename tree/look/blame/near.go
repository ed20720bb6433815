package blame

import (
	"context"
	"iter"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
)

// nearVersions brings the contents of versions near, in the order in which a blame reads them. It does nothing if no content is far away.
type nearVersions struct {
	next func() (*node, error, bool) // nil: no content is far away
	stop func()
	done map[FileInCommit]bool
}

// newNearVersions returns the nearVersions of a blame of f.
func newNearVersions(ctx context.Context, h *lineage) *nearVersions {
	v := &nearVersions{stop: func() {}, done: map[FileInCommit]bool{}}
	if object.HasFar(h.r.Contents()) {
		v.next, v.stop = iter.Pull2(object.Ahead(ctx, h.r.Contents(), h.eachVersion(ctx), func(n *node) ([]object.Entry, error) {
			e, _, err := h.entryOf(ctx, n)
			if err != nil || e.Size > tree.MaxText || n.Commit.IsZero() {
				return nil, nil // a read finds the error
			}
			return []object.Entry{e}, nil
		}))
	}
	return v
}

// eachVersion yields all versions to which a blame may come.
func (h *lineage) eachVersion(ctx context.Context) iter.Seq2[*node, error] {
	return func(yield func(*node, error) bool) {
		all := newHistory(h.r, h.file, h.opt)
		all.startNode()
		for n := all.nextNode(); n != nil; n = all.nextNode() {
			_, err := all.earlierNodes(ctx, n)
			if !yield(n, err) || err != nil {
				return
			}
		}
	}
}

// bringVersion brings the content of a version near.
func (v *nearVersions) bringVersion(n *node) error {
	for v.next != nil && !v.done[n.FileInCommit] {
		at, err, more := v.next()
		if err != nil || !more {
			v.next = nil
			return err
		}
		v.done[at.FileInCommit] = true
	}
	return nil
}

package log

import (
	"context"
	"iter"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs/history"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/tree"
)

// The trees of so many commits are brought near together. The first window is small: the caller may need no more.
const (
	firstWindow = 16
	mostWindow  = 256
)

// Near yields commits. Before a commit, it brings the trees near in which that differs from its parents, together with those of the next
// commits. With paths, it brings only what a comparison of these paths reads. If no tree is far away, Near is commits.
func Near(ctx context.Context, r *kist.Repository, commits iter.Seq2[Logged, error], paths []string) iter.Seq2[Logged, error] {
	if !object.HasFarNodes(r.Objects()) {
		return commits
	}
	return func(yield func(Logged, error) bool) {
		records, err := r.RecordViewOrEmpty()
		if err != nil {
			yield(Logged{}, err)
			return
		}
		var window []Logged
		most := firstWindow
		flush := func() bool {
			var pairs [][2]object.ID
			for _, c := range window {
				pairs = append(pairs, treesOf(ctx, r, records, c.ID, c.Commit)...)
			}
			if err := tree.BringDiffs(ctx, r.Contents(), pairs, paths); err != nil {
				yield(Logged{}, err)
				return false
			}
			for _, c := range window {
				if !yield(c, nil) {
					return false
				}
			}
			window, most = nil, min(2*most, mostWindow)
			return true
		}
		for c, err := range commits {
			if err != nil {
				if flush() {
					yield(Logged{}, err)
				}
				return
			}
			if window = append(window, c); len(window) == most && !flush() {
				return
			}
		}
		flush()
	}
}

// treesOf returns the pairs of trees in which a commit is compared with its parents. It leaves out unreadable commits: the comparison
// finds the error.
func treesOf(ctx context.Context, r *kist.Repository, records *record.Effects, id object.ID, c *object.Commit) (pairs [][2]object.ID) {
	if _, expired := records.Expired(id); expired {
		return nil
	}
	if len(c.Parents) == 0 {
		return [][2]object.ID{{{}, c.Tree}}
	}
	for _, parent := range c.Parents {
		if before, err := Before(ctx, r, records, parent); err == nil {
			pairs = append(pairs, [2]object.ID{before.Tree, c.Tree})
		}
	}
	return pairs
}

// nearTrees brings the trees near that a walk through history compares.
type nearTrees struct {
	done map[object.ID]bool // commits
	most int                // of the next window
}

// bringTrees brings the trees of a commit and of the next ones near, unless it was done before.
func (n *nearTrees) bringTrees(ctx context.Context, l *commitSelector, from object.ID, paths []string) error {
	if n.done[from] || !object.HasFarNodes(l.r.Objects()) {
		return nil
	}
	if n.done == nil {
		n.done, n.most = map[object.ID]bool{}, firstWindow
	}
	var pairs [][2]object.ID
	left := n.most
	for c, err := range history.Walk(ctx, l.r.Objects(), []object.ID{from}, history.Options{}) {
		if err != nil {
			break // the walk finds the error
		}
		if !n.done[c.ID] {
			n.done[c.ID] = true
			pairs = append(pairs, treesOf(ctx, l.r, l.records, c.ID, c.Commit)...)
		}
		if left--; left == 0 {
			break
		}
	}
	n.most = min(2*n.most, mostWindow)
	return tree.BringDiffs(ctx, l.r.Contents(), pairs, paths)
}

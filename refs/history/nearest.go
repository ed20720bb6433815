package history

import (
	"container/heap"
	"context"
	"slices"

	"github.com/kist-vcs/kist/object"
)

// MaxNearest is the upper bound of limit in [Nearest].
const MaxNearest = 27

// Nearest returns the named commit nearest to start, and its distance: the number of commits
// that start reaches and the named commit does not. Named reports whether a commit has a
// name. If start reaches no named commit, the distance is negative.
//
// Nearest visits the newest commits first. It compares the first named commits that it
// meets, at most limit. Of two equally near ones it prefers the first.
func Nearest(ctx context.Context, r object.Reader, start object.ID, limit int, named func(object.ID) bool) (id object.ID, distance int, err error) {
	n := nearest{w: walker{r: r, queued: map[object.ID]bool{}}, marks: map[object.ID]uint32{}}
	if err := n.w.queueCommits(ctx, []object.ID{start}); err != nil {
		return id, -1, err
	}

	limit = min(limit, MaxNearest)
	for seen := 0; n.w.queue.Len() > 0; seen++ {
		c := heap.Pop(&n.w.queue).(entry).Commit
		if named(c.ID) {
			if len(n.found) == limit {
				n.w.queue.addCommit(c)
				break
			}
			n.found = append(n.found, candidate{c.ID, seen, 1 << len(n.found)})
			n.marks[c.ID] |= n.found[len(n.found)-1].mark
		}
		for i := range n.found {
			if f := &n.found[i]; n.marks[c.ID]&f.mark == 0 {
				f.distance++
			}
		}
		if n.w.queue.Len() == 0 && n.isCovered(c.ID) {
			break
		}
		if err := n.markParents(ctx, c); err != nil {
			return id, -1, err
		}
	}
	if len(n.found) == 0 {
		return id, -1, nil
	}

	best := slices.MinFunc(n.found, func(a, b candidate) int { return a.distance - b.distance })
	for n.w.queue.Len() > 0 && !n.onlyBelow(best.mark) {
		c := heap.Pop(&n.w.queue).(entry).Commit
		if n.marks[c.ID]&best.mark == 0 {
			best.distance++
		}
		if err := n.markParents(ctx, c); err != nil {
			return id, -1, err
		}
	}
	return best.id, best.distance, nil
}

// nearest is the state of [Nearest].
type nearest struct {
	w     walker
	found []candidate          // in the order of the walk
	marks map[object.ID]uint32 // by commit: the marks of the found commits that reach it
}

// candidate is a named commit.
type candidate struct {
	id       object.ID
	distance int // seen commits that it does not reach
	mark     uint32
}

// markParents passes the marks of a commit on to its parents, and queues these.
func (n *nearest) markParents(ctx context.Context, c Commit) error {
	for _, parent := range c.Parents {
		n.marks[parent] |= n.marks[c.ID]
	}
	return n.w.queueCommits(ctx, c.Parents)
}

// isCovered reports whether all nearest candidates reach a commit. Then its ancestors cannot
// change the result.
func (n *nearest) isCovered(id object.ID) bool {
	least := -1
	for _, f := range n.found {
		if least < 0 || f.distance < least {
			least = f.distance
		}
	}
	for _, f := range n.found {
		if f.distance == least && n.marks[id]&f.mark == 0 {
			return false
		}
	}
	return len(n.found) > 0
}

// onlyBelow reports whether all queued commits have a mark.
func (n *nearest) onlyBelow(mark uint32) bool {
	return !slices.ContainsFunc(n.w.queue.entries, func(e entry) bool { return n.marks[e.ID]&mark == 0 })
}

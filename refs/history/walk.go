// Package history walks commits by date, and finds how two commits are related. It
// holds no state, reads commits through an [object.Reader], and never recurses, so that
// a history may have any length. Package object/graph has the walks whose order does
// not matter.
//
// The times in commits come from clocks that may be wrong. They decide the order in
// which commits are visited, and so how many are read. The answers never depend on
// them, except as [AheadBehind] describes.
package history

import (
	"container/heap"
	"context"
	"iter"
	"slices"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/graph"
)

// Commit is a commit and its ID.
type Commit struct {
	ID object.ID
	*object.Commit
}

// Options select the commits that [Walk] visits, and their order. The zero value
// selects all, newest first.
type Options struct {
	Exclude     []object.ID // leave out these commits and all their ancestors
	FirstParent bool        // follow only the first parent of a merge
	Topo        bool        // visit a commit after all its children, and do not mix lines of history

	// Parents, if not nil, returns the parents with which the walk continues
	// after a commit. excluded reports whether the walk leaves out a commit.
	// Parents is called once for each commit, before the visit; with Topo,
	// before all visits.
	Parents func(c Commit, excluded func(object.ID) bool) ([]object.ID, error)
}

// Walk visits commits and their ancestors, each once. It ends with the first
// error. It passes over commits whose loss was accepted.
//
// A visit makes the parents known. Walk visits next the known commit with the
// newest committer's time. So no commit comes before its child, unless a clock
// was wrong, and the first commits come at once, however long the history is.
//
// Before the first visit, Walk reads all excluded commits, and with Topo all
// commits: because clocks may be wrong, it cannot stop earlier.
func Walk(ctx context.Context, r object.Reader, starts []object.ID, opt Options) iter.Seq2[Commit, error] {
	return func(yield func(Commit, error) bool) {
		w := walker{r: r, opt: opt, queued: map[object.ID]bool{}}
		defer w.line.stopAhead()
		var err error
		if w.excluded, err = Ancestors(ctx, r, opt.Exclude); err == nil {
			walk := w.walkByDate
			if opt.Topo {
				walk = w.walkTopo
			}
			err = walk(ctx, starts, func(c Commit) bool { return yield(c, nil) })
		}
		if err != nil {
			yield(Commit{}, err)
		}
	}
}

type walker struct {
	r   object.Reader
	opt Options

	excluded map[object.ID]bool
	queue    byTime
	queued   map[object.ID]bool // commits that are or were in the queue
	line     lineReader
}

func (w *walker) walkByDate(ctx context.Context, starts []object.ID, yield func(Commit) bool) error {
	if err := w.queueCommits(ctx, starts); err != nil {
		return err
	}
	for w.queue.Len() > 0 {
		c := heap.Pop(&w.queue).(entry).Commit
		parents, err := w.nextParents(c)
		if err != nil {
			return err
		}
		if !yield(c) {
			return nil
		}
		if err := w.queueCommits(ctx, parents); err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) queueCommits(ctx context.Context, ids []object.ID) error {
	for _, id := range ids {
		if w.excluded[id] || w.queued[id] {
			continue
		}
		w.queued[id] = true
		if object.IsLost(w.r, object.Key{Kind: object.KindCommit, ID: id}) {
			continue
		}
		c, err := w.readCommit(ctx, id)
		if err != nil {
			return err
		}
		w.queue.addCommit(Commit{id, c})
	}
	return nil
}

// nextParents returns the commits with which the walk continues after c.
func (w *walker) nextParents(c Commit) ([]object.ID, error) {
	if w.opt.FirstParent && len(c.Parents) > 1 {
		first := *c.Commit
		first.Parents = c.Parents[:1]
		c.Commit = &first
	}
	if w.opt.Parents != nil {
		return w.opt.Parents(c, func(id object.ID) bool { return w.excluded[id] })
	}
	return c.Parents, nil
}

// walkTopo visits each commit after all its children. After a merge it visits
// the line of the last parent, down to the first commit that another parent
// also reaches.
func (w *walker) walkTopo(ctx context.Context, starts []object.ID, yield func(Commit) bool) error {
	parents := map[object.ID][]object.ID{}
	children := map[object.ID]int{} // the number of children not visited yet
	err := graph.Walk(ctx, map[object.ID]bool{}, starts, func(id object.ID) ([]object.ID, error) {
		if w.excluded[id] {
			return nil, nil
		}
		all, err := w.parentsOf(ctx, id)
		if err != nil {
			return nil, err
		}
		all = slices.DeleteFunc(all, func(p object.ID) bool { return w.excluded[p] })
		parents[id] = all
		for _, p := range all {
			children[p]++
		}
		return all, nil
	})
	if err != nil {
		return err
	}

	stack, err := w.sortTips(ctx, starts, children)
	if err != nil {
		return err
	}
	for len(stack) > 0 {
		id := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		c, err := w.readCommit(ctx, id)
		if err != nil {
			return err
		}
		if !yield(Commit{id, c}) {
			return nil
		}
		for _, p := range parents[id] {
			if children[p]--; children[p] == 0 {
				stack = append(stack, p)
			}
		}
	}

	return nil
}

// parentsOf is nextParents for a commit that only opt.Parents needs in full.
func (w *walker) parentsOf(ctx context.Context, id object.ID) ([]object.ID, error) {
	if w.opt.Parents != nil {
		c, err := object.ReadCommit(ctx, w.r, id)
		if err != nil {
			return nil, err
		}
		parents, err := w.nextParents(Commit{id, c})
		return slices.Clone(parents), err
	}
	all, err := parentsOf(ctx, w.r, id)
	if w.opt.FirstParent && len(all) > 1 {
		all = all[:1]
	}
	return all, err
}

// sortTips returns the starts without children, the newest last.
func (w *walker) sortTips(ctx context.Context, starts []object.ID, children map[object.ID]int) ([]object.ID, error) {
	tips := slices.DeleteFunc(slices.Clone(starts), func(id object.ID) bool { return children[id] > 0 })
	if err := w.queueCommits(ctx, tips); err != nil { // skips excluded and repeated tips
		return nil, err
	}
	ids := make([]object.ID, w.queue.Len())
	for i := range slices.Backward(ids) {
		ids[i] = heap.Pop(&w.queue).(entry).ID
	}

	return ids, nil
}

// byTime is a heap of commits, the newest first. Among commits of the same time
// the one added first comes first.
type byTime struct {
	entries []entry
	added   int
}

type entry struct {
	Commit
	number int
}

func (q *byTime) addCommit(c Commit) {
	q.added++
	heap.Push(q, entry{c, q.added})
}

func (q *byTime) Len() int { return len(q.entries) }
func (q *byTime) Less(i, j int) bool {
	a, b := q.entries[i], q.entries[j]
	if order := a.Committer.Time.Compare(b.Committer.Time); order != 0 {
		return order > 0
	}
	return a.number < b.number
}
func (q *byTime) Swap(i, j int) { q.entries[i], q.entries[j] = q.entries[j], q.entries[i] }
func (q *byTime) Push(x any)    { q.entries = append(q.entries, x.(entry)) }
func (q *byTime) Pop() any {
	last := len(q.entries) - 1
	x := q.entries[last]
	q.entries = q.entries[:last]
	return x
}

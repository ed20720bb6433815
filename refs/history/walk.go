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

// Options say what [Walk] visits, and in which order. The zero value is all,
// newest first.
type Options struct {
	Exclude     []object.ID // leave out these commits and all their ancestors
	FirstParent bool        // follow only the first parent of a merge
	Topo        bool        // no commit before all its children, and lines of history not mixed

	// Parents, if not nil, returns the parents with which the walk continues
	// after a commit. It may ask excluded whether a commit is left out anyway.
	// It is called once for each commit, before the visit; with Topo, before
	// all visits.
	Parents func(c Commit, excluded func(object.ID) bool) ([]object.ID, error)
}

// Walk visits the commits starts and their ancestors, each once, and stops
// with the first error. It passes over commits whose loss was accepted.
//
// The newest by committer's time of those known is next, where a commit is
// known when a child was visited: so without wrong clocks no commit comes
// before a child. It is read when a child was visited, and so the first
// commits come at once, however long the history. Exclude reads, before the
// first, all that is excluded, and Topo all there is: no less would do, for no
// clock is to be trusted.
func Walk(ctx context.Context, r object.Reader, starts []object.ID, opt Options) iter.Seq2[Commit, error] {
	return func(yield func(Commit, error) bool) {
		w := walker{ctx: ctx, r: r, opt: opt, queue: &byTime{}, queued: make(map[object.ID]bool)}
		walk := w.walk
		if opt.Topo {
			walk = w.walkTopo
		}
		if err := walk(starts, func(c Commit) bool { return yield(c, nil) }); err != nil {
			yield(Commit{}, err)
		}
	}
}

type walker struct {
	ctx   context.Context
	r     object.Reader
	opt   Options
	queue *byTime

	excluded map[object.ID]bool
	queued   map[object.ID]bool // at some time
}

func (w *walker) walk(starts []object.ID, yield func(Commit) bool) (err error) {
	if w.excluded, err = Ancestors(w.ctx, w.r, w.opt.Exclude); err != nil {
		return err
	}
	if err := w.push(starts); err != nil {
		return err
	}
	for w.queue.Len() > 0 {
		c := heap.Pop(w.queue).(entry).Commit
		parents, err := w.parents(c)
		if err != nil {
			return err
		}
		if !yield(c) {
			return nil
		}
		if err := w.push(parents); err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) push(ids []object.ID) error {
	for _, id := range ids {
		if w.excluded[id] || w.queued[id] {
			continue
		}
		w.queued[id] = true
		if object.IsLost(w.r, object.Key{Kind: object.KindCommit, ID: id}) {
			continue
		}
		c, err := object.ReadCommit(w.ctx, w.r, id)
		if err != nil {
			return err
		}
		w.queue.add(Commit{id, c})
	}
	return nil
}

// parents returns the commits with which the walk goes on after c.
func (w *walker) parents(c Commit) ([]object.ID, error) {
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

// byTime is a heap of commits, the newest first, and of those of one time the
// one that was added first.
type byTime struct {
	entries []entry
	added   int
}

type entry struct {
	Commit
	number int
}

func (q *byTime) add(c Commit) {
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

// walkTopo visits commits after all their children. Of a merge's parents the
// last one's line of history comes first, as far down as it goes without one
// of the others.
func (w *walker) walkTopo(starts []object.ID, yield func(Commit) bool) (err error) {
	if w.excluded, err = Ancestors(w.ctx, w.r, w.opt.Exclude); err != nil {
		return err
	}
	parents, children, err := w.graph(starts)
	if err != nil {
		return err
	}
	stack, err := w.tips(starts, children)
	if err != nil {
		return err
	}
	for len(stack) > 0 {
		id := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		c, err := object.ReadCommit(w.ctx, w.r, id)
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

// graph reads which parents every commit to be visited has, and how many
// children.
func (w *walker) graph(starts []object.ID) (parents map[object.ID][]object.ID, children map[object.ID]int, err error) {
	parents, children = make(map[object.ID][]object.ID), make(map[object.ID]int)
	return parents, children, graph.Walk(w.ctx, map[object.ID]bool{}, starts, func(id object.ID) ([]object.ID, error) {
		if w.excluded[id] {
			return nil, nil
		}
		all, err := w.parentsOf(id)
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
}

// parentsOf returns the commits with which the walk goes on after one that is
// not read otherwise.
func (w *walker) parentsOf(id object.ID) ([]object.ID, error) {
	if w.opt.Parents != nil {
		c, err := object.ReadCommit(w.ctx, w.r, id)
		if err != nil {
			return nil, err
		}
		parents, err := w.parents(Commit{id, c})
		return slices.Clone(parents), err
	}
	all, err := parentsOf(w.ctx, w.r, id)
	if w.opt.FirstParent && len(all) > 1 {
		all = all[:1]
	}
	return all, err
}

// tips returns those of starts that are no other's ancestors, the newest last.
func (w *walker) tips(starts []object.ID, children map[object.ID]int) ([]object.ID, error) {
	tips := slices.DeleteFunc(slices.Clone(starts), func(id object.ID) bool { return children[id] > 0 })
	if err := w.push(tips); err != nil { // skips excluded and repeated tips
		return nil, err
	}
	slices.SortFunc(w.queue.entries, func(a, b entry) int {
		if order := a.Committer.Time.Compare(b.Committer.Time); order != 0 {
			return order
		}
		return b.number - a.number
	})
	ids := make([]object.ID, len(w.queue.entries))
	for i, e := range w.queue.entries {
		ids[i] = e.ID
	}
	return ids, nil
}

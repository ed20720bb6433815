package history

import (
	"container/heap"
	"context"
	"iter"

	"github.com/kist-vcs/kist/object"
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

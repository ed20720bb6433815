package history

import (
	"slices"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/graph"
)

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

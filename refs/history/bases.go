package history

import (
	"container/heap"
	"context"
	"slices"

	"github.com/kist-vcs/kist/object"
)

// painter puts marks on commits, from the newest down. The order affects only
// the speed.
type painter struct {
	ctx     context.Context
	r       object.Reader
	commits map[object.ID]*painted
	queue   byTime
	open    int               // commits in the queue for which matters is true
	matters func(m mark) bool // whether to go on for a commit with these marks
}

type painted struct {
	Commit
	marks   mark
	queued  bool
	isFound bool
}

func newPainter(ctx context.Context, r object.Reader, matters func(m mark) bool) *painter {
	return &painter{ctx: ctx, r: r, commits: make(map[object.ID]*painted), matters: matters}
}

// put adds marks to a commit, and queues it if they are new to it.
func (p *painter) put(id object.ID, m mark) (*painted, error) {
	c := p.commits[id]
	if c == nil {
		read, err := object.ReadCommit(p.ctx, p.r, id)
		if err != nil {
			return nil, err
		}
		c = &painted{Commit: Commit{id, read}}
		p.commits[id] = c
	}
	if c.marks|m == c.marks {
		return c, nil
	}
	if c.queued && p.matters(c.marks) {
		p.open--
	}
	c.marks |= m
	if p.matters(c.marks) {
		p.open++
	}
	if !c.queued {
		c.queued = true
		p.queue.add(c.Commit)
	}
	return c, nil
}

// next takes the newest commit from the queue.
func (p *painter) next() *painted {
	c := p.commits[heap.Pop(&p.queue).(entry).ID]
	c.queued = false
	if p.matters(c.marks) {
		p.open--
	}
	return c
}

// MergeBases returns the best common ancestors of a and b: those commits that
// both have, and that no other such commit has. (A commit has itself and its
// ancestors.) There is none if the histories have nothing in common, and more
// than one after merges in both directions; the newest comes first. It reads
// the commits down to the bases, and all below them only if there seems to be
// more than one.
func MergeBases(ctx context.Context, r object.Reader, a, b object.ID) ([]object.ID, error) {
	p := newPainter(ctx, r, func(m mark) bool { return m&below == 0 })
	if _, err := p.put(a, fromA); err != nil {
		return nil, err
	}
	if _, err := p.put(b, fromB); err != nil {
		return nil, err
	}
	// A best common ancestor is on a path from a, and on one from b, on which
	// no commit is below another common one. So all are found when only
	// commits below them are queued.
	var found []*painted
	for p.open > 0 {
		c := p.next()
		m := c.marks
		if m&fromBoth == fromBoth {
			if m&below == 0 && !c.isFound {
				c.isFound = true
				found = append(found, c)
			}
			m |= below
		}
		for _, parent := range c.Parents {
			if _, err := p.put(parent, m); err != nil {
				return nil, err
			}
		}
	}
	if err := p.sink(&found); err != nil {
		return nil, err
	}
	slices.SortFunc(found, func(a, b *painted) int {
		if order := b.Committer.Time.Compare(a.Committer.Time); order != 0 {
			return order
		}
		return a.ID.Compare(b.ID)
	})
	ids := make([]object.ID, len(found))
	for i, c := range found {
		ids[i] = c.ID
	}
	return ids, nil
}

// sink removes the commits from found that are below another one. A wrong clock may
// have made them be found first. It visits everything below the found commits, and
// pauses at each of them, because it can stop when only one is left.
func (p *painter) sink(found *[]*painted) error {
	seen := make(map[object.ID]bool)
	var stack []object.ID
	for _, c := range *found {
		stack = append(stack, c.Parents...)
	}
	for {
		*found = slices.DeleteFunc(*found, func(c *painted) bool { return c.marks&below != 0 })
		if len(*found) < 2 {
			return nil
		}
		met := false
		for !met {
			if len(stack) == 0 {
				return nil
			}
			id := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			if seen[id] {
				continue
			}
			seen[id] = true
			if c := p.commits[id]; c != nil {
				met = c.isFound && c.marks&below == 0
				c.marks |= below
				stack = append(stack, c.Parents...)
				continue
			}
			parents, err := parentsOf(p.ctx, p.r, id)
			if err != nil {
				return err
			}
			stack = append(stack, parents...)
		}
	}
}

// IsAncestor reports whether b has a: whether they are the same, or a is an
// ancestor of b.
func IsAncestor(ctx context.Context, r object.Reader, a, b object.ID) (bool, error) {
	// Below a there is no way to a. So only what b has and a has not matters.
	p := newPainter(ctx, r, func(m mark) bool { return m == fromB })
	target, err := p.put(a, fromA)
	if err != nil {
		return false, err
	}
	if _, err := p.put(b, fromB); err != nil {
		return false, err
	}
	for p.open > 0 && target.marks&fromB == 0 {
		c := p.next()
		for _, parent := range c.Parents {
			if _, err := p.put(parent, c.marks); err != nil {
				return false, err
			}
		}
	}
	return target.marks&fromB != 0, nil
}

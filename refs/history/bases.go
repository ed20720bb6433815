package history

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/graph"
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

// parentsOf reads a commit's parents, and no more of it than its links. It leaves
// out those whose loss was accepted; a commit that is lost itself has none.
func parentsOf(ctx context.Context, r object.Reader, id object.ID) ([]object.ID, error) {
	key := object.Key{Kind: object.KindCommit, ID: id}
	links, err := graph.Links(ctx, r, key)
	if errors.Is(err, object.ErrNotFound) && object.IsLost(r, key) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", key, err)
	}
	parents := make([]object.ID, 0, len(links))
	for _, l := range links {
		if l.Kind == object.KindCommit && !object.IsLost(r, l) {
			parents = append(parents, l.ID)
		}
	}
	return parents, nil
}

// Ancestors returns commits and all their ancestors. If it returns an error, some of
// them are missing.
func Ancestors(ctx context.Context, r object.Reader, ids []object.ID) (map[object.ID]bool, error) {
	seen := map[object.ID]bool{}
	err := graph.Walk(ctx, seen, ids, func(id object.ID) ([]object.ID, error) { return parentsOf(ctx, r, id) })
	return seen, err
}

// A mark says from where a commit can be reached.
type mark uint8

const (
	fromA mark = 1 << iota
	fromB
	below // from a commit that is reached from both
)

const fromBoth = fromA | fromB

// AheadBehind counts the commits that a has and b has not (ahead), and those
// that b has and a has not (behind), where a commit has itself and its
// ancestors.
//
// It reads the commits down to where both are the same, and those that are
// newer than the oldest of what differs; all there are if the clocks of what it
// has read were wrong, so that a commit is older than its parent. The numbers
// are exact unless that is so further down only: then a commit that both have
// may be counted, if one of the two has it in another way as well.
func AheadBehind(ctx context.Context, r object.Reader, a, b object.ID) (ahead, behind int, err error) {
	if a == b {
		return 0, 0, nil
	}
	p := newPainter(ctx, r, func(m mark) bool { return m != fromBoth })
	tip, err := p.put(a, fromA)
	if err != nil {
		return 0, 0, err
	}
	if _, err := p.put(b, fromB); err != nil {
		return 0, 0, err
	}
	oldest := tip.Committer.Time // of what only one has
	wrongClock := false
	for p.queue.Len() > 0 && (p.open > 0 || wrongClock || p.queue.entries[0].Committer.Time.Compare(oldest) >= 0) {
		c := p.next()
		if at := c.Committer.Time; c.marks != fromBoth && at.Compare(oldest) < 0 {
			oldest = at
		}
		for _, id := range c.Parents {
			parent, err := p.put(id, c.marks)
			if err != nil {
				return 0, 0, err
			}
			wrongClock = wrongClock || parent.Committer.Time.Compare(c.Committer.Time) > 0
		}
	}
	for _, c := range p.commits {
		switch c.marks {
		case fromA:
			ahead++
		case fromB:
			behind++
		}
	}
	return ahead, behind, nil
}

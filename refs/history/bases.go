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

// A mark shows from where a commit is reachable.
type mark uint8

const (
	fromA mark = 1 << iota
	fromB
	below // from a commit that is reachable from both

	fromBoth = fromA | fromB
)

// painter marks a commit and others, and passes the marks on to their ancestors, newest
// commits first. The order affects only the speed.
type painter struct {
	objects object.Reader
	matters func(m mark) bool // whether the ancestors of a commit with these marks can change the result
	commits map[object.ID]*painted
	queue   byTime
	open    int // commits in the queue for which matters is true

	wrongClock bool // a commit is older than one of its parents
}

type painted struct {
	Commit
	marks  mark
	queued bool
}

// newPainter returns a painter with a and all of b in its queue.
func newPainter(ctx context.Context, r object.Reader, matters func(mark) bool, a object.ID, b ...object.ID) (*painter, error) {
	p := &painter{objects: r, matters: matters, commits: map[object.ID]*painted{}}
	err := p.addMarks(ctx, a, fromA)
	for _, id := range b {
		if err == nil {
			err = p.addMarks(ctx, id, fromB)
		}
	}
	return p, err
}

// addMarks adds marks to a commit. It queues the commit if it did not have them all.
func (p *painter) addMarks(ctx context.Context, id object.ID, m mark) error {
	c := p.commits[id]
	if c == nil {
		read, err := object.ReadCommit(ctx, p.objects, id)
		if err != nil {
			return err
		}
		c = &painted{Commit: Commit{id, read}}
		p.commits[id] = c
	}
	if c.marks|m == c.marks {
		return nil
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
		p.queue.addCommit(c.Commit)
	}
	return nil
}

// takeNewest takes the newest commit from the queue.
func (p *painter) takeNewest() *painted {
	c := p.commits[heap.Pop(&p.queue).(entry).ID]
	c.queued = false
	if p.matters(c.marks) {
		p.open--
	}
	return c
}

// markParents adds marks to the parents of a commit.
func (p *painter) markParents(ctx context.Context, c *painted, m mark) error {
	for _, parent := range c.Parents {
		if err := p.addMarks(ctx, parent, m); err != nil {
			return err
		}
		p.wrongClock = p.wrongClock || p.commits[parent].Committer.Time.Compare(c.Committer.Time) > 0
	}
	return nil
}

// MergeBases returns the best common ancestors of a and b, the newest first: the
// common ancestors that are not ancestors of another one. A commit counts as its
// own ancestor. Unrelated histories have none. After merges in both directions
// there can be several. Several commits b count as one: as their merge.
//
// MergeBases reads the commits down to the bases. It reads the commits below
// them only if there seem to be several bases.
func MergeBases(ctx context.Context, r object.Reader, a object.ID, b ...object.ID) ([]object.ID, error) {
	p, err := newPainter(ctx, r, func(m mark) bool { return m&below == 0 }, a, b...)
	if err != nil {
		return nil, err
	}

	// A path from a, and one from b, lead to each best common ancestor without
	// passing another common ancestor. So all are found when the queue has only
	// commits below common ones.
	var found []*painted
	for p.open > 0 {
		c := p.takeNewest()
		m := c.marks
		if m&fromBoth == fromBoth {
			if m&below == 0 && !slices.Contains(found, c) {
				found = append(found, c)
			}
			m |= below
		}
		if err := p.markParents(ctx, c, m); err != nil {
			return nil, err
		}
	}

	if found, err = p.withoutBelow(ctx, found); err != nil {
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

// withoutBelow returns the found commits that are not below another one. Because of a
// wrong clock, a commit can be found before a commit above it. To detect that,
// withoutBelow visits the commits below the found ones, until only one of these is left.
func (p *painter) withoutBelow(ctx context.Context, found []*painted) ([]*painted, error) {
	found = slices.DeleteFunc(found, func(c *painted) bool { return c.marks&below != 0 })
	var starts []object.ID
	for _, c := range found {
		starts = append(starts, c.Parents...)
	}

	done := errors.New("one left")
	err := graph.Walk(ctx, map[object.ID]bool{}, starts, func(id object.ID) ([]object.ID, error) {
		if len(found) < 2 {
			return nil, done
		}
		c := p.commits[id]
		if c == nil {
			return parentsOf(ctx, p.objects, id)
		}
		found = slices.DeleteFunc(found, func(f *painted) bool { return f == c })
		return c.Parents, nil
	})
	if errors.Is(err, done) {
		err = nil
	}
	return found, err
}

// IsAncestor reports whether a is b or an ancestor of b.
func IsAncestor(ctx context.Context, r object.Reader, a, b object.ID) (bool, error) {
	// No ancestor of a leads to a, so only commits that b alone reaches matter.
	p, err := newPainter(ctx, r, func(m mark) bool { return m == fromB }, a, b)
	if err != nil {
		return false, err
	}
	target := p.commits[a]
	for p.open > 0 && target.marks&fromB == 0 {
		c := p.takeNewest()
		if err := p.markParents(ctx, c, c.marks); err != nil {
			return false, err
		}
	}

	return target.marks&fromB != 0, nil
}

// AheadBehind counts the commits that only a reaches (ahead) and that only b
// reaches (behind). A commit reaches itself and its ancestors.
//
// It reads the commits that differ, and the common ones that are at least as
// new as the oldest of these. If a commit that it read is older than its
// parent, a clock was wrong, and it reads all commits. The numbers are wrong
// only if all such commits lie further down: then a common commit may count.
func AheadBehind(ctx context.Context, r object.Reader, a, b object.ID) (ahead, behind int, err error) {
	if a == b {
		return 0, 0, nil
	}
	p, err := newPainter(ctx, r, func(m mark) bool { return m != fromBoth }, a, b)
	if err != nil {
		return 0, 0, err
	}
	oldest := p.commits[a].Committer.Time // of the commits that differ
	for p.queue.Len() > 0 && (p.open > 0 || p.wrongClock || p.queue.entries[0].Committer.Time.Compare(oldest) >= 0) {
		c := p.takeNewest()
		if at := c.Committer.Time; c.marks != fromBoth && at.Compare(oldest) < 0 {
			oldest = at
		}
		if err := p.markParents(ctx, c, c.marks); err != nil {
			return 0, 0, err
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

// parentsOf reads only the links of a commit and returns its parents. A lost
// commit, if the loss was accepted, is no parent and has no parents.
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

// Ancestors returns commits and all their ancestors. After an error, the result
// is incomplete.
func Ancestors(ctx context.Context, r object.Reader, ids []object.ID) (map[object.ID]bool, error) {
	seen := map[object.ID]bool{}
	err := graph.Walk(ctx, seen, ids, func(id object.ID) ([]object.ID, error) { return parentsOf(ctx, r, id) })
	return seen, err
}

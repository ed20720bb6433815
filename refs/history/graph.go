package history

import (
	"context"
	"errors"
	"fmt"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/graph"
)

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

package history

import (
	"context"
	"fmt"

	"github.com/kist-vcs/kist/object"
)

// parentsOf reads a commit's parents, and no more of it than its links.
func parentsOf(ctx context.Context, r object.Reader, id object.ID) ([]object.ID, error) {
	key := object.Key{Kind: object.KindCommit, ID: id}
	data, err := r.Get(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", key, err)
	}
	links, err := object.Links(object.KindCommit, data)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", key, err)
	}
	parents := make([]object.ID, 0, len(links))
	for _, l := range links {
		if l.Kind == object.KindCommit {
			parents = append(parents, l.ID)
		}
	}
	return parents, nil
}

// ancestors returns the commits and all their ancestors.
func ancestors(ctx context.Context, r object.Reader, ids []object.ID) (map[object.ID]bool, error) {
	seen := make(map[object.ID]bool)
	for stack := append([]object.ID(nil), ids...); len(stack) > 0; {
		id := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if seen[id] {
			continue
		}
		seen[id] = true
		parents, err := parentsOf(ctx, r, id)
		if err != nil {
			return nil, err
		}
		stack = append(stack, parents...)
	}
	return seen, nil
}

// A mark says from where a commit can be reached.
type mark uint8

const (
	fromA mark = 1 << iota
	fromB
	below // from a commit that is reached from both
)

const fromBoth = fromA | fromB

// A marked is a commit on which marks are put.
type marked struct {
	marks   mark
	parents []object.ID
}

// AheadBehind counts the commits that a has and b has not (ahead), and those
// that b has and a has not (behind), where a commit has itself and its
// ancestors. It reads all commits that either has, or none if they are the
// same.
func AheadBehind(ctx context.Context, r object.Reader, a, b object.ID) (ahead, behind int, err error) {
	if a == b {
		return 0, 0, nil
	}
	commits := make(map[object.ID]*marked)
	type visit struct {
		id    object.ID
		marks mark
	}
	for stack := []visit{{a, fromA}, {b, fromB}}; len(stack) > 0; {
		v := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		c := commits[v.id]
		if c == nil {
			c = &marked{}
			commits[v.id] = c
			if c.parents, err = parentsOf(ctx, r, v.id); err != nil {
				return 0, 0, err
			}
		}
		if c.marks|v.marks == c.marks {
			continue
		}
		c.marks |= v.marks
		for _, p := range c.parents {
			stack = append(stack, visit{p, c.marks})
		}
	}
	for _, c := range commits {
		switch c.marks {
		case fromA:
			ahead++
		case fromB:
			behind++
		}
	}
	return ahead, behind, nil
}

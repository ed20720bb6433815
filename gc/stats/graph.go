package stats

import (
	"context"

	"github.com/kist-vcs/kist/object"
)

// graph is the histories of some commits, in memory.
type graph struct {
	objects object.Reader
	skips   func(from, to object.Key) bool // see [gc.Holders]
	at      map[object.ID]int
	commits []graphCommit // parents before their children
}

type graphCommit struct {
	id           object.ID
	content      []object.Key // the tree, and the list of what was skipped; none if it has expired
	parents      []int
	files, bytes uint64
}

// add adds a commit and its history.
func (g *graph) add(ctx context.Context, id object.ID) error {
	type open struct {
		id object.ID
		c  *object.Commit
	}
	stack := []open{{id: id}}
	for len(stack) > 0 {
		top := &stack[len(stack)-1]
		if _, known := g.at[top.id]; known {
			stack = stack[:len(stack)-1]
			continue
		}
		if top.c == nil {
			c, err := object.ReadCommit(ctx, g.objects, top.id)
			if err != nil {
				return err
			}
			top.c = c
			for _, p := range c.Parents {
				if _, known := g.at[p]; !known {
					stack = append(stack, open{id: p})
				}
			}
			continue
		}
		c := graphCommit{id: top.id, files: top.c.Files, bytes: top.c.Bytes}
		for _, key := range []object.Key{{Kind: object.KindTree, ID: top.c.Tree}, {Kind: object.KindChunk, ID: top.c.SkippedRest}} {
			if !key.ID.IsZero() && !g.skips(c.key(), key) {
				c.content = append(c.content, key)
			}
		}
		for _, p := range top.c.Parents {
			c.parents = append(c.parents, g.at[p])
		}
		g.at[top.id] = len(g.commits)
		g.commits = append(g.commits, c)
		stack = stack[:len(stack)-1]
	}
	return nil
}

// spread gives each commit the sets of the commits that have it in their
// history.
func (g *graph) spread(sets []uint64) {
	for i := len(g.commits) - 1; i >= 0; i-- {
		for _, p := range g.commits[i].parents {
			sets[p] |= sets[i]
		}
	}
}

func (c *graphCommit) key() object.Key { return object.Key{Kind: object.KindCommit, ID: c.id} }

// history returns how many bytes the commit adds to those of all.
func (c *graphCommit) history() uint64 {
	if len(c.content) == 0 {
		return 0
	}
	return c.bytes
}

package stats

import (
	"context"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/graph"
	"github.com/kist-vcs/kist/object/volume"
)

// histories are commits with all their ancestors, in memory.
type histories struct {
	objects object.Reader
	skips   func(from, to object.Key) bool // see [gc.Holders]
	at      map[object.ID]int
	commits []graphCommit // parents before their children
}

type graphCommit struct {
	id           object.ID
	content      []object.Key // the tree and the list of skipped paths; none if expired
	parents      []int
	files, bytes uint64
}

// add adds a commit with its history.
func (g *histories) add(ctx context.Context, id object.ID) error {
	_, err := graph.Fold(ctx, g.at, id, func(id object.ID) (*object.Commit, []object.ID, error) {
		c, err := object.ReadCommit(ctx, g.objects, id)
		if err != nil {
			return nil, nil, err
		}
		return c, c.Parents, nil
	}, func(id object.ID, from *object.Commit) (int, error) {
		c := graphCommit{id: id, files: from.Files, bytes: from.Bytes}
		for _, key := range []object.Key{{Kind: object.KindTree, ID: from.Tree}, {Kind: object.KindChunk, ID: from.SkippedRest}} {
			if !key.ID.IsZero() && !g.skips(c.key(), key) {
				c.content = append(c.content, key)
			}
		}
		for _, p := range from.Parents {
			c.parents = append(c.parents, g.at[p])
		}
		g.commits = append(g.commits, c)
		return len(g.commits) - 1, nil
	})
	return err
}

// spread adds to the set of each commit the sets of its descendants.
func (g *histories) spread(sets []uint64) {
	for i := len(g.commits) - 1; i >= 0; i-- {
		for _, p := range g.commits[i].parents {
			sets[p] |= sets[i]
		}
	}
}

func (c *graphCommit) key() object.Key { return object.Key{Kind: object.KindCommit, ID: c.id} }

// history returns the size of the commit's content, 0 if it has expired.
func (c *graphCommit) history() uint64 {
	if len(c.content) == 0 {
		return 0
	}
	return c.bytes
}

// Size is the total of a set of objects, each counted once, in bytes.
type Size struct {
	Content int64 // of the chunks
	Stored  int64 // of the stored values of all objects: compressed, without the overhead of a volume

	Lost []object.Key // missing objects whose loss was accepted; they count nothing
}

// Below returns the size of some objects and of all objects below them. It calls each
// with the size of every object.
func Below(ctx context.Context, store *volume.Store, keys []object.Key, each func(raw int64)) (Size, error) {
	var size Size
	err := graph.Walk(ctx, map[object.Key]bool{}, keys, func(key object.Key) ([]object.Key, error) {
		raw, stored, err := store.StoredSize(ctx, key)
		if err != nil && store.IsLost(key) {
			size.Lost = append(size.Lost, key)
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		each(raw)
		size.Stored += stored
		if !key.Kind.IsNode() {
			size.Content += raw
		}
		return graph.Links(ctx, store, key)
	})
	return size, err
}

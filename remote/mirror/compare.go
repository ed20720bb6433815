package mirror

import (
	"cmp"
	"context"
	"slices"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/graph"
	"github.com/kist-vcs/kist/remote/pack"
	"github.com/kist-vcs/kist/remote/transfer"
)

// Difference is a ref that two remotes do not have with the same value.
type Difference struct {
	Name     string    // full
	From, To object.ID // zero: the remote does not have it
}

// Comparison is the result of [Compare].
type Comparison struct {
	Refs    []Difference // sorted by name
	Records int          // records of the source that the target does not have
	Objects int64        // that the compared refs of the source reach
	Missing []object.Key // objects of these that the target does not have: at most mostMissing
}

// mostMissing is the most missing objects that a comparison lists.
const mostMissing = 100

// Same reports whether the target has everything.
func (c *Comparison) Same() bool { return len(c.Refs) == 0 && c.Records == 0 && len(c.Missing) == 0 }

// Compare compares refs and records of two remotes, and looks up in the target's index every object that the refs of the source
// reach. It reads the nodes of the source. With o.Prune, the target may not have other refs. Both remotes were opened with folders.
func Compare(ctx context.Context, from, to *transfer.Remote, o Options) (*Comparison, error) {
	if err := transfer.NeedFolder(to, "compare"); err != nil {
		return nil, err
	}
	src, err := openSource(ctx, from, to.Options().Dir)
	if err != nil {
		return nil, err
	}
	defer src.close()
	target, err := to.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	updates, err := updatesOf(src.State.Refs, target.State.Refs, o)
	if err != nil {
		return nil, err
	}

	c := &comparer{source: src, target: target, seen: map[object.Key]struct{}{}, Comparison: &Comparison{}}
	var front []pack.Entry
	for _, u := range updates {
		if there := target.State.Refs[u.Name]; there != u.New {
			c.Refs = append(c.Refs, Difference{u.Name, u.New.ID, there.ID})
		}
		if !u.New.IsZero() {
			if front, err = c.visit(front, u.New); err != nil {
				return nil, err
			}
		}
	}
	slices.SortFunc(c.Refs, func(a, b Difference) int { return cmp.Compare(a.Name, b.Name) })
	if len(o.Refs) == 0 {
		c.Records = len(src.State.Records.Newer(target.State.Records))
	}
	return c.Comparison, graph.Batches(ctx, front, transfer.BatchSize, func(batch []pack.Entry) ([]pack.Entry, error) { return c.visitLinks(ctx, batch) })
}

// comparer is a comparison under way.
type comparer struct {
	*source
	*Comparison
	target *transfer.Snapshot
	seen   map[object.Key]struct{}
}

// visit looks up an object in the target. It appends a node that is new to front.
func (c *comparer) visit(front []pack.Entry, key object.Key) ([]pack.Entry, error) {
	if _, seen := c.seen[key]; seen {
		return front, nil
	}
	c.seen[key] = struct{}{}
	c.Objects++
	_, there, err := c.target.Find(key)
	if err != nil {
		return front, err
	}
	if !there && len(c.Missing) < mostMissing {
		c.Missing = append(c.Missing, key)
	}
	if !key.Kind.IsNode() {
		return front, nil
	}
	p, err := c.Locate(key)
	return append(front, p.Entry), err
}

// visitLinks visits the objects to which nodes of the source link.
func (c *comparer) visitLinks(ctx context.Context, nodes []pack.Entry) (next []pack.Entry, err error) {
	c.parts.LoadValues(ctx, nodes)
	links := make([][]object.Key, len(nodes))
	err = transfer.Parallel(ctx, c.from.Options().Jobs, len(nodes), func(ctx context.Context, i int) error {
		data, err := c.ReadNode(ctx, c.parts, nodes[i])
		if err == nil {
			links[i], err = object.Links(nodes[i].Key.Kind, data)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	for i, e := range nodes {
		for _, key := range links[i] {
			if c.source.Snapshot.Records.Skips(e.Key, key) {
				continue
			}
			if next, err = c.visit(next, key); err != nil {
				return nil, err
			}
		}
	}
	return next, nil
}

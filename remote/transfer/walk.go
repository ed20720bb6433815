package transfer

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs/record"
)

// A graph is what [walk] needs to know of the two ends of a transfer: the one
// that has what is wanted, and the one that is to have it.
type graph interface {
	// node returns a wanted node, which the walk goes through. An error that
	// matches [object.ErrNotFound] says that the giving end lacks it.
	node(ctx context.Context, key object.Key) ([]byte, error)

	// links returns the links of wanted nodes, one list for each. It may be
	// asked for some that node was asked for before, and its error for one
	// that is lacking is as node's, and says which.
	links(ctx context.Context, nodes []object.Key) ([][]object.Key, error)

	// chunks is told of wanted chunks, of some more than once. It may change
	// keys. Its error for one that is lacking is as that of links.
	chunks(ctx context.Context, keys []object.Key) error

	// certain returns a node that the receiving end has for certain, with all
	// below it. If it cannot be looked at, the error matches
	// [object.ErrNotFound] or [object.ErrCorrupt], and more is walked than need be.
	certain(ctx context.Context, key object.Key) ([]byte, error)
}

// said is what records say of what the receiving end has: what need not be
// there now, and so may not be (WALK_EXPIRED), and what need not afterwards.
type said struct{ before, after *record.View }

// batchSize is how many nodes are asked for at once: with the most links that
// nodes may have, 8 MiB of them.
const batchSize = 256

// need is an object and the commit, by its number, that needs it.
type need struct {
	object.Key
	by int32
}

// walk goes through everything that the objects in want refer to, them
// included, but for what the commits in have refer to, all of which is at the
// receiving end. It stops nowhere else: that a node is there says nothing of
// what is below it (STOP_AT_REFS). What is wanted may be of any kind; every
// node is asked for once as long as [graph.links] is concerned.
//
// What the receiving end does not need according to s is left out.
//
// giver names, in errors, the end that has what is wanted.
func walk(ctx context.Context, g graph, giver string, want []object.Key, have []object.ID, s said) error {
	w := newWalker(g, giver)
	w.said = s
	rest, err := w.history(ctx, want, have)
	if err != nil {
		return err
	}
	if err := w.trees(ctx, rest, nil); err != nil {
		return err
	}
	if !w.met {
		// Nothing is certain: there is nothing to compare with.
		var all []need
		for _, c := range w.wanted {
			all = append(all, w.below(c)...)
		}
		return w.trees(ctx, all, nil)
	}
	for _, c := range slices.Backward(w.wanted) {
		if err := w.trees(ctx, w.below(c), w.bases(c)); err != nil {
			return err
		}
		c.done = true
	}
	return nil
}

// walker is a walk under way.
type walker struct {
	g     graph
	giver string
	said  said

	past   map[object.ID]*commit
	queue  byDate
	open   int       // commits in the queue that are not certain
	met    bool      // some wanted commit has a certain one
	order  []*commit // wanted, when they were met; their number is the place here
	wanted []*commit // those that are not certain, mostly newest first

	covered map[object.Key]struct{} // nodes that are certain, walked, or about to be
}

func newWalker(g graph, giver string) *walker {
	return &walker{g: g, giver: giver, past: map[object.ID]*commit{}, covered: map[object.Key]struct{}{}}
}

// bases returns the trees of a commit's parents of which everything is certain
// or was walked: as many as it pays to compare with.
func (w *walker) bases(c *commit) []object.Key {
	const enough = 4
	var trees []object.Key
	for id := range c.parents {
		p := w.past[id]
		if p == nil || len(trees) == enough || !w.whole(p) {
			continue
		}
		for _, key := range p.links {
			if key.Kind == object.KindTree && !w.said.before.Lost(key) {
				trees = append(trees, key)
			}
		}
	}
	return trees
}

// whole reports whether a commit's content is at the receiving end, or was
// walked.
func (w *walker) whole(c *commit) bool {
	switch {
	case c.certain:
		_, expired := w.said.before.Expired(c.id)
		return !expired
	case c.done:
		_, expired := w.said.after.Expired(c.id)
		return !expired
	}
	return false
}

// trees walks what nodes and chunks refer to, level by level, them included.
// Beside it goes a walk of bases, nodes of which everything is certain or was
// walked: what they link to is left out. So two trees that differ little cost
// little.
func (w *walker) trees(ctx context.Context, top []need, bases []object.Key) error {
	for _, key := range bases {
		w.covered[key] = struct{}{}
	}
	front, err := w.fresh(ctx, nil, top, nil)
	for len(front) > 0 && err == nil {
		var known *baseLinks
		if known, err = w.known(ctx, bases); err != nil {
			return err
		}
		var next []need
		for batch := range slices.Chunk(front, batchSize) {
			if next, err = w.step(ctx, next, batch, known); err != nil {
				return err
			}
		}
		bases = known.left(4*len(next) + 64)
		front = next
	}
	return err
}

// step asks for the links of some nodes, and adds to next those nodes that are
// to be walked.
func (w *walker) step(ctx context.Context, next, batch []need, known *baseLinks) ([]need, error) {
	nodes := make([]object.Key, len(batch))
	for i, n := range batch {
		nodes[i] = n.Key
	}
	lists, err := w.g.links(ctx, nodes)
	if err != nil {
		return nil, w.lacks(err, batch)
	}
	var below []need
	for i, list := range lists {
		for _, key := range list {
			if !w.said.after.Skips(batch[i].Key, key) {
				below = append(below, need{key, batch[i].by})
			}
		}
	}
	return w.fresh(ctx, next, below, known)
}

// fresh adds to next those nodes of needs that are to be walked, and hands on
// chunks.
func (w *walker) fresh(ctx context.Context, next, needs []need, known *baseLinks) ([]need, error) {
	var chunks []need
	for _, n := range needs {
		if known.take(n.Key) {
			continue
		}
		if !n.Kind.IsNode() {
			chunks = append(chunks, n)
		} else if _, ok := w.covered[n.Key]; !ok {
			w.covered[n.Key] = struct{}{}
			next = append(next, n)
		}
	}
	if len(chunks) == 0 {
		return next, nil
	}
	keys := make([]object.Key, len(chunks))
	for i, n := range chunks {
		keys[i] = n.Key
	}
	return next, w.lacks(w.g.chunks(ctx, keys), chunks)
}

// lacks says of an error that says that an object is lacking which commit
// needs it, if it is one of needs.
func (w *walker) lacks(err error, needs []need) error {
	var missing *object.NotFoundError
	if !errors.As(err, &missing) {
		return err
	}
	i := slices.IndexFunc(needs, func(n need) bool { return n.Key == missing.Key })
	if i < 0 || needs[i].by < 0 {
		return fmt.Errorf("%s lacks %s: %w", w.giver, missing.Key, err)
	}
	return fmt.Errorf("%s lacks %s, which commit %s needs: %w", w.giver, missing.Key, w.order[needs[i].by].id.Short(), err)
}

package transfer

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kist-vcs/kist/object"
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
// what is below it (STOP_AT_PRESENT). What is wanted may be of any kind; every
// node is asked for once as long as [graph.links] is concerned.
//
// giver names, in errors, the end that has what is wanted.
func walk(ctx context.Context, g graph, giver string, want []object.Key, have []object.ID) error {
	w := newWalker(g, giver)
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
			all = append(all, c.below()...)
		}
		return w.trees(ctx, all, nil)
	}
	for _, c := range slices.Backward(w.wanted) {
		if err := w.trees(ctx, c.below(), w.bases(c)); err != nil {
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

// commit is a commit that a walk has met.
type commit struct {
	id      object.ID
	links   []object.Key
	date    object.Time
	number  int32 // among those wanted; -1: it is not, as far as is known
	certain bool
	queued  bool
	done    bool // all below it was walked
}

// below returns what a commit needs but for its parents.
func (c *commit) below() []need {
	var needs []need
	for _, key := range c.links {
		if key.Kind != object.KindCommit {
			needs = append(needs, need{key, c.number})
		}
	}
	return needs
}

func (c *commit) parents(yield func(object.ID) bool) {
	for _, key := range c.links {
		if key.Kind == object.KindCommit && !yield(key.ID) {
			return
		}
	}
}

// history goes through commits, from the newest down, until what is left is
// certain. Dates decide how soon that is, and nothing else. It returns what is
// wanted other than commits and tags.
func (w *walker) history(ctx context.Context, want []object.Key, have []object.ID) (rest []need, err error) {
	for _, id := range have {
		if err := w.putCertain(ctx, id); err != nil {
			return nil, err
		}
	}
	for _, key := range want {
		for key.Kind == object.KindTag {
			links, err := w.g.links(ctx, []object.Key{key})
			if err != nil {
				return nil, w.lacks(err, []need{{key, -1}})
			}
			key = links[0][0] // a tag has one link
		}
		if key.Kind != object.KindCommit {
			rest = append(rest, need{key, -1})
		} else if err := w.putWanted(ctx, key.ID, -1); err != nil {
			return nil, err
		}
	}
	for w.open > 0 {
		c := heap.Pop(&w.queue).(*commit)
		c.queued = false
		if !c.certain {
			w.open--
		}
		for id := range c.parents {
			if c.certain {
				err = w.putCertain(ctx, id)
			} else {
				err = w.putWanted(ctx, id, c.number)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	for _, c := range w.order {
		if !c.certain {
			w.wanted = append(w.wanted, c)
		}
	}
	slices.SortStableFunc(w.wanted, func(a, b *commit) int { return b.date.Compare(a.date) })
	return rest, nil
}

// putWanted adds a commit that is wanted, by another one or, if that is -1, by
// whoever asked for the walk.
func (w *walker) putWanted(ctx context.Context, id object.ID, by int32) error {
	c := w.past[id]
	if c != nil {
		w.met = w.met || c.certain
		return nil
	}
	key := object.Key{Kind: object.KindCommit, ID: id}
	data, err := w.g.node(ctx, key)
	if err != nil {
		return w.lacks(err, []need{{key, by}})
	}
	if c, err = parseCommit(id, data); err != nil {
		return err
	}
	c.number = int32(len(w.order))
	w.order = append(w.order, c)
	w.past[id] = c
	w.enqueue(c)
	return nil
}

// putCertain adds a commit that is certain, if it can be looked at.
func (w *walker) putCertain(ctx context.Context, id object.ID) error {
	c := w.past[id]
	switch {
	case c == nil:
		data, err := w.g.certain(ctx, object.Key{Kind: object.KindCommit, ID: id})
		if errors.Is(err, object.ErrNotFound) || errors.Is(err, object.ErrCorrupt) {
			return nil
		}
		if err != nil {
			return err
		}
		if c, err = parseCommit(id, data); err != nil {
			return err
		}
		w.past[id] = c
	case c.certain:
		return nil
	default:
		w.met = true
		if c.queued {
			w.open--
		}
	}
	c.certain = true
	w.enqueue(c)
	return nil
}

func (w *walker) enqueue(c *commit) {
	if !c.certain {
		w.open++
	}
	if !c.queued {
		c.queued = true
		heap.Push(&w.queue, c)
	}
}

func parseCommit(id object.ID, data []byte) (*commit, error) {
	key := object.Key{Kind: object.KindCommit, ID: id}
	decoded, err := object.DecodeCommit(data)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", key, err)
	}
	links, err := object.Links(object.KindCommit, data)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", key, err)
	}
	return &commit{id: id, links: links, date: decoded.Committer.Time, number: -1}, nil
}

// bases returns the trees of a commit's parents of which everything is certain
// or was walked: as many as it pays to compare with.
func (w *walker) bases(c *commit) []object.Key {
	const enough = 4
	var trees []object.Key
	for id := range c.parents {
		p := w.past[id]
		if p == nil || !p.certain && !p.done || len(trees) == enough {
			continue
		}
		for _, key := range p.links {
			if key.Kind == object.KindTree {
				trees = append(trees, key)
			}
		}
	}
	return trees
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
			below = append(below, need{key, batch[i].by})
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

// baseLinks are the links of bases at one level. The zero pointer has none.
type baseLinks struct {
	order []object.Key
	taken map[object.Key]bool // whether what is wanted links there too
}

// known returns the links of bases, all of which are then covered.
func (w *walker) known(ctx context.Context, bases []object.Key) (*baseLinks, error) {
	known := &baseLinks{taken: map[object.Key]bool{}}
	for _, key := range bases {
		data, err := w.g.certain(ctx, key)
		if errors.Is(err, object.ErrNotFound) || errors.Is(err, object.ErrCorrupt) {
			continue
		}
		if err != nil {
			return nil, err
		}
		links, err := object.Links(key.Kind, data)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", key, err)
		}
		for _, link := range links {
			if _, ok := known.taken[link]; ok {
				continue
			}
			known.taken[link] = false
			if link.Kind.IsNode() {
				known.order = append(known.order, link)
				w.covered[link] = struct{}{}
			}
		}
	}
	return known, nil
}

// take reports whether bases link to key, and notes that what is wanted does.
func (k *baseLinks) take(key object.Key) bool {
	if k == nil {
		return false
	}
	_, ok := k.taken[key]
	if ok {
		k.taken[key] = true
	}
	return ok
}

// left returns nodes to which only bases link, at most max of them: so the
// walk of bases never costs more than in proportion to the other.
func (k *baseLinks) left(max int) []object.Key {
	left := slices.DeleteFunc(k.order, func(key object.Key) bool { return k.taken[key] })
	return left[:min(max, len(left))]
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

// byDate is a heap of commits, the newest first.
type byDate []*commit

func (q byDate) Len() int { return len(q) }
func (q byDate) Less(i, j int) bool {
	if order := q[i].date.Compare(q[j].date); order != 0 {
		return order > 0
	}
	return cmp.Less(q[i].number, q[j].number)
}
func (q byDate) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *byDate) Push(c any)   { *q = append(*q, c.(*commit)) }
func (q *byDate) Pop() any {
	last := len(*q) - 1
	c := (*q)[last]
	*q = (*q)[:last]
	return c
}

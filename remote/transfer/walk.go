package transfer

import (
	"context"
	"fmt"
	"slices"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs/record"
)

// ends is the view that [walkWanted] has of the two ends of a transfer: the giver has
// the wanted objects, and the receiver gets them.
type ends interface {
	// giverName names the giver in errors.
	giverName() string

	// node returns a wanted node, and the walk follows its links. The error matches
	// [object.ErrNotFound] if the giver does not have the node.
	wantedNode(ctx context.Context, key object.Key) ([]byte, error)

	// links returns the links of wanted nodes, one list for each. Nodes that wantedNode
	// returned before may be among them. The error for a missing node is the same
	// as that of wantedNode, and names the missing object.
	linksOf(ctx context.Context, nodes []object.Key) ([][]object.Key, error)

	// chunks receives the wanted chunks, some of them more than once. It may change
	// keys. The error for a missing chunk is the same as that of linksOf.
	takeChunks(ctx context.Context, keys []object.Key) error

	// certain returns a node that the receiver is known to have, with everything
	// below it. If the node cannot be read, the error matches [object.ErrNotFound]
	// or [object.ErrCorrupt], or is an [*object.AwayError], and the walk visits more than necessary.
	certainNode(ctx context.Context, key object.Key) ([]byte, error)
}

// readLinks returns the links of nodes, which it reads with get, jobs at once.
func readLinks(ctx context.Context, jobs int, nodes []object.Key, get func(context.Context, object.Key) ([]byte, error)) ([][]object.Key, error) {
	lists := make([][]object.Key, len(nodes))
	return lists, Parallel(ctx, jobs, len(nodes), func(ctx context.Context, i int) error {
		data, err := get(ctx, nodes[i])
		if err == nil {
			lists[i], err = object.Links(nodes[i].Kind, data)
		}
		return err
	})
}

// recordViews are the receiver's records before and after the transfer. Objects
// that before does not require may be absent now (WALK_EXPIRED). Objects that after
// does not require may be absent afterwards.
type recordViews struct{ before, after *record.Effects }

// BatchSize is the number of nodes in one request for links. With the most links
// that nodes may have, that is 8 MiB of nodes.
const BatchSize = 256

// need is an object and the number of the commit that needs it.
type need struct {
	object.Key
	by int32
}

// walkWanted visits the objects in want and all objects below them. It skips all objects
// below the commits in have. The receiver has all that those commits need. The walk
// stops nowhere else: a node that is present proves nothing about the objects below
// it (STOP_AT_REFS). Wanted objects may be of any kind. The walk passes every node
// to [ends.linksOf] at most once.
//
// It leaves out the objects that the receiver does not need according to views.
func walkWanted(ctx context.Context, e ends, want []object.Key, have []object.ID, views recordViews) error {
	w := newWalker(e, views)
	rest, err := w.walkHistory(ctx, want, have)
	if err != nil {
		return err
	}
	if err := w.walkTrees(ctx, rest, nil); err != nil {
		return err
	}
	if !w.met {
		// Nothing is certain: there is nothing to compare with.
		var all []need
		for _, c := range w.wanted {
			all = append(all, w.contentNeeds(c)...)
		}
		return w.walkTrees(ctx, all, nil)
	}

	for _, c := range slices.Backward(w.wanted) {
		if err := w.walkTrees(ctx, w.contentNeeds(c), w.knownTrees(c)); err != nil {
			return err
		}
		c.done = true
	}
	return nil
}

// walker is a walk under way.
type walker struct {
	ends  ends
	views recordViews

	past   map[object.ID]*commit
	queue  byDate
	open   int       // commits in the queue that are not certain
	met    bool      // a wanted commit has a certain parent
	order  []*commit // the wanted ones; commit.number is the place here
	wanted []*commit // those of order that are not certain, mostly newest first

	covered map[object.Key]struct{} // nodes that are certain, walked, or about to be
}

func newWalker(e ends, views recordViews) *walker {
	return &walker{ends: e, views: views, past: map[object.ID]*commit{}, covered: map[object.Key]struct{}{}}
}

// knownTrees returns trees of the commit's parents that are certain or were walked in
// full. It returns only as many as are worth comparing with.
func (w *walker) knownTrees(c *commit) []object.Key {
	const enough = 4
	var trees []object.Key
	for id := range c.parents {
		p := w.past[id]
		if p == nil || len(trees) == enough || !w.contentDone(p) {
			continue
		}
		for _, key := range p.links {
			if key.Kind == object.KindTree && !w.views.before.Lost(key) {
				trees = append(trees, key)
			}
		}
	}
	return trees
}

// contentDone reports whether the receiver has a commit's content, or the content
// was walked.
func (w *walker) contentDone(c *commit) bool {
	switch {
	case c.certain:
		_, expired := w.views.before.Expired(c.id)
		return !expired
	case c.done:
		_, expired := w.views.after.Expired(c.id)
		return !expired
	}
	return false
}

// walkTrees walks nodes and chunks, and all that they refer to, level by level. At the
// same time it walks the bases: nodes that are certain or were walked, with
// everything below them. It leaves out the objects that bases link to. So the walk
// of two trees that differ little costs little.
func (w *walker) walkTrees(ctx context.Context, top []need, bases []object.Key) error {
	for _, key := range bases {
		w.covered[key] = struct{}{}
	}
	front, err := w.addFresh(ctx, nil, top, nil)
	for len(front) > 0 && err == nil {
		var known *baseLinks
		if known, err = w.linksOfBases(ctx, bases); err != nil {
			return err
		}
		var next []need
		for batch := range slices.Chunk(front, BatchSize) {
			if next, err = w.readBatch(ctx, next, batch, known); err != nil {
				return err
			}
		}
		bases = known.untakenNodes(4*len(next) + 64)
		front = next
	}
	return err
}

// readBatch reads the links of a batch of nodes, and appends the nodes to walk to next.
func (w *walker) readBatch(ctx context.Context, next, batch []need, known *baseLinks) ([]need, error) {
	nodes := make([]object.Key, len(batch))
	for i, n := range batch {
		nodes[i] = n.Key
	}
	lists, err := w.ends.linksOf(ctx, nodes)
	if err != nil {
		return nil, w.explainMissing(err, batch)
	}
	var below []need
	for i, list := range lists {
		for _, key := range list {
			if !w.views.after.Skips(batch[i].Key, key) {
				below = append(below, need{key, batch[i].by})
			}
		}
	}
	return w.addFresh(ctx, next, below, known)
}

// addFresh appends the nodes of needs that are still to be walked to next, and passes
// the chunks to the receiver.
func (w *walker) addFresh(ctx context.Context, next, needs []need, known *baseLinks) ([]need, error) {
	var chunks []need
	for _, n := range needs {
		if known.takeLink(n.Key) {
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
	return next, w.explainMissing(w.ends.takeChunks(ctx, keys), chunks)
}

// explainMissing adds the giver to an error for a missing object, and the commit
// that needs the object if it is one of needs. It returns all other errors
// unchanged.
func (w *walker) explainMissing(err error, needs []need) error {
	missing, ok := object.AbsentKey(err, object.ErrNotFound)
	if !ok {
		return err
	}
	i := slices.IndexFunc(needs, func(n need) bool { return n.Key == missing })
	if i < 0 || needs[i].by < 0 {
		return fmt.Errorf("%s lacks %s: %w", w.ends.giverName(), missing, err)
	}
	return fmt.Errorf("%s lacks %s, which commit %s needs: %w", w.ends.giverName(), missing, w.order[needs[i].by].id.Short(), err)
}

// baseLinks are the links of bases at one level. The zero pointer has none.
type baseLinks struct {
	order []object.Key
	taken map[object.Key]bool // by link: whether a wanted object also has it
}

// linksOfBases returns the links of bases. From then on, all of them are covered.
func (w *walker) linksOfBases(ctx context.Context, bases []object.Key) (*baseLinks, error) {
	known := &baseLinks{taken: map[object.Key]bool{}}
	for _, key := range bases {
		data, err := w.ends.certainNode(ctx, key)
		if object.IsUnreadable(err) || object.IsAway(err) {
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
			if w.views.before.Skips(key, link) {
				continue
			}
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

// takeLink reports whether bases link to key. It notes that a wanted object does.
func (k *baseLinks) takeLink(key object.Key) bool {
	if k == nil {
		return false
	}
	_, ok := k.taken[key]
	if ok {
		k.taken[key] = true
	}
	return ok
}

// untakenNodes returns at most max nodes to which only bases link. The limit keeps the cost of
// the walk of bases in proportion to that of the wanted objects.
func (k *baseLinks) untakenNodes(max int) []object.Key {
	left := slices.DeleteFunc(k.order, func(key object.Key) bool { return k.taken[key] })
	return left[:min(max, len(left))]
}

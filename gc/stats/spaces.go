package stats

import (
	"context"
	"slices"

	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/graph"
	"github.com/kist-vcs/kist/object/volume"
)

// commitGraph keeps commits with all their ancestors in memory.
type commitGraph struct {
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
	when         object.Time // of the committer
}

// addHistory adds a commit with its history.
func (g *commitGraph) addHistory(ctx context.Context, id object.ID) error {
	_, err := graph.Fold(ctx, g.at, id, func(id object.ID) (*object.Commit, []object.ID, error) {
		c, err := object.ReadCommit(ctx, g.objects, id)
		if err != nil {
			return nil, nil, err
		}
		return c, c.Parents, nil
	}, func(id object.ID, from *object.Commit) (int, error) {
		c := graphCommit{id: id, files: from.Files, bytes: from.Bytes, when: from.Committer.Time}
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

// spreadSets adds to the set of each commit the sets of its descendants.
func (g *commitGraph) spreadSets(sets []uint64) {
	for i := len(g.commits) - 1; i >= 0; i-- {
		for _, p := range g.commits[i].parents {
			sets[p] |= sets[i]
		}
	}
}

func (c *graphCommit) key() object.Key { return object.Key{Kind: object.KindCommit, ID: c.id} }

// contentSize returns the size of the commit's content, 0 if it has expired.
func (c *graphCommit) contentSize() uint64 {
	if len(c.content) == 0 {
		return 0
	}
	return c.bytes
}

// holdings accounts for spaces that hold commits: each with its history, or only its content. The
// holders are: the index, each space, all other commits together, and the logs.
type holdings struct {
	*census
	spaces  []Space // their IDs are set
	history bool
	roots   []heldRoot
}

type heldRoot struct {
	commit int // number of the commit
	holder int
	tag    object.Key // an annotated tag; zero: none
}

// holderOfOthers is the holder of all other commits. The next one is that of the logs.
func (h *holdings) holderOfOthers() int { return 1 + len(h.spaces) }

// fillStats fills in the spaces. If ours is set, the first is that of HEAD.
func (h *holdings) fillStats(ctx context.Context, ours bool) (*Stats, error) {
	list := make([]gc.Holder, h.holderOfOthers()+2)
	list[0].Outside, list[h.holderOfOthers()].Outside, list[h.holderOfOthers()+1].Weak = true, true, true
	for k := range h.spaces {
		commit := h.graph.commits[h.graph.at[h.spaces[k].ID]]
		h.spaces[k].Files, h.spaces[k].Bytes = commit.files, commit.bytes
	}
	return h.accountFor(ctx, list, h.spaces, ours, h.visitMembers)
}

// visitMembers visits the objects of the holders from first on.
func (h *holdings) visitMembers(_ context.Context, first int, visit func(gc.Member) error) error {
	if err := visitRoots(h.index, holderBit(0, first), visit); err != nil {
		return err
	}
	sets := make([]uint64, len(h.graph.commits)) // the holders of each commit
	for _, root := range h.roots {
		mine := holderBit(root.holder, first)
		sets[root.commit] |= mine
		if !root.tag.IsZero() {
			if err := visitKeys(mine, visit, root.tag); err != nil {
				return err
			}
		}
	}
	if h.history {
		h.graph.spreadSets(sets)
	}

	for i, holders := range sets {
		commit := &h.graph.commits[i]
		keys := commit.content
		if h.history {
			keys = []object.Key{commit.key()}
		}
		if err := visitKeys(holders, visit, keys...); err != nil {
			return err
		}
		for k := max(first-1, 0); k < min(first+63, len(h.spaces)) && holders != 0; k++ {
			if holders&holderBit(1+k, first) != 0 {
				h.spaces[k].Commits++
				h.spaces[k].History += commit.contentSize()
			}
		}
	}
	return nil
}

// visitKeys visits objects of a set of holders.
func visitKeys(holders uint64, visit func(gc.Member) error, keys ...object.Key) error {
	if holders == 0 {
		return nil
	}
	for _, key := range keys {
		if err := visit(gc.Member{Key: key, Holders: holders}); err != nil {
			return err
		}
	}
	return nil
}

// toFront returns list with item at the front, if list contains it. HEAD becomes the
// second holder this way, after the index.
func toFront[T comparable](list []T, item T) ([]T, bool) {
	i := slices.Index(list, item)
	if i < 0 {
		return list, false
	}
	return slices.Concat([]T{item}, list[:i], list[i+1:]), true
}

// accountRefs accounts for refs with their history. Without names, it accounts for
// all refs, the index and the logs.
func (c *census) accountRefs(ctx context.Context, names []string) (*Stats, error) {
	everything := len(names) == 0
	if everything {
		for _, n := range c.names {
			if !slices.Contains(names, n.name) {
				names = append(names, n.name)
			}
		}
	}
	names, ours := toFront(names, c.head)
	h := holdings{census: c, history: true, spaces: make([]Space, len(names))}
	for i, n := range slices.Concat(c.names, c.logs) {
		root := heldRoot{commit: c.graph.at[n.commit], holder: h.holderOfOthers() + 1}
		if n.key.Kind != object.KindCommit {
			root.tag = n.key
		}
		if k := slices.Index(names, n.name); i < len(c.names) && k < 0 {
			root.holder = h.holderOfOthers()
		} else if i < len(c.names) {
			root.holder = 1 + k
			if h.spaces[k].Kind == "" {
				h.spaces[k].Kind, h.spaces[k].Name, h.spaces[k].ID = spaceKind(n.name), n.name, n.commit
			}
		}
		h.roots = append(h.roots, root)
	}

	s, err := h.fillStats(ctx, ours)
	if err != nil || !everything {
		return s, err
	}
	index, logs := s.Account.Shares[0], s.Account.Shares[h.holderOfOthers()+1]
	s.Named = s.Account.Held
	for _, rest := range []gc.Amount{index.Own, logs.Own} {
		s.Named.Objects -= rest.Objects
		s.Named.Raw -= rest.Raw
		s.Named.Stored -= rest.Stored
	}
	s.Spaces = append(s.Spaces, Space{Kind: SpaceIndex, Share: index}, Space{Kind: SpaceLogs, Share: logs})
	return s, nil
}

// countContents accounts for the content of commits, without the commit objects.
func (c *census) countContents(ctx context.Context, ids []object.ID) (*Stats, error) {
	order, ours := toFront(ids, c.headID)
	h := holdings{census: c, spaces: make([]Space, len(order))}
	holder := map[int]int{} // by number of the commit
	for k, id := range order {
		i, known := c.graph.at[id]
		if !known {
			return nil, notReached(id)
		}
		holder[i] = 1 + k
		h.spaces[k] = Space{Kind: SpaceCommit, ID: id}
	}
	for i := range c.graph.commits {
		k, asked := holder[i]
		if !asked {
			k = h.holderOfOthers()
		}
		if asked || i < c.named { // only logs have the rest
			h.roots = append(h.roots, heldRoot{commit: i, holder: k})
		}
	}

	s, err := h.fillStats(ctx, ours)
	if err == nil && ours { // put HEAD back into its place
		at := slices.Index(ids, c.headID)
		s.Spaces = slices.Concat(s.Spaces[1:1+at], s.Spaces[:1], s.Spaces[1+at:])
	}
	return s, err
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

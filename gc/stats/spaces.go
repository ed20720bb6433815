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

	r := &refCensus{census: c, numbers: map[string]int{}, others: 1 + len(names), inLogs: 2 + len(names), spaces: make([]Space, len(names))}
	for k, name := range names {
		r.numbers[name] = 1 + k
	}

	list := make([]gc.Holder, 3+len(names))
	list[0].Outside, list[r.others].Outside, list[r.inLogs].Weak = true, true, true
	a, err := c.newAccount(ctx, list, ours, r.visitMembers)
	if err != nil {
		return nil, err
	}

	for k, name := range names {
		at := slices.IndexFunc(c.names, func(n namedRoot) bool { return n.name == name })
		commit := c.graph.commits[c.graph.at[c.names[at].commit]]
		space := &r.spaces[k]
		space.Kind, space.Name, space.ID = spaceKind(name), name, commit.id
		space.Files, space.Bytes = commit.files, commit.bytes
	}

	s := c.newStats(a, r.spaces, 1)
	if everything {
		s.Named = a.Held
		for _, rest := range []gc.Amount{a.Shares[0].Own, a.Shares[r.inLogs].Own} {
			s.Named.Objects -= rest.Objects
			s.Named.Raw -= rest.Raw
			s.Named.Stored -= rest.Stored
		}
		s.Spaces = append(s.Spaces, Space{Kind: SpaceIndex, Share: a.Shares[0]}, Space{Kind: SpaceLogs, Share: a.Shares[r.inLogs]})
	}

	return s, nil
}

// refCensus accounts for refs. The holders are: the index, each selected ref,
// all other refs together, and the logs.
type refCensus struct {
	*census
	numbers        map[string]int // holders of the selected refs, by name
	others, inLogs int
	spaces         []Space // of the selected refs
}

// visitMembers visits the objects of the holders from first on.
func (c *refCensus) visitMembers(ctx context.Context, first int, visit func(gc.Member) error) error {
	sets := make([]uint64, len(c.graph.commits)) // the holders of each commit
	add := func(commit object.ID, key object.Key, holder int) error {
		mine := holderBit(holder, first)
		sets[c.graph.at[commit]] |= mine
		if key.Kind == object.KindCommit || mine == 0 {
			return nil
		}
		return visit(gc.Member{Key: key, Holders: mine})
	}

	for _, n := range c.names {
		holder, asked := c.numbers[n.name]
		if !asked {
			holder = c.others
		}
		if err := add(n.commit, n.key, holder); err != nil {
			return err
		}
	}

	if err := visitRoots(c.index, holderBit(0, first), visit); err != nil {
		return err
	}
	if holderBit(c.inLogs, first) != 0 {
		for _, root := range c.logs {
			if err := add(root.commit, root.key, c.inLogs); err != nil {
				return err
			}
		}
	}

	c.graph.spreadSets(sets)
	for i := range c.graph.commits {
		commit := &c.graph.commits[i]
		if sets[i] == 0 {
			continue
		}
		if err := visit(gc.Member{Key: commit.key(), Holders: sets[i]}); err != nil {
			return err
		}
		for k := max(first-1, 0); k < min(first+63, len(c.spaces)); k++ {
			if sets[i]&holderBit(1+k, first) != 0 {
				c.spaces[k].Commits++
				c.spaces[k].History += commit.contentSize()
			}
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

// contents accounts for the content of commits, without the commit objects.
func (c *census) contents(ctx context.Context, ids []object.ID) (*Stats, error) {
	order, ours := toFront(ids, c.headID)
	holder := map[int]int{} // by number of the commit
	for k, id := range order {
		i, known := c.graph.at[id]
		if !known {
			return nil, notReached(id)
		}
		holder[i] = 1 + k
	}

	others := 1 + len(order)
	list := make([]gc.Holder, 2+len(order))
	list[0].Outside, list[others].Outside = true, true

	members := func(ctx context.Context, first int, visit func(gc.Member) error) error {
		if err := visitRoots(c.index, holderBit(0, first), visit); err != nil {
			return err
		}
		for i := range c.graph.commits {
			k, asked := holder[i]
			if !asked {
				if k = others; i >= c.named {
					continue // only logs have it
				}
			}
			if err := visitContent(&c.graph.commits[i], holderBit(k, first), visit); err != nil {
				return err
			}
		}
		return nil
	}

	a, err := c.newAccount(ctx, list, ours, members)
	if err != nil {
		return nil, err
	}

	spaces := make([]Space, len(order))
	for k, id := range order {
		commit := c.graph.commits[c.graph.at[id]]
		spaces[k] = Space{Kind: SpaceCommit, ID: id, Commits: 1, Files: commit.files, Bytes: commit.bytes, History: commit.contentSize()}
	}

	s := c.newStats(a, spaces, 1)
	at := map[object.ID]int{}
	for k, id := range ids {
		at[id] = k
	}

	slices.SortFunc(s.Spaces, func(x, y Space) int { return at[x.ID] - at[y.ID] })
	return s, nil
}

func visitContent(commit *graphCommit, holders uint64, visit func(gc.Member) error) error {
	if holders == 0 {
		return nil
	}
	for _, key := range commit.content {
		if err := visit(gc.Member{Key: key, Holders: holders}); err != nil {
			return err
		}
	}
	return nil
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

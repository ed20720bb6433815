package kist

import (
	"context"
	"slices"

	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/object"
)

// refs counts what refs have, with all of their history; without names all
// refs, what is staged, and what logs tell of.
func (c *census) refs(ctx context.Context, names []string) (*Stats, error) {
	everything := len(names) == 0
	if everything {
		for _, n := range c.names {
			if !slices.Contains(names, n.name) {
				names = append(names, n.name)
			}
		}
	}
	ours := slices.Contains(names, c.head)
	if ours { // the second holder, after the index
		names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == c.head })
		names = slices.Insert(names, 0, c.head)
	}
	others, logs := 1+len(names), 2+len(names)
	list := make([]gc.Holder, 3+len(names))
	list[0].Outside, list[others].Outside, list[logs].Weak = true, true, true
	numbers := map[string]int{}
	for k, name := range names {
		numbers[name] = 1 + k
	}
	holder := func(name string) int {
		if i, asked := numbers[name]; asked {
			return i
		}
		return others
	}

	spaces := make([]Space, len(names))
	members := func(ctx context.Context, first int, visit func(gc.Member) error) error {
		sets := make([]uint64, len(c.graph.commits))
		for _, n := range c.names {
			mine := bit(holder(n.name), first)
			sets[c.graph.at[n.commit]] |= mine
			if n.key.Kind != object.KindCommit && mine != 0 {
				if err := visit(gc.Member{Key: n.key, Holders: mine}); err != nil {
					return err
				}
			}
		}
		if err := visitRoots(c.index, bit(0, first), visit); err != nil {
			return err
		}
		if mine := bit(logs, first); mine != 0 {
			for _, root := range c.logs {
				sets[c.graph.at[root.commit]] |= mine
				if root.key.Kind != object.KindCommit {
					if err := visit(gc.Member{Key: root.key, Holders: mine}); err != nil {
						return err
					}
				}
			}
		}
		c.graph.spread(sets)
		for i := range c.graph.commits {
			commit := &c.graph.commits[i]
			if sets[i] == 0 {
				continue
			}
			if err := visit(gc.Member{Key: commit.key(), Holders: sets[i]}); err != nil {
				return err
			}
			for k := max(first-1, 0); k < min(first+63, len(spaces)); k++ {
				if sets[i]&bit(1+k, first) != 0 {
					spaces[k].Commits++
					spaces[k].History += commit.history()
				}
			}
		}
		return nil
	}
	a, err := c.account(ctx, list, ours, members)
	if err != nil {
		return nil, err
	}
	for k, name := range names {
		at := slices.IndexFunc(c.names, func(n namedRoot) bool { return n.name == name })
		commit := c.graph.commits[c.graph.at[c.names[at].commit]]
		spaces[k].Kind, spaces[k].Name, spaces[k].ID = spaceKind(name), name, commit.id
		spaces[k].Files, spaces[k].Bytes = commit.files, commit.bytes
	}
	s := c.stats(a, spaces, 1)
	if everything {
		s.Named = a.Held
		for _, rest := range []gc.Amount{a.Shares[0].Own, a.Shares[logs].Own} {
			s.Named.Objects -= rest.Objects
			s.Named.Raw -= rest.Raw
			s.Named.Stored -= rest.Stored
		}
		s.Spaces = append(s.Spaces, Space{Kind: SpaceIndex, Share: a.Shares[0]}, Space{Kind: SpaceLogs, Share: a.Shares[logs]})
	}
	return s, nil
}

// contents counts what commits have, without the commits themselves.
func (c *census) contents(ctx context.Context, ids []object.ID) (*Stats, error) {
	ours := slices.Contains(ids, c.headID)
	order := slices.Clone(ids)
	if ours { // the second holder, after the index
		order = slices.DeleteFunc(order, func(id object.ID) bool { return id == c.headID })
		order = slices.Insert(order, 0, c.headID)
	}
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
		if err := visitRoots(c.index, bit(0, first), visit); err != nil {
			return err
		}
		for i := range c.graph.commits {
			k, asked := holder[i]
			if !asked {
				if k = others; i >= c.named {
					continue // only logs have it
				}
			}
			if err := visitContent(&c.graph.commits[i], bit(k, first), visit); err != nil {
				return err
			}
		}
		return nil
	}
	a, err := c.account(ctx, list, ours, members)
	if err != nil {
		return nil, err
	}
	spaces := make([]Space, len(order))
	for k, id := range order {
		commit := c.graph.commits[c.graph.at[id]]
		spaces[k] = Space{Kind: SpaceCommit, ID: id, Commits: 1, Files: commit.files, Bytes: commit.bytes, History: commit.history()}
	}
	s := c.stats(a, spaces, 1)
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

package stats

import (
	"context"
	"slices"
	"strings"

	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
)

// accountPaths accounts for the content of paths in commits, without the tree nodes
// of the folders above.
func (c *census) accountPaths(ctx context.Context, o Options) (*Stats, error) {
	for i, path := range o.Paths {
		for k, other := range o.Paths {
			if i != k && tree.Below(path, other) {
				return nil, &PathsOverlapError{other, path}
			}
		}
	}

	scope, err := c.selectCommits(ctx, o)
	if err != nil {
		return nil, err
	}

	p := &pathCensus{census: c, scope: scope}
	for _, path := range o.Paths {
		p.spaces = append(p.spaces, Space{Kind: SpacePath, Name: path})
		p.newest = append(p.newest, -1)
	}

	list := make([]gc.Holder, 1+len(o.Paths))
	list[others].Outside = true
	counted, err := c.accountFor(ctx, list, p.spaces, false, p.visitMembers)
	if err != nil {
		return nil, err
	}
	for _, space := range p.spaces {
		if space.Commits == 0 {
			return nil, &tree.PathError{Path: space.Name, Err: tree.ErrNotExist}
		}
	}
	return counted, nil
}

// others is the holder of all objects that are not those of a path.
const others = 0

// pathCensus accounts for paths. Each path is a holder, from number 1 on.
type pathCensus struct {
	*census
	scope  []bool // by commit: it was selected
	spaces []Space
	newest []int // number of the last commit with the path; -1: none so far
}

// visitMembers visits the objects of the holders from first on.
func (p *pathCensus) visitMembers(ctx context.Context, first int, visit func(gc.Member) error) error {
	s := &splitter{objects: p.r.Contents(), skips: p.graph.skips, first: first, visit: visit, done: map[splitAt][]pathTotals{}}
	for k, space := range p.spaces {
		s.all = append(s.all, splitPath{1 + k, space.Name})
	}

	if err := p.splitIndex(s, p.scope); err != nil {
		return err
	}
	if err := p.bringTrees(ctx, s.objects); err != nil {
		return err
	}

	for i := range p.graph.commits {
		commit := &p.graph.commits[i]
		switch {
		case !p.scope[i] && i < p.named:
			if err := visitKeys(holderBit(others, first), visit, commit.content...); err != nil {
				return err
			}
		case p.scope[i] && len(commit.content) > 0 && commit.content[0].Kind == object.KindTree:
			found, err := s.splitFolder(ctx, commit.content[0].ID, "", s.all)
			if err != nil {
				return err
			}
			if first == 0 {
				p.countPaths(i, found)
			}
		}
	}

	return nil
}

// bringTrees brings near the trees that lead to the paths.
func (p *pathCensus) bringTrees(ctx context.Context, r object.Reader) error {
	var roots []object.ID
	var paths []string
	for i := range p.graph.commits {
		if content := p.graph.commits[i].content; p.scope[i] && len(content) > 0 && content[0].Kind == object.KindTree {
			roots = append(roots, content[0].ID)
		}
	}
	for _, space := range p.spaces {
		paths = append(paths, space.Name)
	}
	return tree.BringPaths(ctx, r, roots, paths)
}

// countPaths adds the totals of the paths in commit i.
func (p *pathCensus) countPaths(i int, found []pathTotals) {
	for _, f := range found {
		k := f.holder - 1
		space := &p.spaces[k]
		space.Commits++
		space.History += f.bytes
		if p.newest[k] <= i {
			p.newest[k] = i
			space.ID, space.Files, space.Bytes = p.graph.commits[i].id, f.files, f.bytes
		}
	}
}

// PathsOverlapError means that one of two paths lies in the other.
type PathsOverlapError struct{ Path, Below string }

func (e *PathsOverlapError) Error() string { return "one path lies in another" }

// selectCommits returns the selected commits, by number.
func (c *census) selectCommits(ctx context.Context, o Options) ([]bool, error) {
	scope := make([]bool, len(c.graph.commits))
	if o.Commits || len(o.Revs) == 0 {
		ids, err := c.reachableCommits(ctx, o)
		for _, id := range ids {
			scope[c.graph.at[id]] = true
		}
		return scope, err
	}

	names, ids, err := c.resolveRevs(ctx, o.Revs)
	if err != nil {
		return nil, err
	}

	sets := make([]uint64, len(scope))
	for _, n := range c.names {
		if slices.Contains(names, n.name) {
			sets[c.graph.at[n.commit]] = 1
		}
	}

	c.graph.spreadSets(sets)
	for i := range scope {
		scope[i] = sets[i] != 0
	}

	for _, id := range ids {
		i, known := c.graph.at[id]
		if !known {
			return nil, notReached(id)
		}
		scope[i] = true
	}

	return scope, nil
}

// splitIndex visits the objects of the index for their holders. Paths only get
// objects of the index if HEAD's commit is selected.
func (c *census) splitIndex(s *splitter, scope []bool) error {
	head, known := c.graph.at[c.headID]
	if !known || !scope[head] {
		return visitRoots(c.index, holderBit(others, s.first), s.visit)
	}

	idx, err := c.r.Index()
	if err != nil {
		return err
	}

	// one returns the holder of a path, or -1 if a holder's path lies in it.
	one := func(path string) int {
		for _, p := range s.all {
			if tree.Below(path, p.rest) {
				return p.holder
			}
			if tree.Below(p.rest, path) {
				return -1
			}
		}
		return others
	}

	visit := func(path string, key object.Key) error {
		if holder := one(path); holder >= 0 && !key.IsZero() && holderBit(holder, s.first) != 0 {
			return s.visit(gc.Member{Key: key, Holders: holderBit(holder, s.first), Hint: key.Kind == object.KindTree})
		}
		return nil
	}

	for path, d := range idx.Dirs() {
		if info, ok := d.Tree(); ok {
			if err := visit(path, object.Key{Kind: object.KindTree, ID: info.ID}); err != nil {
				return err
			}
		}
	}

	for path, e := range idx.All() {
		if err := visit(path, e.Content); err != nil {
			return err
		}
	}

	for _, conflict := range idx.Conflicts() {
		for _, side := range []*object.Entry{conflict.Base, conflict.Ours, conflict.Theirs} {
			if side == nil {
				continue
			}
			if err := visit(conflict.Path, side.Content); err != nil {
				return err
			}
		}
	}

	return nil
}

// splitter assigns the paths in trees to their holders, and the rest to one
// other holder. It recurses instead of using package graph, because it treats a
// tree differently below each path.
type splitter struct {
	objects object.Reader
	skips   func(from, to object.Key) bool // see [gc.Holders]
	first   int                            // see [gc.Holders]
	visit   func(gc.Member) error
	all     []splitPath
	done    map[splitAt][]pathTotals
}

// splitPath is a path relative to some folder.
type splitPath struct {
	holder int
	rest   string
}

// splitAt is a folder and its path.
type splitAt struct {
	id     object.ID
	prefix string
}

type pathTotals struct {
	holder       int
	files, bytes uint64
}

// splitFolder splits the folder at prefix, which is empty or ends in a slash. It
// returns the totals of the paths in it.
func (s *splitter) splitFolder(ctx context.Context, id object.ID, prefix string, paths []splitPath) ([]pathTotals, error) {
	at := splitAt{id, prefix}
	if found, ok := s.done[at]; ok {
		return found, nil
	}
	if len(paths) == 1 && paths[0].rest == "" {
		info, err := tree.ReadInfo(ctx, s.objects, id)
		if err != nil {
			return nil, err
		}
		found := []pathTotals{{paths[0].holder, info.Files, info.Bytes}}
		s.done[at] = found
		return found, s.assignTo(object.Key{Kind: object.KindTree, ID: id}, paths[0].holder)
	}

	found, err := s.splitNode(ctx, id, prefix, paths)
	if err == nil {
		s.done[at] = found
	}

	return found, err
}

// splitNode splits a node of a folder's list.
func (s *splitter) splitNode(ctx context.Context, id object.ID, prefix string, paths []splitPath) (found []pathTotals, err error) {
	n, err := object.ReadTree(ctx, s.objects, id)
	if err != nil {
		return nil, err
	}

	after := ""
	for _, child := range n.Children {
		in := slices.ContainsFunc(paths, func(p splitPath) bool {
			name, _, _ := strings.Cut(p.rest, "/")
			return name > after && name <= child.Last
		})
		after = child.Last
		if !in {
			if err := s.assignTo(object.Key{Kind: object.KindTree, ID: child.ID}, others); err != nil {
				return nil, err
			}
			continue
		}
		more, err := s.splitNode(ctx, child.ID, prefix, paths)
		if err != nil {
			return nil, err
		}
		found = append(found, more...)
	}

	for i := range n.Entries {
		e := &n.Entries[i]
		if s.skips(object.Key{Kind: object.KindTree, ID: id}, e.Content) {
			found = append(found, s.lostTotals(ctx, e, prefix, paths)...)
			continue
		}
		more, err := s.splitEntry(ctx, e, prefix, paths)
		if err != nil {
			return nil, err
		}
		found = append(found, more...)
	}

	return found, nil
}

// lostTotals returns the totals of the paths at an entry with lost content. It makes
// the reader pass over the entry.
func (s *splitter) lostTotals(ctx context.Context, e *object.Entry, prefix string, paths []splitPath) (found []pathTotals) {
	_, err := s.objects.Get(ctx, e.Content)
	for _, p := range paths {
		name, _, more := strings.Cut(p.rest, "/")
		if name == e.Name && object.PassOver(s.objects, prefix+name, e.Content, err) && !more {
			found = append(found, totalsOf(p.holder, e))
		}
	}
	return found
}

func totalsOf(holder int, e *object.Entry) pathTotals {
	totals := pathTotals{holder, e.Files, e.Size}
	if e.Type != object.TypeDir {
		totals.files = 1
	}
	return totals
}

func (s *splitter) splitEntry(ctx context.Context, e *object.Entry, prefix string, paths []splitPath) ([]pathTotals, error) {
	var below []splitPath
	for _, p := range paths {
		name, rest, more := strings.Cut(p.rest, "/")
		switch {
		case name != e.Name:
		case !more:
			return []pathTotals{totalsOf(p.holder, e)}, s.assignTo(e.Content, p.holder)
		default:
			below = append(below, splitPath{p.holder, rest})
		}
	}

	if len(below) > 0 && e.Type == object.TypeDir {
		return s.splitFolder(ctx, e.Content.ID, prefix+e.Name+"/", below)
	}

	return nil, s.assignTo(e.Content, others)
}

// assignTo assigns an object to a holder.
func (s *splitter) assignTo(key object.Key, holder int) error {
	holders := holderBit(holder, s.first)
	if key.IsZero() || holders == 0 {
		return nil
	}
	return s.visit(gc.Member{Key: key, Holders: holders})
}

package tree

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/graph"
)

// aheadBatch is the number of nodes that are brought near together: about [object.MaxPrefetch] bytes.
const aheadBatch = 1024

// Bring brings near all trees below directories, and with lists also the lists of chunks of their files, if r may have to fetch nodes. It takes
// a few requests for each level of folders, where a walk takes one for each folder. It passes over nodes that it cannot bring: a read
// finds the error.
func Bring(ctx context.Context, r object.Reader, lists bool, roots ...object.ID) error {
	if !object.HasFarNodes(r) {
		return nil
	}
	return (&levels{r: r, lists: lists}).bringLevels(ctx, []*treePair{newTreePair(roots, nil)})
}

// bringDifference brings near the trees in which two directories differ, except those of
// directories for which whole returns true. whole may be nil.
func bringDifference(ctx context.Context, r object.Reader, a, b object.ID, whole func(path string) bool) error {
	if !object.HasFarNodes(r) {
		return nil
	}
	return (&levels{r: r, whole: whole}).bringPairs(ctx, [][2]object.ID{{a, b}})
}

// BringDiffs brings near the trees in which the two directories of each pair differ, if r may have to fetch nodes. A zero ID is an empty
// directory. With paths, it brings only what a [Diff] of these paths reads. It takes a few requests for each level of folders, where a Diff of each
// pair takes as many.
func BringDiffs(ctx context.Context, r object.Reader, pairs [][2]object.ID, paths []string) error {
	if !object.HasFarNodes(r) {
		return nil
	}
	for window := range slices.Chunk(pairs, diffWindow) {
		window = slices.Clone(window)
		var found map[pathAt]object.ID
		if len(paths) > 0 && !slices.Contains(paths, "") {
			var roots []object.ID
			for _, pair := range window {
				roots = append(roots, pair[0], pair[1])
			}
			var err error
			if found, err = bringPaths(ctx, r, roots, paths); err != nil {
				return err
			}
		}
		if err := (&levels{r: r}).bringPairs(ctx, pairsAt(window, paths, found)); err != nil {
			return err
		}
	}
	return nil
}

// diffWindow is the number of pairs whose trees are compared at once.
const diffWindow = 256

// pairsAt returns the pairs of directories that found has at paths; without found, pairs.
func pairsAt(pairs [][2]object.ID, paths []string, found map[pathAt]object.ID) (list [][2]object.ID) {
	if found == nil {
		return pairs
	}
	for _, pair := range pairs {
		for _, path := range paths {
			list = append(list, [2]object.ID{found[pathAt{pair[0], path}], found[pathAt{pair[1], path}]})
		}
	}
	return list
}

// bringPairs brings near the trees in which the directories of each pair differ.
func (l *levels) bringPairs(ctx context.Context, pairs [][2]object.ID) error {
	var list []*treePair
	for _, pair := range pairs {
		if pair[0] != pair[1] {
			list = append(list, newTreePair(pair[:1], pair[1:]))
		}
	}
	return l.bringLevels(ctx, list)
}

// treePair is a comparison of nodes, level by level.
type treePair struct {
	left, right []object.Key
	seen        map[object.Key]bool
}

func newTreePair(left, right []object.ID) *treePair {
	return &treePair{treeKeys(left), treeKeys(right), map[object.Key]bool{}}
}

// takeUnseen leaves out the nodes that both sides have, or that were there before. It returns the others.
func (p *treePair) takeUnseen() []object.Key {
	p.left, p.right = unseen(p.seen, p.left, p.right), unseen(p.seen, p.right, p.left)
	both := slices.Concat(p.left, p.right)
	for _, key := range both {
		p.seen[key] = true
	}
	return both
}

// linksIn returns the links of nodes.
func linksIn(links map[object.Key][]object.Key, nodes []object.Key) (list []object.Key) {
	for _, key := range nodes {
		list = append(list, links[key]...)
	}
	return list
}

// pathAt is a path below a root.
type pathAt struct {
	root object.ID
	path string
}

// BringPaths brings near the trees that lead to paths below roots, level by level, if r may have to fetch nodes.
func BringPaths(ctx context.Context, r object.Reader, roots []object.ID, paths []string) error {
	if !object.HasFarNodes(r) {
		return nil
	}
	_, err := bringPaths(ctx, r, roots, paths)
	return err
}

// bringPaths is BringPaths. It returns the directories at paths. It passes over trees that it cannot read.
func bringPaths(ctx context.Context, r object.Reader, roots []object.ID, paths []string) (map[pathAt]object.ID, error) {
	type step struct {
		at   pathAt
		node object.ID
		rest string // of the path, below node
	}
	found := map[pathAt]object.ID{}
	var level []step
	for _, root := range roots {
		for _, path := range paths {
			at := pathAt{root, path}
			if _, twice := found[at]; !twice && !root.IsZero() {
				found[at] = object.ID{}
				level = append(level, step{at, root, path})
			}
		}
	}
	for len(level) > 0 {
		var keys []object.Key
		for _, s := range level {
			keys = append(keys, treeKey(s.node))
		}
		slices.SortFunc(keys, object.Key.Compare)
		for batch := range slices.Chunk(slices.Compact(keys), aheadBatch) {
			object.Prefetch(ctx, r, batch)
		}
		var next []step
		for _, s := range level {
			node, err := object.ReadTree(ctx, r, s.node)
			if object.IsAway(err) || ctx.Err() != nil {
				return nil, cmp.Or(ctx.Err(), err)
			}
			if err != nil {
				continue // a read finds the error
			}
			name, rest, more := strings.Cut(s.rest, "/")
			for _, child := range node.Children {
				if name <= child.Last {
					next = append(next, step{s.at, child.ID, s.rest})
					break
				}
			}
			for i := range node.Entries {
				switch e := &node.Entries[i]; {
				case e.Name != name || e.Type != object.TypeDir:
				case more:
					next = append(next, step{s.at, e.Content.ID, rest})
				default:
					found[s.at] = e.Content.ID
				}
			}
		}
		level = next
	}
	return found, nil
}

// treeKeys returns the keys of directories, without zero ones.
func treeKeys(ids []object.ID) (keys []object.Key) {
	for _, id := range ids {
		if !id.IsZero() {
			keys = append(keys, treeKey(id))
		}
	}
	return keys
}

// levels brings nodes near.
type levels struct {
	r     object.Reader
	lists bool                   // also those of lists of chunks
	whole func(path string) bool // leaves out the directories at these paths; may be nil
	dirs  map[object.Key]string  // with whole: the path of a directory that has the node, other than the roots
}

// bringLevels brings near the nodes that are below only one side of a pair, level by level.
func (l *levels) bringLevels(ctx context.Context, pairs []*treePair) error {
	l.dirs = map[object.Key]string{}
	for len(pairs) > 0 {
		var level []object.Key
		for _, p := range pairs {
			level = append(level, p.takeUnseen()...)
		}
		links, err := l.linksOf(ctx, unseen(nil, level, nil))
		if err != nil {
			return err
		}
		for _, p := range pairs {
			p.left, p.right = linksIn(links, p.left), linksIn(links, p.right)
		}
		pairs = slices.DeleteFunc(pairs, func(p *treePair) bool { return len(p.left)+len(p.right) == 0 })
	}
	return nil
}

// unseen returns those of keys, each once, that are neither in other nor seen.
func unseen(seen map[object.Key]bool, keys, other []object.Key) (left []object.Key) {
	skip := make(map[object.Key]bool, len(other))
	for _, key := range other {
		skip[key] = true
	}
	for _, key := range keys {
		if !skip[key] && !seen[key] {
			skip[key] = true
			left = append(left, key)
		}
	}
	return left
}

// linksOf brings nodes near, and returns the nodes to which each links.
func (l *levels) linksOf(ctx context.Context, keys []object.Key) (map[object.Key][]object.Key, error) {
	all := make(map[object.Key][]object.Key, len(keys))
	for batch := range slices.Chunk(keys, aheadBatch) {
		object.Prefetch(ctx, l.r, batch)
		for _, key := range batch {
			links, err := l.linksAt(ctx, key)
			if object.IsAway(err) || ctx.Err() != nil { // the remote does not answer: the others would wait for it, too
				return nil, cmp.Or(ctx.Err(), err)
			}
			all[key] = slices.DeleteFunc(links, func(link object.Key) bool {
				return link.Kind != object.KindTree && !(l.lists && link.Kind == object.KindManifest)
			})
		}
	}
	return all, nil
}

// linksAt returns the nodes to which a node links, without those of directories that are
// left out.
func (l *levels) linksAt(ctx context.Context, key object.Key) ([]object.Key, error) {
	if l.whole == nil || key.Kind != object.KindTree {
		return graph.Links(ctx, l.r, key)
	}
	node, err := object.ReadTree(ctx, l.r, key.ID)
	if err != nil {
		return nil, err
	}
	var links []object.Key
	dir := l.dirs[key]
	for _, child := range node.Children {
		links = append(links, treeKey(child.ID))
		l.dirs[treeKey(child.ID)] = dir
	}
	for _, e := range node.Entries {
		path := Join(dir, e.Name)
		if !IsDir(&e) || l.whole(path) {
			continue
		}
		links = append(links, e.Content)
		l.dirs[e.Content] = path
	}
	return links, nil
}

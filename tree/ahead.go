package tree

import (
	"cmp"
	"context"
	"slices"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/graph"
)

// aheadBatch is the number of nodes that are brought near together: about [object.MaxPrefetch] bytes.
const aheadBatch = 1024

// Bring brings near all trees below directories, and with lists also the lists of chunks of their files, if r may have to fetch nodes. It takes
// a few requests for each level of folders, where a walk takes one for each folder. It passes over nodes that it cannot bring: a read
// finds the error.
func Bring(ctx context.Context, r object.Reader, lists bool, roots ...object.ID) error {
	return bring(ctx, r, lists, roots, nil)
}

// bringDifference brings near the trees in which two directories differ.
func bringDifference(ctx context.Context, r object.Reader, a, b object.ID) error {
	return bring(ctx, r, false, []object.ID{a}, []object.ID{b})
}

// bring brings near the nodes that are below only one of a and b, level by level.
func bring(ctx context.Context, r object.Reader, lists bool, a, b []object.ID) error {
	if !object.HasFarNodes(r) {
		return nil
	}
	l := &levels{r: r, lists: lists, seen: map[object.Key]bool{}}
	left, right := treeKeys(a), treeKeys(b)
	for len(left)+len(right) > 0 {
		onlyLeft, onlyRight := l.unseen(left, right), l.unseen(right, left)
		for _, key := range slices.Concat(onlyLeft, onlyRight) {
			l.seen[key] = true
		}
		var err error
		if left, err = l.linksOf(ctx, onlyLeft); err != nil {
			return err
		}
		if right, err = l.linksOf(ctx, onlyRight); err != nil {
			return err
		}
	}
	return nil
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
	lists bool
	seen  map[object.Key]bool
}

// unseen returns those of keys, each once, that are neither in other nor seen.
func (l *levels) unseen(keys, other []object.Key) (left []object.Key) {
	skip := make(map[object.Key]bool, len(other))
	for _, key := range other {
		skip[key] = true
	}
	for _, key := range keys {
		if !skip[key] && !l.seen[key] {
			skip[key] = true
			left = append(left, key)
		}
	}
	return left
}

// linksOf brings nodes near, and returns the nodes to which they link.
func (l *levels) linksOf(ctx context.Context, keys []object.Key) (next []object.Key, err error) {
	for batch := range slices.Chunk(keys, aheadBatch) {
		object.Prefetch(ctx, l.r, batch)
		for _, key := range batch {
			links, err := graph.Links(ctx, l.r, key)
			if object.IsAway(err) || ctx.Err() != nil { // the remote does not answer: the others would wait for it, too
				return nil, cmp.Or(ctx.Err(), err)
			}
			for _, link := range links {
				if link.Kind == object.KindTree || l.lists && link.Kind == object.KindManifest {
					next = append(next, link)
				}
			}
		}
	}
	return next, nil
}

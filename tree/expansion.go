package tree

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/kist-vcs/kist/object"
)

// ErrTooMany is matched by the error for a directory that stands for far more
// paths than its nodes account for. Directories may share nodes, so that a few
// that link to each other many times stand for as many paths as one likes; no
// worktree is like that.
var ErrTooMany = errors.New("far more paths than there are nodes for them")

// A walk over a directory goes on for firstPaths paths. Then it looks whether
// all of them are maxPaths at most, or maxPathsPerNode for each different node.
const (
	firstPaths      = 1 << 16
	maxPaths        = 1 << 24
	maxPathsPerNode = 1 << 14
)

// checkExpansion returns a [*PathError] that matches [ErrTooMany] if there are
// too many paths below the given directories. Time and memory go with the
// number of different nodes. What cannot be read, or is too deep, is left for
// the walk to find.
func checkExpansion(ctx context.Context, r object.Reader, roots ...object.ID) error {
	x := expansion{r: r, paths: map[object.ID]uint64{}}
	var total uint64
	for _, root := range roots {
		if root.IsZero() {
			continue
		}
		total = add(total, x.count(ctx, root, 0))
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if total > maxPaths && total/maxPathsPerNode > uint64(len(x.paths)) {
		return &PathError{"", fmt.Errorf("%w: %d for %d", ErrTooMany, total, len(x.paths))}
	}
	return nil
}

type expansion struct {
	r     object.Reader
	paths map[object.ID]uint64 // below each node that was seen
}

// count returns the number of paths below a node, math.MaxUint64 if it is more.
func (x *expansion) count(ctx context.Context, id object.ID, depth int) uint64 {
	if n, seen := x.paths[id]; seen {
		return n
	}
	x.paths[id] = 0
	node, err := object.ReadTree(ctx, x.r, id)
	if err != nil || depth > object.MaxDepth+object.MaxLevel {
		return 0
	}
	n := uint64(len(node.Entries))
	for _, child := range node.Children {
		n = add(n, x.count(ctx, child.ID, depth+1))
	}
	for i := range node.Entries {
		if e := &node.Entries[i]; e.Type == object.TypeDir {
			n = add(n, x.count(ctx, e.Content.ID, depth+1))
		}
	}
	x.paths[id] = n
	return n
}

// add adds two numbers, and stays at the largest where the sum is larger.
func add(a, b uint64) uint64 {
	if a > math.MaxUint64-b {
		return math.MaxUint64
	}
	return a + b
}

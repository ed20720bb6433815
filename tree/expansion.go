package tree

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/kist-vcs/kist/object"
)

// ErrTooMany is matched by the error for a directory with far more paths than
// nodes. A few nodes that link to each other many times can stand for any
// number of paths. No real worktree looks like that.
var ErrTooMany = errors.New("far more paths than there are nodes for them")

// The first firstPaths steps of a traversal are free. Then a [Limit] allows
// maxPaths paths, or maxPathsPerNode for each different node.
const (
	firstPaths      = 1 << 17
	maxPaths        = 1 << 24
	maxPathsPerNode = 1 << 14
)

// A Limit ends a traversal of directories with too many paths. Each traversal
// by path has its own Limit.
type Limit struct {
	r     object.Reader
	roots []object.ID
	steps int
}

// NewLimit returns the limit of a traversal of the directories with the given
// root nodes. The zero ID means a directory that does not exist.
func NewLimit(r object.Reader, roots ...object.ID) *Limit {
	return &Limit{r: r, roots: roots}
}

// Step counts a path, or a pair of paths. It returns an error that matches
// [ErrTooMany] if the traversal has to end.
func (l *Limit) Step(ctx context.Context) error {
	if l.steps++; l.steps != firstPaths {
		return nil
	}
	return checkExpansion(ctx, l.r, l.roots...)
}

// checkExpansion returns an error that matches [ErrTooMany] if there are too
// many paths below the given directories. Time and memory depend on the number
// of different nodes. It ignores nodes that cannot be read or are too deep:
// the walk reports them.
func checkExpansion(ctx context.Context, r object.Reader, roots ...object.ID) error {
	x := expansion{r: r, paths: map[object.ID]uint64{}}
	var total uint64
	for _, root := range roots {
		if root.IsZero() {
			continue
		}
		total = addCapped(total, x.countPaths(ctx, root, 0))
	}

	if err := ctx.Err(); err != nil {
		return err
	}
	if total > maxPaths && total/maxPathsPerNode > uint64(len(x.paths)) {
		return fmt.Errorf("%w: %d paths in %d nodes", ErrTooMany, total, len(x.paths))
	}

	return nil
}

type expansion struct {
	r     object.Reader
	paths map[object.ID]uint64 // number of paths below each visited node
}

// countPaths returns the number of paths below a node, at most math.MaxUint64. It recurses
// instead of using package graph, because it stops at directories that are too deep.
func (x *expansion) countPaths(ctx context.Context, id object.ID, depth int) uint64 {
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
		n = addCapped(n, x.countPaths(ctx, child.ID, depth+1))
	}

	for i := range node.Entries {
		if e := &node.Entries[i]; e.Type == object.TypeDir {
			n = addCapped(n, x.countPaths(ctx, e.Content.ID, depth+1))
		}
	}

	x.paths[id] = n
	return n
}

// addCapped returns the sum, at most math.MaxUint64.
func addCapped(a, b uint64) uint64 {
	if a > math.MaxUint64-b {
		return math.MaxUint64
	}
	return a + b
}

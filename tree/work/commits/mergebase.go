package commits

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs/history"
	"github.com/kist-vcs/kist/tree"
)

// ErrTooManyBases means that two commits have more merge bases, directly or in
// turn, than kist merges.
var ErrTooManyBases = errors.New("their histories were merged into each other too often to find a common base")

// Limits of the search for one merge base. Real histories merge in both
// directions a few dozen times; a made-up history could do so without end.
const (
	maxBaseMerges = 1000    // merges of merge bases
	maxBaseReads  = 2 << 20 // commits that these merges read, repetitions included
)

// baseFinder merges several merge bases into one, over their own merge bases,
// as docs/decisions/merge-bases.md describes. Its errors match
// [ErrTooManyBases] if that takes too many steps.
type baseFinder struct {
	r     *kist.Repository
	rw    object.ReadWriter // gets the trees of merges
	graph *object.Overlay   // virtual merge commits, over a countedReader
	split tree.SplitFunc

	merges int                        // number of merges begun
	done   map[[2]object.ID]object.ID // virtual merge commit by its parents
}

func newBaseFinder(r *kist.Repository, rw object.ReadWriter) *baseFinder {
	graph := object.NewOverlay(&countedReader{Reader: rw, left: maxBaseReads})
	return &baseFinder{r: r, rw: rw, graph: graph, split: r.Chunker().Split, done: map[[2]object.ID]object.ID{}}
}

// countedReader returns [ErrTooManyBases] after a number of reads.
type countedReader struct {
	object.Reader
	left int
}

// Get implements [object.Reader].
func (c *countedReader) Get(ctx context.Context, key object.Key) ([]byte, error) {
	if c.left--; c.left < 0 {
		return nil, ErrTooManyBases
	}
	return c.Reader.Get(ctx, key)
}

// mergedTree returns the merged tree of several merge bases, zero for none.
func (f *baseFinder) mergedTree(ctx context.Context, bases []object.ID) (object.ID, error) {
	if len(bases) == 0 {
		return object.ID{}, nil
	}

	id, err := f.mergeAll(ctx, bases)
	if errors.Is(err, ErrTooManyBases) {
		return object.ID{}, ErrTooManyBases // without the commit at which the search ended
	}
	if err != nil {
		return object.ID{}, err
	}

	c, err := f.readUsable(ctx, id)
	if err != nil {
		return object.ID{}, err
	}

	return c.Tree, nil
}

// readUsable reads a commit and checks that its content can be used.
func (f *baseFinder) readUsable(ctx context.Context, id object.ID) (*object.Commit, error) {
	c, err := object.ReadCommit(ctx, f.graph, id)
	if err != nil {
		return nil, err
	}
	return c, kist.CheckUsableBase(ctx, f.r, id)
}

// mergeAll returns one commit for one or more merge bases. It merges the oldest
// two first.
func (f *baseFinder) mergeAll(ctx context.Context, bases []object.ID) (object.ID, error) {
	id := bases[len(bases)-1]
	for _, next := range slices.Backward(bases[:len(bases)-1]) {
		var err error
		if id, err = f.mergeTwo(ctx, id, next); err != nil {
			return id, err
		}
	}
	return id, nil
}

// mergeTwo makes a virtual merge commit of two others.
func (f *baseFinder) mergeTwo(ctx context.Context, a, b object.ID) (object.ID, error) {
	if id, ok := f.done[[2]object.ID{a, b}]; ok {
		return id, nil
	}
	if f.merges++; f.merges > maxBaseMerges {
		return object.ID{}, ErrTooManyBases
	}

	bases, err := history.MergeBases(ctx, f.graph, a, b)
	if err != nil {
		return object.ID{}, err
	}

	base, err := f.mergedTree(ctx, bases)
	if err != nil {
		return object.ID{}, err
	}

	ours, err := f.readUsable(ctx, a)
	if err != nil {
		return object.ID{}, err
	}

	theirs, err := f.readUsable(ctx, b)
	if err != nil {
		return object.ID{}, err
	}
	merged, err := tree.Merge(ctx, f.rw, tree.Versions{Base: base, Ours: ours.Tree, Theirs: theirs.Tree}, tree.MergeOptions{Split: f.split})
	if err != nil {
		return object.ID{}, err
	}

	root, err := f.resolveAlone(ctx, merged)
	if err != nil {
		return object.ID{}, err
	}

	c := &object.Commit{
		Tree: root, Parents: []object.ID{a, b}, Message: "merged merge bases",
		Author: ours.Author, Committer: ours.Committer,
	}

	id, err := object.PutNode(ctx, f.graph, object.KindCommit, c)
	f.done[[2]object.ID{a, b}] = id
	return id, err
}

// resolveAlone resolves conflicts without a user. A text keeps its conflict markers,
// so that it equals neither side. Anything else becomes as it was before either
// side changed it.
func (f *baseFinder) resolveAlone(ctx context.Context, m *tree.MergeResult) (object.ID, error) {
	if len(m.Conflicts) == 0 {
		return m.Tree.ID, nil
	}

	set, whole := map[string]*object.Entry{}, map[string]bool{}
	for _, c := range m.Conflicts {
		whole[c.Path] = whole[c.Path] || c.Kind == tree.ConflictFileDirectory
		if !c.Markers {
			set[c.Path] = nil
		}
	}

	for _, c := range m.Conflicts {
		for _, aside := range []string{c.OursPath, c.TheirsPath} {
			if aside != "" {
				set[aside] = nil
			}
		}
		if at := cmp.Or(c.From, c.Path); !c.Markers && c.Base != nil {
			set[at] = c.Base
		}
	}

	editor := tree.NewEditor(f.rw, m.Tree)
	settled := "" // a folder that is as it was before
	for _, path := range slices.SortedFunc(maps.Keys(set), tree.ComparePaths) {
		if settled != "" && tree.Below(path, settled) {
			continue
		}

		var err error
		switch e := set[path]; {
		case e == nil:
			err = editor.Remove(ctx, path)
		case !f.canExist(ctx, m.Tree.ID, path):
		case tree.IsDir(e) && !whole[path]:
			err = editor.SetDir(ctx, path, *e)
		default:
			err = editor.Set(ctx, path, *e)
		}
		if err != nil {
			return object.ID{}, err
		}
		if whole[path] {
			settled = path
		}
	}

	info, err := editor.Finish(ctx)
	return info.ID, err
}

// canExist reports whether a path can exist in a tree: no parent is a file.
func (f *baseFinder) canExist(ctx context.Context, root object.ID, path string) bool {
	dir, _ := tree.Split(path)
	e, err := tree.Find(ctx, f.rw, root, dir)
	return err == nil && tree.IsDir(&e) || errors.Is(err, tree.ErrNotExist)
}

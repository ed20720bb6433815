package tracking

import (
	"context"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/worktree"
)

// aheadChunk is the smallest average size, in bytes, of the chunks of a fetch for
// which files are written ahead of the checkout. With many small files, writing ahead
// gains nothing.
const aheadChunk = 32 << 10

// cloneAhead writes the large files of a clone from chunks as these arrive, so the
// checkout need not read the chunks again. It leaves every failure to the checkout,
// which also reports it.
type cloneAhead struct {
	r     *kist.Repository
	o     CloneOptions
	files *worktree.Ahead // nil: none
}

// chunks is for [FetchOptions].
func (c *cloneAhead) chunks(ctx context.Context, objects object.Reader, fetched *FetchResult) func(object.ID, []byte) {
	c.close()
	if c.o.NoCheckout || fetched.Bytes < fetched.Objects*aheadChunk {
		return nil
	}
	ops, err := c.ops(ctx, objects, fetched)
	if err != nil || len(ops) == 0 {
		return nil
	}
	if c.files, err = c.r.Worktree().WriteAhead(ctx, objects, ops); err != nil {
		return nil
	}
	return c.files.Chunk
}

// ops returns the operations for the files of several chunks in the checkout.
func (c *cloneAhead) ops(ctx context.Context, objects object.Reader, fetched *FetchResult) ([]worktree.Op, error) {
	full, tracking, err := cloneTarget(c.o, fetched)
	if err != nil || full == "" {
		return nil, err
	}
	id, err := refs.Peel(ctx, objects, tracking[full].New)
	if err != nil {
		return nil, err
	}
	commit, err := object.ReadCommit(ctx, objects, id)
	if err != nil {
		return nil, err
	}
	var ops []worktree.Op
	err = tree.Walk(ctx, objects, commit.Tree, func(path string, e object.Entry) error {
		if e.Content.Kind == object.KindManifest {
			ops = append(ops, worktree.Op{Path: path, New: &e})
		}
		return nil
	})
	return ops, err
}

// close removes the files that the checkout did not take.
func (c *cloneAhead) close() {
	if c.files != nil {
		c.files.Close()
		c.files = nil
	}
}

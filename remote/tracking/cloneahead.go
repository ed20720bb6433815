package tracking

import (
	"context"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/worktree"
)

// aheadChunk is how many bytes the chunks of a fetch have on average, at least,
// if files are written ahead of the checkout: where there are many small files,
// there is nothing to be gained.
const aheadChunk = 32 << 10

// cloneAhead has the large files of a clone written from chunks as they are
// received, so that the checkout need not read them again. What it cannot do is
// left to the checkout, which also tells what is wrong.
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

// ops returns what makes the files of several chunks that will be checked out.
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

// close removes what the checkout did not take.
func (c *cloneAhead) close() {
	if c.files != nil {
		c.files.Close()
		c.files = nil
	}
}

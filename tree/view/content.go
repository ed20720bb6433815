package view

import (
	"context"
	"errors"
	"io"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
)

// ReadContent returns the content of a file of the view, at most limit bytes of
// it. If the view is of the worktree, and the file was changed since, it is
// what the file holds now.
func (v View) ReadContent(ctx context.Context, r *kist.Repository, path string, e object.Entry, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(object.NewContentReader(ctx, v.Objects, e), limit))
	if !v.Worktree || !errors.Is(err, object.ErrNotFound) && !errors.Is(err, object.ErrPurged) {
		return data, err
	}
	f, openErr := r.Worktree().Open(path)
	if openErr != nil && errors.Is(err, object.ErrPurged) {
		return nil, err
	}
	if openErr != nil {
		return nil, openErr
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit))
}

// ChangedRanges returns the ranges in which two files differ, in whole chunks.
// The first file is in view a, the second in view b. Neither need be stored.
func ChangedRanges(ctx context.Context, a, b View, old, new object.Entry) ([]tree.Range, error) {
	return tree.ChangedRanges(ctx, layered{b.Objects, a.Objects}, old, new)
}

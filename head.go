package kist

import (
	"context"
	"errors"

	"github.com/kist-vcs/kist/object"
)

// RecordedTree returns the tree of a commit, zero for none and for a commit
// whose loss was accepted. It need not be here if the commit's content has expired.
func (r *Repository) RecordedTree(ctx context.Context, commit object.ID) (object.ID, error) {
	if commit.IsZero() || r.objects.IsLost(object.Key{Kind: object.KindCommit, ID: commit}) {
		return object.ID{}, nil
	}
	c, err := object.ReadCommit(ctx, r.objects, commit)
	if err != nil {
		return object.ID{}, err
	}
	return c.Tree, nil
}

// ErrUnborn says that the current branch has no commit yet.
var ErrUnborn = errors.New("the current branch has no commit yet")

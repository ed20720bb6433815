package cli

import (
	"context"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/history"
	"github.com/kist-vcs/kist/tree/commits"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/stage"
	"github.com/kist-vcs/kist/tree/view"
)

// diffViews returns what the arguments say is to be compared, and the
// conflicts that the index has, if it is one side or behind one.
func diffViews(ctx context.Context, r *kist.Repository, staged bool, revs, paths []string) (old, new view.View, conflicts []index.Conflict, err error) {
	if len(revs) == 1 {
		if from, to, symmetric, ok := refs.SplitRange(revs[0]); ok {
			revs = []string{from, to}
			if symmetric {
				if revs[0], err = mergeBase(ctx, r, from, to); err != nil {
					return old, new, nil, err
				}
			}
		}
	}
	switch {
	case len(revs) > 2 || staged && len(revs) == 2:
		return old, new, nil, usagef("too many revisions to compare")
	case len(revs) == 2:
		if old, err = view.OfCommit(ctx, r, revs[0]); err == nil {
			new, err = view.OfCommit(ctx, r, revs[1])
		}
		return old, new, nil, err
	case len(revs) == 1:
		old, err = view.OfCommit(ctx, r, revs[0])
	case staged:
		old, err = view.OfHead(ctx, r)
	default:
		old, err = view.OfIndex(ctx, r)
	}
	if err != nil {
		return old, new, nil, err
	}
	if staged {
		new, err = view.OfIndex(ctx, r)
	} else {
		new, err = stage.WorktreeView(ctx, r, paths)
	}
	if err != nil {
		return old, new, nil, err
	}
	idx, err := r.Index()
	if err != nil {
		return old, new, nil, err
	}
	return old, new, idx.Conflicts(), nil
}

// mergeBase returns the commit where two others parted.
func mergeBase(ctx context.Context, r *kist.Repository, a, b string) (string, error) {
	from, err := r.Resolve(ctx, a)
	if err != nil {
		return "", err
	}
	to, err := r.Resolve(ctx, b)
	if err != nil {
		return "", err
	}
	bases, err := history.MergeBases(ctx, r.Objects(), from, to)
	if err != nil {
		return "", err
	}
	if len(bases) == 0 {
		return "", commits.ErrNoCommonHistory
	}
	return bases[0].String(), nil
}

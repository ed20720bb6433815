package stage

import (
	"context"
	"errors"
	"fmt"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/history"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/look/compare"
)

// ErrTooManyRevs is the error for more revisions than two sides have.
var ErrTooManyRevs = errors.New("too many revisions to compare")

// SidesOptions select what [SidesOf] returns.
type SidesOptions struct {
	Revs   []string // none, one, two, or one of the forms A..B, A...B, REV^! and REV^-
	Staged bool     // the new side is the index, not the worktree
	Paths  []string // look only at these paths of the worktree; empty: at all
}

// Sides are two trees to compare.
type Sides struct {
	Old, New  compare.Side
	Conflicts []index.Conflict // those of the index, if it or the worktree is a side
}

// SidesOf returns two commits, or a commit beside the index or the worktree. Without a revision,
// the old side is the index, or with o.Staged HEAD. The form A...B compares B with the merge base.
// The error is [ErrTooManyRevs], or a [*refs.UnknownRevisionError] if there is no merge base.
func SidesOf(ctx context.Context, r *kist.Repository, o SidesOptions) (s Sides, err error) {
	revs, err := endsOf(ctx, r, o.Revs)
	if err != nil {
		return s, err
	}
	switch {
	case len(revs) > 2 || o.Staged && len(revs) == 2:
		return s, ErrTooManyRevs
	case len(revs) > 0:
		s.Old, err = compare.OfCommit(ctx, r, revs[0])
	case o.Staged:
		s.Old, err = compare.OfHead(ctx, r)
	default:
		s.Old, err = compare.OfIndex(ctx, r)
	}
	if err != nil {
		return s, err
	}

	switch {
	case len(revs) == 2:
		s.New, err = compare.OfCommit(ctx, r, revs[1])
		return s, err
	case o.Staged:
		s.New, err = compare.OfIndex(ctx, r)
	default:
		s.New, err = WorktreeView(ctx, r, o.Paths)
	}
	if err != nil {
		return s, err
	}
	idx, err := r.Index()
	if err == nil {
		s.Conflicts = idx.Conflicts()
	}
	return s, err
}

// endsOf returns the two ends of a single range, and other revisions as they are.
func endsOf(ctx context.Context, r *kist.Repository, revs []string) ([]string, error) {
	if len(revs) != 1 {
		return revs, nil
	}
	if rev, suffix, parent := refs.SplitParents(revs[0]); suffix == "^!" || suffix == "^-" {
		return []string{fmt.Sprintf("%s^%d", rev, max(parent, 1)), rev}, nil
	}
	from, to, symmetric, ok := refs.SplitRange(revs[0])
	if !ok {
		return revs, nil
	}
	if !symmetric {
		return []string{from, to}, nil
	}
	var ends [2]object.ID
	for i, end := range []string{from, to} {
		var err error
		if ends[i], err = r.Resolve(ctx, end); err != nil {
			return nil, err
		}
	}
	bases, err := history.MergeBases(ctx, r.Objects(), ends[0], ends[1])
	if err != nil {
		return nil, err
	}
	if len(bases) == 0 {
		return nil, &refs.UnknownRevisionError{Rev: revs[0], Reason: "the commits have no common history"}
	}
	return []string{bases[0].String(), to}, nil
}

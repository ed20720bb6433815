package stats

import (
	"context"
	"errors"
	"slices"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/graph"
)

// HistorySize is the size of all history up to a commit.
type HistorySize struct {
	Commit object.ID
	When   object.Time // of the committer
	Bytes  uint64      // size of the commit's content

	// History is the size of the contents of the commits so far, as if each were stored on its
	// own. Raw and Stored are bytes of all their objects, each counted once; see [gc.Amount].
	History     uint64
	Raw, Stored int64
}

// ErrTooLarge means that a repository has too many objects to be counted.
var ErrTooLarge = errors.New("too many objects")

// Growth returns a step for each commit that HEAD, refs and holds reach, by their time. Missing
// objects and the content of expired commits count nothing. The error is
// ErrTooLarge for more than most objects: their keys are in memory.
func Growth(ctx context.Context, r *kist.Repository, most int) ([]HistorySize, error) {
	c, err := newCensus(ctx, r)
	if err != nil {
		return nil, err
	}

	store := r.Objects()
	seen := map[object.Key]bool{}
	steps := make([]HistorySize, 0, c.named)
	for i := range c.graph.commits[:c.named] {
		commit := &c.graph.commits[i]
		step := HistorySize{Commit: commit.id, When: commit.when, Bytes: commit.contentSize(), History: commit.contentSize()}
		count := func(key object.Key) error {
			raw, stored, err := store.StoredSize(ctx, key)
			step.Raw += raw
			step.Stored += stored
			return err
		}
		if err := count(commit.key()); err != nil {
			return nil, err
		}
		err := graph.Walk(ctx, seen, commit.content, func(key object.Key) ([]object.Key, error) {
			if len(seen) > most {
				return nil, ErrTooLarge
			}
			if err := count(key); err != nil {
				if errors.Is(err, object.ErrNotFound) {
					err = nil
				}
				return nil, err
			}
			links, err := graph.Links(ctx, store, key)
			return slices.DeleteFunc(links, func(to object.Key) bool { return c.graph.skips(key, to) }), err
		})
		if err != nil {
			return nil, err
		}
		steps = append(steps, step)
	}

	slices.SortStableFunc(steps, func(a, b HistorySize) int { return a.When.Compare(b.When) })
	for i := 1; i < len(steps); i++ {
		before := &steps[i-1]
		steps[i].History += before.History
		steps[i].Raw += before.Raw
		steps[i].Stored += before.Stored
	}
	return steps, nil
}

// Package intact checks that commits are intact before a name leads to them: all
// their objects are here, and their content has not expired.
package intact

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/graph"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/history"
)

// IsAbsent reports whether an error says that an object is missing or damaged.
func IsAbsent(err error) bool {
	return errors.Is(err, object.ErrNotFound) || errors.Is(err, object.ErrCorrupt)
}

// CommitTree returns the tree of a commit, zero for none. The error is an
// [*ExpiredError] if its content has expired.
func CommitTree(ctx context.Context, r *kist.Repository, commit object.ID) (object.ID, error) {
	if err := Usable(ctx, r, commit); err != nil || commit.IsZero() {
		return object.ID{}, err
	}
	c, err := object.ReadCommit(ctx, r.Objects(), commit)
	if err != nil {
		return object.ID{}, err
	}
	return c.Tree, nil
}

// Check makes sure that commits are there with all that they refer to, now
// that they are to be named: they may have been removed as garbage since they were
// looked at, or brought by a fetch that was stopped before it had the rest, which
// is a [*GoneError]. It is called within publish. Zero IDs do not count.
func Check(ctx context.Context, r *kist.Repository, commits ...object.ID) error {
	var keys []object.Key
	unnamed := map[object.ID]bool{}
	for _, id := range commits {
		if !id.IsZero() {
			keys = append(keys, object.Key{Kind: object.KindCommit, ID: id})
			unnamed[id] = true
		}
	}
	gone, err := r.Objects().Missing(ctx, keys)
	if err == nil && len(gone) > 0 {
		err = &volume.StaleError{Keys: gone}
	}
	if err != nil {
		return err
	}
	if head, err := r.Refs().Head(); err == nil {
		delete(unnamed, head.ID) // as most often
	}
	if len(unnamed) == 0 {
		return nil
	}
	return checkContent(ctx, r, unnamed)
}

// checkContent makes sure that commits are complete. It checks neither expired
// content nor the commits that a name or a log reaches, with their ancestors:
// these were published. It changes the set.
func checkContent(ctx context.Context, r *kist.Repository, commits map[object.ID]bool) error {
	published, err := published(ctx, r, commits)
	if err != nil || len(commits) == 0 {
		return err
	}
	records, err := r.RecordViewOrEmpty()
	if err != nil {
		return err
	}
	found := NewInventory(r, records)
	return graph.Walk(ctx, published, slices.Collect(maps.Keys(commits)), func(id object.ID) ([]object.ID, error) {
		c, err := object.ReadCommit(ctx, r.Objects(), id)
		if err != nil {
			return nil, err
		}
		if _, expired := records.Expired(id); expired {
			return c.Parents, nil
		}
		missing, err := found.CountMissing(ctx, c)
		if err == nil && missing > 0 {
			err = &GoneError{Commits: []Incomplete{{id, missing}}}
		}
		return c.Parents, err
	})
}

// published removes from a set the commits that names and logs lead to. If some
// are left, it returns all that these lead to, as far as they can be read: damage
// elsewhere is no reason to stop.
func published(ctx context.Context, r *kist.Repository, commits map[object.ID]bool) (map[object.ID]bool, error) {
	names, _ := r.Refs().Roots(ctx)
	for _, name := range names {
		delete(commits, name.ID)
	}
	reached := map[object.ID]bool{}
	if len(commits) == 0 {
		return reached, nil
	}
	tips := map[object.ID]bool{}
	for _, name := range names {
		if id, err := refs.Peel(ctx, r.Objects(), name.ID); err == nil {
			tips[id] = true
		}
	}
	var starts []object.ID
	for id := range tips {
		starts = append(starts, id)
	}
	for c, err := range history.Walk(ctx, r.Objects(), starts, history.Options{}) {
		if err != nil {
			break
		}
		reached[c.ID] = true
		if delete(commits, c.ID); len(commits) == 0 {
			break
		}
	}
	return reached, ctx.Err()
}

// ErrGone is matched by every [*GoneError].
var ErrGone = errors.New("the content is gone")

// GoneError says that the content of expired commits cannot be brought back: it
// was removed. It matches [ErrGone].
type GoneError struct{ Commits []Incomplete }

// Incomplete is a commit whose content is not here.
type Incomplete struct {
	Commit  object.ID
	Objects int // number of missing objects; objects below them are unknown and not counted
}

func (e *GoneError) Error() string {
	if len(e.Commits) == 1 {
		missing := "an object and everything below it are missing"
		if n := e.Commits[0].Objects; n > 1 {
			missing = fmt.Sprintf("%d objects and everything below them are missing", n)
		}
		return fmt.Sprintf("the content of %s is gone: %s", e.Commits[0].Commit.Short(), missing)
	}
	return fmt.Sprintf("the content of %d commits is gone", len(e.Commits))
}

// Is makes errors.Is(err, ErrGone) true.
func (e *GoneError) Is(target error) bool { return target == ErrGone }

// IsMissing reports whether an object is not there.
func IsMissing(ctx context.Context, r *kist.Repository, key object.Key) bool {
	missing, err := r.Objects().Missing(ctx, []object.Key{key})
	return err == nil && len(missing) > 0
}

// BranchLost returns an error if HEAD's branch has no commit, but its log says
// that the branch had one. The log is written before the branch, so a log with a
// first commit only proves nothing.
func BranchLost(r *kist.Repository, branch string) error {
	log, err := r.Refs().Log(refs.Heads + branch)
	if err != nil || len(log) == 0 || log[0].Old.IsZero() {
		return nil // a damaged log was reported
	}
	return &refs.CorruptError{File: refs.Heads + branch, Err: fmt.Errorf("missing, its log says that it is at %s", log[0].New)}
}

package kist

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/graph"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/history"
	"github.com/kist-vcs/kist/refs/record"
)

// CommitTree returns the tree of a commit, zero for none. The error is an
// [*object.AbsentError] if its content has expired.
func CommitTree(ctx context.Context, r *Repository, commit object.ID) (object.ID, error) {
	if err := CheckUsable(ctx, r, commit); err != nil || commit.IsZero() {
		return object.ID{}, err
	}
	c, err := object.ReadCommit(ctx, r.Objects(), commit)
	if err != nil {
		return object.ID{}, err
	}
	return c.Tree, nil
}

// checkIntact returns an error if a commit that will get a name is incomplete, as
// [Tx.Need] describes. Zero IDs do not count. The caller is publishing.
func checkIntact(ctx context.Context, r *Repository, commits []object.ID) error {
	var keys []object.Key
	unnamed := map[object.ID]bool{}
	for _, id := range commits {
		if !id.IsZero() {
			keys = append(keys, object.Key{Kind: object.KindCommit, ID: id})
			unnamed[id] = true
		}
	}

	if len(keys) == 0 {
		return nil
	}
	gone, err := r.Objects().Missing(ctx, keys)
	if err == nil && len(gone) > 0 {
		err = &volume.StaleError{Keys: gone}
	}
	if err != nil {
		return err
	}
	if head, err := r.Refs().Head(); err == nil {
		delete(unnamed, head.ID) // the most frequent case
	}
	if len(unnamed) == 0 {
		return nil
	}
	return checkContent(ctx, r, unnamed)
}

// checkContent returns a [*GoneError] if a commit or one of its ancestors is
// incomplete. It skips expired content, and commits that a name or a log reaches:
// these were published. It changes the set.
func checkContent(ctx context.Context, r *Repository, commits map[object.ID]bool) error {
	published, err := dropPublished(ctx, r, commits)
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
			err = &GoneError{Commits: []IncompleteCommit{{id, missing}}}
		}
		return c.Parents, err
	})
}

// dropPublished removes from a set the commits that names and logs reach. If some are
// left, it returns all commits that names and logs reach. It skips commits that it
// cannot read, because damage elsewhere is no reason to stop.
func dropPublished(ctx context.Context, r *Repository, commits map[object.ID]bool) (map[object.ID]bool, error) {
	names, _ := r.Refs().Roots(ctx)
	for _, name := range names {
		delete(commits, name.ID)
	}

	reached := map[object.ID]bool{}
	if len(commits) == 0 {
		return reached, nil
	}
	var starts []object.ID
	for _, name := range names {
		if id, err := refs.Peel(ctx, r.Objects(), name.ID); err == nil {
			starts = append(starts, id)
		}
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

// GoneError means that content of commits is missing: it was removed, or never
// arrived. It matches [ErrGone].
type GoneError struct{ Commits []IncompleteCommit }

// IncompleteCommit is a commit with missing content.
type IncompleteCommit struct {
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

// IsContentGone reports whether the content of a commit has expired and was removed.
func IsContentGone(ctx context.Context, r *Repository, records *record.Effects, id object.ID, c *object.Commit) bool {
	if _, expired := records.Expired(id); !expired {
		return false
	}
	present, err := r.Objects().Has(ctx, object.Key{Kind: object.KindTree, ID: c.Tree})
	return err == nil && !present
}

// CheckBranchLost returns an error if HEAD's branch has no commit, but its log says
// that the branch had one. The log is written before the branch, so a log with a
// first commit only proves nothing.
func CheckBranchLost(r *Repository, branch string) error {
	log, err := r.Refs().Log(refs.Heads + branch)
	if err != nil || len(log) == 0 || log[0].Old.IsZero() {
		return nil // a damaged log was reported
	}
	return refs.Damaged(refs.Heads+branch, fmt.Errorf("missing, its log says that it is at %s", log[0].New))
}

// Reasons that match [object.ErrExpired]. Each needs other advice.
var (
	ErrExpiredHead = fmt.Errorf("%w, and HEAD is there", object.ErrExpired)
	ErrExpiredBase = fmt.Errorf("%w at a merge base", object.ErrExpired)
	ErrExpiredGone = fmt.Errorf("%w and was removed", object.ErrExpired)
)

// CheckUsable returns an [*object.AbsentError] if the content of a commit has expired, even
// if it is still here. HEAD's commit is an exception: it can be used while its
// content is complete, so that a user can leave it. A zero ID is no commit.
func CheckUsable(ctx context.Context, r *Repository, commit object.ID) error {
	return checkUsable(ctx, r, commit, object.ErrExpired)
}

// CheckUsableBase is CheckUsable for a merge base. It can be used while its content is
// complete: gc keeps the content for that, see [gc.Forks].
func CheckUsableBase(ctx context.Context, r *Repository, commit object.ID) error {
	return checkUsable(ctx, r, commit, ErrExpiredBase)
}

// checkUsable returns an error if a commit has expired and cannot be used. Reason is that of
// the error, unless HEAD or the state of the content is a better one.
func checkUsable(ctx context.Context, r *Repository, commit object.ID, reason error) error {
	if commit.IsZero() {
		return nil
	}
	records, err := r.RecordViewOrEmpty()
	if err != nil {
		return err
	}
	if _, expired := records.Expired(commit); !expired {
		return nil
	}

	head, err := r.Refs().Head()
	if err != nil {
		return err
	}
	if head.ID == commit {
		reason = ErrExpiredHead
	}
	c, err := object.ReadCommit(ctx, r.Objects(), commit)
	if err != nil {
		return err
	}
	present, err := r.Objects().Has(ctx, object.Key{Kind: object.KindTree, ID: c.Tree})
	if err != nil {
		return err
	}

	switch {
	case reason == object.ErrExpired && !present:
		return records.CheckExpired(commit, ErrExpiredGone)
	case reason == object.ErrExpired || !present:
		return records.CheckExpired(commit, reason)
	}
	missing, err := NewInventory(r, records).CountMissing(ctx, c)
	if err == nil && missing > 0 {
		err = records.CheckExpired(commit, reason)
	}
	return err
}

// checkPublishable returns an [*object.AbsentError] if an intact commit has expired and lost content
// since the caller read it.
func checkPublishable(ctx context.Context, r *Repository, commits []object.ID) error {
	if len(commits) == 0 {
		return nil
	}
	records, err := r.RecordViewOrEmpty()
	if err != nil {
		return err
	}
	found := NewInventory(r, records)
	for _, id := range commits {
		if _, expired := records.Expired(id); !expired {
			continue
		}
		c, err := object.ReadCommit(ctx, r.Objects(), id)
		if err != nil {
			return err
		}
		if missing, err := found.CountMissing(ctx, c); err != nil {
			return err
		} else if missing > 0 {
			return records.CheckExpired(id, ErrExpiredGone)
		}
	}

	return nil
}

// Inventory counts the missing objects of commits. It remembers the objects that are
// present with all objects below them.
type Inventory struct {
	r       *Repository
	records *record.Effects
	intact  map[object.Key]bool

	promised *Promised // nil: not read yet
}

// NewInventory returns an inventory that does not count objects that records do not
// require.
func NewInventory(r *Repository, records *record.Effects) *Inventory {
	return &Inventory{r: r, records: records, intact: map[object.Key]bool{}}
}

// absent returns the missing objects, and the ones that are away: a remote keeps them with everything below.
func (v *Inventory) absent(ctx context.Context, keys []object.Key) (gone, away []object.Key, err error) {
	missing, err := volume.OnlyHere(v.r.Objects()).Missing(ctx, keys)
	if err != nil || len(missing) == 0 {
		return nil, nil, err
	}
	if v.promised == nil {
		if v.promised, err = NewPromised(v.r); err != nil {
			return nil, nil, err
		}
	}
	for _, key := range missing {
		promised, err := v.promised.Has(ctx, key)
		switch {
		case err != nil:
			return nil, nil, err
		case promised:
			away = append(away, key)
		default:
			gone = append(gone, key)
		}
	}
	return gone, away, nil
}

// CountMissing returns the number of missing objects of a commit's content. It does
// not count the objects below a missing one, nor objects that are away.
func (v *Inventory) CountMissing(ctx context.Context, c *object.Commit) (int, error) {
	missing := 0
	seen := map[object.Key]bool{}
	present := func(keys []object.Key) ([]object.Key, error) {
		keys = slices.DeleteFunc(keys, func(key object.Key) bool { return seen[key] || v.intact[key] })
		gone, away, err := v.absent(ctx, keys)
		for _, key := range away {
			seen[key] = true
		}
		for _, key := range gone {
			seen[key] = true
		}
		missing += len(gone)
		return keys, err
	}

	top := []object.Key{{Kind: object.KindTree, ID: c.Tree}}
	if !c.SkippedRest.IsZero() {
		top = append(top, object.Key{Kind: object.KindChunk, ID: c.SkippedRest})
	}
	top, err := present(top)
	if err != nil {
		return 0, err
	}
	err = graph.Walk(ctx, seen, top, func(key object.Key) ([]object.Key, error) {
		links, err := graph.Links(ctx, v.r.Objects(), key)
		if err != nil {
			return nil, err
		}
		return present(slices.DeleteFunc(links, func(link object.Key) bool { return v.records.Skips(key, link) }))
	})
	if err != nil {
		return 0, err
	}
	if missing == 0 {
		maps.Copy(v.intact, seen)
	}
	return missing, nil
}

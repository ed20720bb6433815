package retain

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs/intact"
	"github.com/kist-vcs/kist/refs/record"
)

// ErrNotExpired means that the content of a commit has not expired.
var ErrNotExpired = errors.New("the content has not expired")

// Expirations returns the records of all commits whose content has expired,
// sorted by ID.
func Expirations(r *kist.Repository) ([]record.Record, error) {
	set, err := r.Records().Load()
	if err != nil {
		return nil, err
	}
	records := set.View()
	var list []record.Record
	for rec := range set.All() {
		if _, expired := records.Expired(rec.Key.ID); expired && rec.Kind == record.Expire {
			list = append(list, rec)
		}
	}
	return list, nil
}

// Unexpire undoes the expiration of commits and returns them. If a part of
// their content is missing, nothing is done, and the error is a
// [*intact.GoneError].
func Unexpire(ctx context.Context, r *kist.Repository, revs []string) ([]object.ID, error) {
	var ids []object.ID
	for _, rev := range revs {
		id, err := r.Resolve(ctx, rev)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return unexpire(ctx, r, ids, false)
}

// UnexpireAll is Unexpire for all expired commits with complete content. If
// others exist, the result is the restored commits and a [*intact.GoneError]
// with the rest.
func UnexpireAll(ctx context.Context, r *kist.Repository) ([]object.ID, error) {
	list, err := Expirations(r)
	if err != nil {
		return nil, err
	}
	var ids []object.ID
	for _, rec := range list {
		ids = append(ids, rec.Key.ID)
	}
	return unexpire(ctx, r, ids, true)
}

// unexpire undoes expirations: all or none, or with some set, those of commits
// with complete content. Publish makes sure that no gc removes objects
// meanwhile.
func unexpire(ctx context.Context, r *kist.Repository, ids []object.ID, some bool) ([]object.ID, error) {
	var done []object.ID
	gone := &intact.GoneError{}
	err := r.Publish(ctx, func(ctx context.Context) error {
		return r.Records().Update(ctx, func(set *record.Set) error {
			found := intact.NewInventory(r, set.At(r.Options().Now()))
			done, gone.Commits = nil, nil
			for _, id := range ids {
				key := object.Key{Kind: object.KindCommit, ID: id}
				rec, _ := set.Get(record.Expire, key)
				if !rec.On {
					if some { // another process was faster
						continue
					}
					return fmt.Errorf("commit %s: %w", id.Short(), ErrNotExpired)
				}
				missing, err := CountMissing(ctx, r, found, id)
				if err != nil {
					return err
				}
				if missing > 0 {
					gone.Commits = append(gone.Commits, intact.Incomplete{Commit: id, Objects: missing})
					continue
				}
				rec.On, rec.Time, rec.Who, rec.Host = false, r.Options().Date().UTC(), r.Recorder(), r.Options().Host
				if err := set.Switch(rec); err != nil {
					return err
				}
				done = append(done, id)
			}
			if len(gone.Commits) > 0 && !some {
				return gone
			}
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	if len(gone.Commits) > 0 {
		return done, gone
	}

	return done, nil
}

// CountMissing returns the number of missing objects in a commit's content,
// including the commit.
func CountMissing(ctx context.Context, r *kist.Repository, found *intact.Inventory, id object.ID) (int, error) {
	c, err := object.ReadCommit(ctx, r.Objects(), id)
	if errors.Is(err, object.ErrNotFound) {
		return 1, nil
	}
	if err != nil {
		return 0, err
	}
	return found.CountMissing(ctx, c)
}

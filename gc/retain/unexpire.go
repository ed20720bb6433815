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

// ErrNotExpired says that there is nothing to take back.
var ErrNotExpired = errors.New("the content has not expired")

// Expirations returns the records of all commits whose content has expired, in
// the order of the commits' IDs.
func Expirations(r *kist.Repository) ([]record.Record, error) {
	set, err := r.Records().Load()
	if err != nil {
		return nil, err
	}
	said := set.View()
	var list []record.Record
	for rec := range set.All() {
		if _, expired := said.Expired(rec.Key.ID); expired && rec.Kind == record.Expire {
			list = append(list, rec)
		}
	}
	return list, nil
}

// Unexpire takes back that the content of commits has expired, and returns
// them. All of the content has to be here still: if not, nothing is done, and
// the error is a [*GoneError].
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

// UnexpireAll is Unexpire for all that has expired. What is gone stays so, and
// all else is taken back; then both results are set.
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

// unexpire takes back what is whole, or unless some is enough, all or nothing.
// While it publishes, nothing is removed as garbage.
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
					if some { // somebody else was quicker
						continue
					}
					return fmt.Errorf("commit %s: %w", id.Short(), ErrNotExpired)
				}
				lacking, err := CountMissing(ctx, r, found, id)
				if err != nil {
					return err
				}
				if lacking > 0 {
					gone.Commits = append(gone.Commits, intact.Incomplete{Commit: id, Objects: lacking})
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

// CountMissing returns how many objects of a commit's content are missing, the
// commit itself among them.
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

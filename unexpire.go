package kist

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs/record"
)

// ErrGone is matched by every [*GoneError].
var ErrGone = errors.New("the content is gone")

// GoneError says that the content of expired commits cannot be brought back: it
// was removed. It matches [ErrGone].
type GoneError struct{ Commits []Lacking }

// Lacking is a commit whose content is not here.
type Lacking struct {
	Commit  object.ID
	Objects int // that are missing; what is below them is not known, nor counted
}

func (e *GoneError) Error() string {
	if len(e.Commits) == 1 {
		what := "an object is missing"
		if n := e.Commits[0].Objects; n > 1 {
			what = fmt.Sprintf("%d objects are missing", n)
		}
		return fmt.Sprintf("the content of %s is gone: %s, and what is below", e.Commits[0].Commit.Short(), what)
	}
	return fmt.Sprintf("the content of %d commits is gone", len(e.Commits))
}

// Is makes errors.Is(err, ErrGone) true.
func (e *GoneError) Is(target error) bool { return target == ErrGone }

// ErrNotExpired says that there is nothing to take back.
var ErrNotExpired = errors.New("the content has not expired")

// Expirations returns the records of all commits whose content has expired, in
// the order of the commits' IDs.
func (r *Repository) Expirations() ([]record.Record, error) {
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
func (r *Repository) Unexpire(ctx context.Context, revs []string) ([]object.ID, error) {
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
	return r.unexpire(ctx, ids, false)
}

// UnexpireAll is Unexpire for all that has expired. What is gone stays so, and
// all else is taken back; then both results are set.
func (r *Repository) UnexpireAll(ctx context.Context) ([]object.ID, error) {
	list, err := r.Expirations()
	if err != nil {
		return nil, err
	}
	var ids []object.ID
	for _, rec := range list {
		ids = append(ids, rec.Key.ID)
	}
	return r.unexpire(ctx, ids, true)
}

// unexpire takes back what is whole, or unless some is enough, all or nothing.
// While it publishes, nothing is removed as garbage.
func (r *Repository) unexpire(ctx context.Context, ids []object.ID, some bool) ([]object.ID, error) {
	var done []object.ID
	gone := &GoneError{}
	err := r.publish(ctx, func(ctx context.Context) error {
		return r.Records().Update(ctx, func(set *record.Set) error {
			found := newInventory(r, set.At(r.opt.Now()))
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
				lacking, err := r.lackingOf(ctx, found, id)
				if err != nil {
					return err
				}
				if lacking > 0 {
					gone.Commits = append(gone.Commits, Lacking{id, lacking})
					continue
				}
				rec.On, rec.Time, rec.Who, rec.Host = false, r.opt.Date().UTC(), r.recorder(), r.opt.Host
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

// lackingOf returns how many objects of a commit's content are missing, the
// commit itself among them.
func (r *Repository) lackingOf(ctx context.Context, found *inventory, id object.ID) (int, error) {
	c, err := object.ReadCommit(ctx, r.objects, id)
	if errors.Is(err, object.ErrNotFound) {
		return 1, nil
	}
	if err != nil {
		return 0, err
	}
	return found.lacking(ctx, c)
}

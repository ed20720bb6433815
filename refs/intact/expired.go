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
	"github.com/kist-vcs/kist/refs/record"
)

// ErrExpired is matched by every [*ExpiredError].
var ErrExpired = errors.New("the content has expired")

// ExpiredError says that a commit's content was asked for and has expired. It
// matches [ErrExpired].
type ExpiredError struct {
	Commit object.ID
	Record record.Record // when it expired, by whom, and by which policy
	Gone   bool          // the content was removed; if not, at least some of it is here
	Head   bool          // HEAD is at the commit
	Base   bool          // a merge needs it, since both sides part there
}

func (e *ExpiredError) Error() string {
	text := fmt.Sprintf("the content of %s expired on %s", e.Commit.Short(), e.Record.Time.Format("2006-01-02"))
	if e.Record.Who != "" {
		text += " by " + e.Record.Who
	}
	if e.Record.Reason != "" {
		text += " (" + e.Record.Reason + ")"
	}
	return text
}

// Is makes errors.Is(err, ErrExpired) true.
func (e *ExpiredError) Is(target error) bool { return target == ErrExpired }

// Usable returns an [*ExpiredError] if the content of a commit has expired,
// though it may still be here. That of HEAD is used as long as it is here in
// full: there has to be a way out. A zero ID is no commit.
func Usable(ctx context.Context, r *kist.Repository, commit object.ID) error {
	e, c, err := expired(ctx, r, commit)
	if e == nil || err != nil {
		return err
	}
	if e.Gone || !e.Head {
		return e
	}
	return usableInFull(ctx, r, e, c)
}

// UsableBase is usable for a commit where the sides of a merge part. It is used
// as long as it is here in full: gc keeps it for that, see [gc.Forks].
func UsableBase(ctx context.Context, r *kist.Repository, commit object.ID) error {
	e, c, err := expired(ctx, r, commit)
	if e == nil || err != nil {
		return err
	}
	if e.Base = true; e.Gone {
		return e
	}
	return usableInFull(ctx, r, e, c)
}

// usableInFull returns e unless the content of c is here in full.
func usableInFull(ctx context.Context, r *kist.Repository, e *ExpiredError, c *object.Commit) error {
	records, err := r.RecordViewOrEmpty()
	if err != nil {
		return err
	}
	lacking, err := NewInventory(r, records).CountMissing(ctx, c)
	if err == nil && lacking > 0 {
		err = e
	}
	return err
}

// expired returns what to say of a commit whose content has expired, and the
// commit; nil if it has not.
func expired(ctx context.Context, r *kist.Repository, commit object.ID) (*ExpiredError, *object.Commit, error) {
	if commit.IsZero() {
		return nil, nil, nil
	}
	records, err := r.RecordViewOrEmpty()
	if err != nil {
		return nil, nil, err
	}
	rec, expired := records.Expired(commit)
	if !expired {
		return nil, nil, nil
	}
	head, err := r.Refs().Head()
	if err != nil {
		return nil, nil, err
	}
	e := &ExpiredError{Commit: commit, Record: rec, Head: head.ID == commit}
	c, err := object.ReadCommit(ctx, r.Objects(), commit)
	if err != nil {
		return nil, nil, err
	}
	gone, err := r.Objects().Missing(ctx, []object.Key{{Kind: object.KindTree, ID: c.Tree}})
	e.Gone = len(gone) > 0
	return e, c, err
}

// CheckUsable makes sure that commits are there, and that none has expired and
// lost content since it was looked at. It is called within publish. Zero IDs do
// not count.
func CheckUsable(ctx context.Context, r *kist.Repository, commits ...object.ID) error {
	if err := Check(ctx, r, commits...); err != nil {
		return err
	}
	records, err := r.RecordViewOrEmpty()
	if err != nil {
		return err
	}
	found := NewInventory(r, records)
	for _, id := range commits {
		rec, expired := records.Expired(id)
		if !expired {
			continue
		}
		c, err := object.ReadCommit(ctx, r.Objects(), id)
		if err != nil {
			return err
		}
		if lacking, err := found.CountMissing(ctx, c); err != nil {
			return err
		} else if lacking > 0 {
			return &ExpiredError{Commit: id, Record: rec, Gone: true}
		}
	}
	return nil
}

// Inventory counts the missing objects of commits. It remembers the objects that are
// here with everything below them.
type Inventory struct {
	r       *kist.Repository
	records *record.View
	intact  map[object.Key]bool
}

// NewInventory returns an inventory that does not count objects that records do not
// require.
func NewInventory(r *kist.Repository, records *record.View) *Inventory {
	return &Inventory{r: r, records: records, intact: map[object.Key]bool{}}
}

// CountMissing returns the number of missing objects of a commit's content. It does
// not count the objects below a missing one.
func (v *Inventory) CountMissing(ctx context.Context, c *object.Commit) (int, error) {
	missing := 0
	seen := map[object.Key]bool{}
	present := func(keys []object.Key) ([]object.Key, error) {
		keys = slices.DeleteFunc(keys, func(key object.Key) bool { return seen[key] || v.intact[key] })
		gone, err := v.r.Objects().Missing(ctx, keys)
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

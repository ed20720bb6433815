package intact

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
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
	said, err := r.RecordViewOrEmpty()
	if err != nil {
		return err
	}
	lacking, err := NewInventory(r, said).CountMissing(ctx, c)
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
	said, err := r.RecordViewOrEmpty()
	if err != nil {
		return nil, nil, err
	}
	rec, expired := said.Expired(commit)
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
	said, err := r.RecordViewOrEmpty()
	if err != nil {
		return err
	}
	found := NewInventory(r, said)
	for _, id := range commits {
		rec, expired := said.Expired(id)
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

// Inventory finds out what of the content of commits is not here. What it has
// looked at it remembers.
type Inventory struct {
	r     *kist.Repository
	said  *record.View
	seen  map[object.Key]bool // whether it is here
	whole map[object.Key]bool // with all below it
}

func NewInventory(r *kist.Repository, said *record.View) *Inventory {
	return &Inventory{r: r, said: said, seen: map[object.Key]bool{}, whole: map[object.Key]bool{}}
}

// CountMissing returns how many objects of a commit's content are not here. Of those
// below an object that is not here, nothing is known.
func (v *Inventory) CountMissing(ctx context.Context, c *object.Commit) (int, error) {
	lacking := 0
	counted := map[object.Key]bool{}
	todo := []object.Key{{Kind: object.KindTree, ID: c.Tree}}
	if !c.SkippedRest.IsZero() {
		todo = append(todo, object.Key{Kind: object.KindChunk, ID: c.SkippedRest})
	}
	if err := v.look(ctx, todo); err != nil {
		return 0, err
	}
	for len(todo) > 0 {
		key := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if counted[key] || v.whole[key] {
			continue
		}
		counted[key] = true
		if !v.seen[key] {
			lacking++
			continue
		}
		if !key.Kind.IsNode() {
			continue
		}
		data, err := v.r.Objects().Get(ctx, key)
		if err != nil {
			return 0, err
		}
		links, err := object.Links(key.Kind, data)
		if err != nil {
			return 0, err
		}
		below := links[:0:0]
		for _, link := range links {
			if !v.said.Skips(key, link) {
				below = append(below, link)
			}
		}
		if err := v.look(ctx, below); err != nil {
			return 0, err
		}
		todo = append(todo, below...)
	}
	if lacking == 0 {
		maps.Copy(v.whole, counted)
	}
	return lacking, nil
}

// look finds out which objects are here.
func (v *Inventory) look(ctx context.Context, keys []object.Key) error {
	var ask []object.Key
	for _, key := range keys {
		if _, known := v.seen[key]; !known {
			v.seen[key] = true
			ask = append(ask, key)
		}
	}
	missing, err := v.r.Objects().Missing(ctx, ask)
	for _, key := range missing {
		v.seen[key] = false
	}
	return err
}

package retain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs/intact"
	"github.com/kist-vcs/kist/refs/record"
)

// ErrNotHeld says that there is nothing to release.
var ErrNotHeld = errors.New("not held")

// HeldError says that something cannot be purged or rewritten, since a held
// commit, or one before it, has it. It matches [ErrProtected].
type HeldError struct{ Holds []record.Record }

func (e *HeldError) Error() string {
	text := ""
	for i, hold := range e.Holds {
		if i > 0 {
			text += "; "
		}
		text += "commit " + hold.Key.ID.Short() + " is held"
		if hold.Who != "" {
			text += " by " + hold.Who
		}
		if hold.Reason != "" {
			text += " (" + hold.Reason + ")"
		}
	}
	return text
}

// Is makes errors.Is(err, ErrProtected) true.
func (e *HeldError) Is(target error) bool { return target == ErrProtected }

// HoldsOf returns the holds of a view, in the order of their commits.
func HoldsOf(said *record.View) []record.Record {
	var list []record.Record
	for _, id := range said.Holds() {
		hold, _ := said.Held(id)
		list = append(list, hold)
	}
	slices.SortFunc(list, func(a, b record.Record) int { return a.Key.ID.Compare(b.Key.ID) })
	return list
}

// HoldOptions say what [Hold] holds.
type HoldOptions struct {
	Rev    string
	Until  time.Time // when the hold is over; zero: never
	Reason string    // see [record.CheckText]; may be empty
}

// Hold has a commit keep its content, whatever expires and whoever collects
// garbage, and also if no branch or tag reaches it any more. A hold of a commit
// that is held replaces the one before. All of the content has to be here: if
// not, nothing is recorded, and the error is a [*GoneError].
func Hold(ctx context.Context, r *kist.Repository, o HoldOptions) (record.Record, error) {
	hold := record.Record{
		Kind: record.Hold, On: true, Time: r.Options().Date().UTC(), Who: r.Recorder(), Host: r.Options().Host, Reason: o.Reason,
	}
	if !o.Until.IsZero() {
		hold.Until = o.Until.UTC()
	}
	id, err := r.Resolve(ctx, o.Rev)
	if err != nil {
		return hold, err
	}
	hold.Key = object.Key{Kind: object.KindCommit, ID: id}
	// While it publishes, nothing is removed as garbage.
	err = r.Publish(ctx, func(ctx context.Context) error {
		if err := intact.Check(ctx, r, id); err != nil {
			return err
		}
		said, err := r.RecordView()
		if err != nil {
			return err
		}
		lacking, err := CountMissing(ctx, r, intact.NewInventory(r, said), id)
		if err != nil {
			return err
		}
		if lacking > 0 {
			return &intact.GoneError{Commits: []intact.Incomplete{{Commit: id, Objects: lacking}}}
		}
		return r.Records().Update(ctx, func(set *record.Set) error {
			if err := set.Switch(hold); err != nil {
				return err
			}
			hold, _ = set.Get(record.Hold, hold.Key)
			return nil
		})
	})
	return hold, err
}

// Release lifts a hold. The argument is a revision, or the first digits of the
// ID of a commit that is held, which need not be here. The record stays, and
// says from then on who has lifted the hold, when and why. Release returns the
// record before and after. The error is ErrNotHeld if the commit is not held.
func Release(ctx context.Context, r *kist.Repository, rev, reason string) (was, released record.Record, err error) {
	err = r.Records().Update(ctx, func(set *record.Set) error {
		held, err := findHold(ctx, r, set, rev)
		if err != nil {
			return err
		}
		was = held
		held.On, held.Time, held.Who, held.Host, held.Reason = false, r.Options().Date().UTC(), r.Recorder(), r.Options().Host, reason
		if err := set.Switch(held); err != nil {
			return err
		}
		released, _ = set.Get(record.Hold, held.Key)
		return nil
	})
	return was, released, err
}

// findHold returns the hold that a revision or the first digits of an ID name.
func findHold(ctx context.Context, r *kist.Repository, set *record.Set, rev string) (record.Record, error) {
	id, err := r.Resolve(ctx, rev)
	if err == nil {
		held, _ := set.Get(record.Hold, object.Key{Kind: object.KindCommit, ID: id})
		if !held.On {
			return held, fmt.Errorf("commit %s is %w", id.Short(), ErrNotHeld)
		}
		return held, nil
	}
	var ids []object.ID
	for _, id := range set.View().Holds() {
		if len(rev) >= 4 && strings.HasPrefix(id.String(), strings.ToLower(rev)) {
			ids = append(ids, id)
		}
	}
	if len(ids) != 1 {
		return record.Record{}, err
	}
	held, _ := set.Get(record.Hold, object.Key{Kind: object.KindCommit, ID: ids[0]})
	return held, nil
}

// Held returns the record that holds a commit, and whether one does. A hold that
// is over does until garbage is collected.
func Held(r *kist.Repository, commit object.ID) (record.Record, bool, error) {
	said, err := r.RecordViewOrEmpty()
	if err != nil {
		return record.Record{}, false, err
	}
	hold, held := said.Held(commit)
	return hold, held, nil
}

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
	"github.com/kist-vcs/kist/refs/record"
)

// ErrNotHeld means that a commit is not held.
var ErrNotHeld = errors.New("not held")

// HeldError means that a content cannot be purged or rewritten, because a held
// commit or one of its ancestors has it. It matches [ErrProtected].
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

// HoldsOf returns the holds in records, sorted by commit.
func HoldsOf(records *record.Effects) []record.Record {
	var list []record.Record
	for _, id := range records.Holds() {
		hold, _ := records.Held(id)
		list = append(list, hold)
	}

	slices.SortFunc(list, func(a, b record.Record) int { return a.Key.ID.Compare(b.Key.ID) })
	return list
}

// Stamp returns a record that the present user changes now.
func Stamp(r *kist.Repository, rec record.Record) record.Record {
	rec.Time, rec.Who, rec.Host = r.Options().Date().UTC(), r.Recorder(), r.Options().Host
	return rec
}

// HoldOptions configure [Hold].
type HoldOptions struct {
	Rev    string
	Until  time.Time // end of the hold; zero: never
	Reason string    // see [record.CheckText]; may be empty
}

// Hold makes a commit keep its content, even if it expires or becomes
// unreachable. It replaces an existing hold of the commit. If a part of the
// content is missing, nothing is recorded, and the error is a
// [*kist.GoneError].
func Hold(ctx context.Context, r *kist.Repository, o HoldOptions) (record.Record, error) {
	hold := Stamp(r, record.Record{Kind: record.Hold, On: true, Reason: o.Reason})
	if !o.Until.IsZero() {
		hold.Until = o.Until.UTC()
	}

	id, err := r.Resolve(ctx, o.Rev)
	if err != nil {
		return hold, err
	}

	hold.Key = object.Key{Kind: object.KindCommit, ID: id}

	// Meanwhile, no gc removes objects.
	note := func(ctx context.Context) error {
		records, err := r.RecordView()
		if err != nil {
			return err
		}
		missing, err := CountMissing(ctx, r, kist.NewInventory(r, records), id)
		if err != nil {
			return err
		}
		if missing > 0 {
			return &kist.GoneError{Commits: []kist.IncompleteCommit{{Commit: id, Objects: missing}}}
		}
		return r.Records().Update(ctx, func(set *record.Set) error {
			if err := set.Switch(hold); err != nil {
				return err
			}
			hold, _ = set.Get(record.Hold, hold.Key)
			return nil
		})
	}
	err = r.Publish(ctx, func(tx *kist.Tx) {
		tx.Need(id)
		tx.NoteStep(note)
	})

	return hold, err
}

// Release lifts a hold. Rev is a revision, or the first digits of a held
// commit's ID; the commit may be missing. The record stays and shows who
// lifted the hold, when and why. Release returns the record before and after.
// The error is ErrNotHeld if the commit is not held.
func Release(ctx context.Context, r *kist.Repository, rev, reason string) (was, released record.Record, err error) {
	err = r.Records().Update(ctx, func(set *record.Set) error {
		held, err := findHold(ctx, r, set, rev)
		if err != nil {
			return err
		}
		was = held
		held.On, held.Reason = false, reason
		if err := set.Switch(Stamp(r, held)); err != nil {
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

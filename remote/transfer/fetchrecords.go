package transfer

import (
	"context"
	"errors"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs/record"
)

// recordComparison compares the records of both ends of a fetch.
type recordComparison struct {
	views    recordViews
	want     []object.Key
	take     *record.Set     // the remote's, except records that need objects it does not have
	forget   []record.Record // the repository's to forget: see compareRecords
	waiting  []record.Record // the remote's that the caller has to decide on
	restored []restored
	named    map[object.ID]bool // commits that refs of the remote name; nil: not read yet
}

// restored is a record that makes the repository need objects again.
type restored struct {
	record.Record
	want []object.Key
	ours bool // an expiration of ours to forget, because a ref of the remote names the commit
}

// compareRecords merges the records of both ends. It finds the objects that the repository
// needs again because of the remote's records.
//
// Two kinds of records would make the fetch fail, and are left out:
//   - a record of the remote that needs objects which the remote has removed, because
//     neither its refs nor its holds reach them;
//   - an undone expiration or purge of ours whose object is not here, while it is still
//     in force on the remote.
//
// It also forgets an expiration of ours if a ref of the remote names the commit: the
// remote does not take it.
func (f *fetch) compareRecords(ctx context.Context) (*recordComparison, error) {
	n := &recordComparison{take: f.at.Records.Clone()}
	ours := f.o.Records.Clone()
	if f.o.Accept != nil {
		var err error
		if n.waiting, err = f.o.Accept(ctx, n.take.Newer(ours)); err != nil {
			return nil, err
		}
		for _, r := range n.waiting {
			n.take.Forget(r)
		}
	}

	for _, r := range ours.Newer(f.at.Records) {
		theirs, _ := f.at.Records.Get(r.Kind, r.Key)
		if r.Kind == record.Expire && r.On && !theirs.On {
			if err := f.keepNamedCommit(ctx, n, r); err != nil {
				return nil, err
			}
		}
		if r.On || !theirs.On || r.Kind == record.Hold {
			continue
		}
		here, err := f.hasContent(ctx, r.Key)
		if err != nil {
			return nil, err
		}
		if !here {
			n.forget = append(n.forget, r)
			ours.Forget(r)
		}
	}

	for _, r := range n.restored {
		ours.Forget(r.Record)
	}
	f.mergeRecords(n, ours)
	for _, r := range n.take.Newer(ours) {
		if err := f.noteRestored(ctx, n, r); err != nil {
			return nil, err
		}
	}
	if err := f.refuseIncomplete(ctx, n, ours); err != nil {
		return nil, err
	}

	f.mergeRecords(n, ours)
	for _, id := range n.views.after.Holds() {
		if _, held := n.views.before.Held(id); !held {
			n.want = append(n.want, object.Key{Kind: object.KindCommit, ID: id})
		}
	}
	return n, nil
}

// keepNamedCommit notes an expiration of ours as one to forget if the commit is here and
// a ref of the remote names it.
func (f *fetch) keepNamedCommit(ctx context.Context, n *recordComparison, r record.Record) error {
	if n.named == nil {
		var err error
		if n.named, err = namedCommits(ctx, f.at.Refs, nil, f.session, f.giver); err != nil {
			return err
		}
	}
	if !n.named[r.Key.ID] {
		return nil
	}
	content, err := contentOf(ctx, f.session, r.Key)
	if errors.Is(err, object.ErrNotFound) {
		return nil
	}
	if err == nil {
		n.restored = append(n.restored, restored{r, content, true})
	}
	return err
}

// mergeRecords computes the views before and after the fetch, from records and lists of
// lost objects. Ours are the repository's remaining records.
func (f *fetch) mergeRecords(n *recordComparison, ours *record.Set) {
	merged := ours.Clone()
	for r := range n.take.All() {
		merged.Merge(r)
	}
	n.views = recordViews{before: f.o.Records.View().WithLost(f.session.IsLost), after: merged.View().WithLost(f.isLost)}
}

// noteRestored notes the objects that a record makes needed again here, if any.
func (f *fetch) noteRestored(ctx context.Context, n *recordComparison, r record.Record) error {
	if r.Frees() {
		return nil
	}
	if r.Kind == record.Purge {
		if _, purged := n.views.before.Purged(r.Key); purged {
			n.restored = append(n.restored, restored{Record: r, want: []object.Key{r.Key}})
		}
		return nil
	}

	_, before := n.views.before.Expired(r.Key.ID)
	_, after := n.views.after.Expired(r.Key.ID)
	if !before || after {
		return nil
	}

	content, err := contentOf(ctx, f.session, r.Key)
	if errors.Is(err, object.ErrNotFound) {
		return nil // if it is fetched, then with all its content
	}
	if err == nil {
		n.restored = append(n.restored, restored{Record: r, want: content})
	}
	return err
}

// refuseIncomplete leaves out each record that needs an object which neither end has. For a hold it
// returns the error for the missing object instead. It then keeps an expiration of
// ours.
func (f *fetch) refuseIncomplete(ctx context.Context, n *recordComparison, ours *record.Set) error {
	var all []object.Key
	for _, r := range n.restored {
		all = append(all, r.want...)
	}
	if len(all) == 0 {
		return nil
	}

	missing := walkWanted(ctx, f, all, nil, n.views) // for all records at once
	if missing != nil && !errors.Is(missing, object.ErrNotFound) {
		return missing
	}

	for _, r := range n.restored {
		var err error
		if missing != nil {
			err = walkWanted(ctx, f, r.want, nil, n.views)
		}
		incomplete := errors.Is(err, object.ErrNotFound)
		switch {
		case incomplete && r.ours:
			ours.Merge(r.Record)
		case incomplete && r.Kind != record.Hold:
			n.take.Forget(r.Record)
		case err != nil:
			return err
		case r.ours:
			n.forget = append(n.forget, r.Record)
		}
	}
	return nil
}

// hasContent reports whether a commit is here, or a chunk or manifest with everything
// below it.
func (f *fetch) hasContent(ctx context.Context, key object.Key) (bool, error) {
	if key.Kind == object.KindCommit {
		absent, err := f.absentHere(ctx, []object.Key{key})
		return len(absent) == 0, err
	}
	return hasAll(ctx, f.session, key)
}

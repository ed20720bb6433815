package transfer

import (
	"context"
	"errors"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs/record"
)

// fetchNews is what a fetch makes of the records of both ends.
type fetchNews struct {
	views    recordViews
	want     []object.Key
	take     *record.Set     // the remote's, without those that ask for what it has not got
	forget   []record.Record // the repository's, of what it has not got
	waiting  []record.Record // the remote's, not taken since the caller has to decide
	restored []restored
	named    map[object.ID]bool // commits that refs of the remote name; nil: not asked for yet
}

// restored is what is needed again here because of a record of the remote.
type restored struct {
	record.Record
	want []object.Key
	ours bool // it is ours that is to be forgotten, since a ref of the remote names the commit
}

// readNews finds out what is wanted because the remote's records say that it is
// needed again, and what they and the repository's say of all that is fetched.
//
// All that a remote's records make needed is there as far as its refs and holds
// reach. Of what they do not reach it may have dropped parts, and still have the
// record: such a record stays where it is. The other way round, a record of
// ours by which something is needed again that we do not have, and of which the
// remote says the opposite, must not keep us from fetching what the remote has.
// Nor must an expiration of ours that the remote does not take, since one of its
// refs names the commit.
func (f *fetch) readNews(ctx context.Context) (*fetchNews, error) {
	n := &fetchNews{take: f.at.Records.Clone()}
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
			if err := f.keepNamed(ctx, n, r); err != nil {
				return nil, err
			}
		}
		if r.On || !theirs.On || r.Kind == record.Hold {
			continue
		}
		here, err := f.has(ctx, r.Key)
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
	f.merge(n, ours)
	for _, r := range n.take.Newer(ours) {
		if err := f.restore(ctx, n, r); err != nil {
			return nil, err
		}
	}
	if err := f.refuse(ctx, n, ours); err != nil {
		return nil, err
	}
	f.merge(n, ours)
	for _, id := range n.views.after.Holds() {
		if _, held := n.views.before.Held(id); !held {
			n.want = append(n.want, object.Key{Kind: object.KindCommit, ID: id})
		}
	}
	return n, nil
}

// keepNamed notes that an expiration of ours is to be forgotten if the commit is
// here, and a ref of the remote names it.
func (f *fetch) keepNamed(ctx context.Context, n *fetchNews, r record.Record) error {
	if n.named == nil {
		var err error
		if n.named, err = f.snap.named(ctx, f.session, nil); err != nil {
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

// merge works out what records and lists of lost objects say: ours is what stays of
// the repository's records.
func (f *fetch) merge(n *fetchNews, ours *record.Set) {
	merged := ours.Clone()
	for r := range n.take.All() {
		merged.Merge(r)
	}
	n.views = recordViews{before: f.o.Records.View().WithLost(f.session.IsLost), after: merged.View().WithLost(f.isLost)}
}

// restore notes what is needed here because of a record, if anything is.
func (f *fetch) restore(ctx context.Context, n *fetchNews, r record.Record) error {
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
		return nil // if it is fetched, it is whole
	}
	if err == nil {
		n.restored = append(n.restored, restored{Record: r, want: content})
	}
	return err
}

// refuse does not take records by which something is needed that neither end
// has in full, nor forget those of ours by which it is not. The rest of what they
// make needed is fetched or wanted.
func (f *fetch) refuse(ctx context.Context, n *fetchNews, ours *record.Set) error {
	var all []object.Key
	for _, r := range n.restored {
		all = append(all, r.want...)
	}
	if len(all) == 0 {
		return nil
	}
	whole := walk(ctx, f, "remote", all, nil, n.views)
	if whole != nil && !errors.Is(whole, object.ErrNotFound) {
		return whole
	}
	for _, r := range n.restored {
		var err error
		if whole != nil {
			err = walk(ctx, f, "remote", r.want, nil, n.views)
		}
		lacking := errors.Is(err, object.ErrNotFound)
		switch {
		case lacking && r.ours:
			ours.Merge(r.Record)
		case lacking && r.Kind != record.Hold:
			n.take.Forget(r.Record)
		case err != nil:
			return err
		case r.ours:
			n.forget = append(n.forget, r.Record)
		}
	}
	return nil
}

// has reports whether a commit is here, or a content with all below it.
func (f *fetch) has(ctx context.Context, key object.Key) (bool, error) {
	if key.Kind == object.KindCommit {
		absent, err := f.absent(ctx, []object.Key{key})
		return len(absent) == 0, err
	}
	return isWhole(ctx, f.session, key)
}

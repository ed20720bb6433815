package transfer

import (
	"context"
	"errors"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/remote/rootlog"
)

// news are the records that a push has for a remote, as it was at S.
type news struct {
	list   []record.Record
	want   []object.Key // what the remote needs because of them, if it has not got it
	merged *record.Set  // the remote's, and the news
	after  *record.View // what follows from both
}

// newNews finds out which of a repository's records are new to a remote. That
// something is needed again, a hold or an expiration that was undone, is only
// told together with all that it makes needed (HOLD_GRACE, UNDO_NOCHECK).
func newNews(ctx context.Context, local object.Reader, snap *snapshot, records *record.Set) (*news, error) {
	n := &news{merged: snap.state.Records.Clone()}
	for _, r := range records.Newer(snap.state.Records) {
		switch {
		case r.Kind == record.Purge && !r.On:
			missing, err := local.Missing(ctx, []object.Key{r.Key})
			if err != nil {
				return nil, err
			}
			if len(missing) > 0 {
				continue // who has the content may tell
			}
			n.want = append(n.want, r.Key)
		case r.Kind != record.Purge && r.On == (r.Kind == record.Hold):
			c, err := object.ReadCommit(ctx, local, r.Key.ID)
			if errors.Is(err, object.ErrNotFound) {
				continue // who has the commit may tell
			}
			if err != nil {
				return nil, err
			}
			_, there, err := snap.find(r.Key)
			if err != nil {
				return nil, err
			}
			if there {
				n.want = append(n.want, r.Key, object.Key{Kind: object.KindTree, ID: c.Tree})
			}
		}
		n.list = append(n.list, r)
		n.merged.Merge(r)
	}
	n.after = n.merged.At(snap.r.o.Now())
	return n, nil
}

// settle leaves out records of commits that the remote neither has nor gets:
// they may be nobody else's business.
func (n *news) settle(snap *snapshot, own *ownPacks, p *plan) error {
	sent := map[object.Key]bool{}
	for _, it := range p.nodes {
		sent[it.key] = true
	}
	var list []record.Record
	for _, r := range n.list {
		_, there, err := snap.find(r.Key)
		if err != nil {
			return err
		}
		if there || sent[r.Key] || own.find(r.Key) != nil || r.Kind == record.Purge {
			list = append(list, r)
		}
	}
	n.list = list
	return nil
}

// at returns the records that a root with changes tells, after head. A commit
// that a ref of it names does not expire: somebody may have made the ref
// meanwhile.
func (n *news) at(head *rootlog.State, changes []rootlog.RefChange) []record.Record {
	named := map[object.Key]bool{}
	for _, key := range head.Refs {
		named[key] = true
	}
	for _, c := range changes {
		named[c.New] = true
	}
	set := &record.Set{}
	for _, r := range n.list {
		if r.Kind != record.Expire || !r.On || !named[r.Key] {
			set.Merge(r)
		}
	}
	return set.Newer(head.Records)
}

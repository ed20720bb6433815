package transfer

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/graph"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/remote/rootlog"
)

// pushRecords are the records that a push sends, and their effect on the remote at S.
type pushRecords struct {
	list   []record.Record
	want   []object.Key    // objects that the remote needs because of these records
	merged *record.Set     // the remote's records, and those of list
	after  *record.Effects // the view of merged
}

// ErrNeededAgain is matched by the error for a push if the remote needs an object
// again that neither end has. The object expired or was purged here, and another
// user has undone the expiration or purge on the remote.
var ErrNeededAgain = errors.New("needed again on the remote, where the expiration or purge was undone")

// ErrExpiredThere is matched by the error for a push of a branch or tag whose
// commit has expired on the remote, if the repository has not fetched that record.
var ErrExpiredThere = errors.New("has expired on the remote, which is not known here yet")

// checkExpired returns an error if changes make a ref name a commit that has expired by
// the remote's records but not by ours. Otherwise the user would believe that the remote
// keeps the content.
func checkExpired(ctx context.Context, local object.Reader, ours, theirs *record.Set, changes []rootlog.RefChange) error {
	here, there := ours.View(), theirs.View()
	for _, c := range changes {
		if c.New.IsZero() {
			continue
		}
		id, err := refs.Peel(ctx, local, c.New.ID)
		if err != nil {
			return err
		}
		_, knows := here.Expired(id)
		if _, expired := there.Expired(id); !expired || knows {
			continue
		}
		merged := theirs.Clone()
		for r := range ours.All() {
			merged.Merge(r) // ours may be the later one: then it is sent
		}
		if _, expired := merged.View().Expired(id); expired {
			return fmt.Errorf("%s: the content of %s %w", c.Name, id.Short(), ErrExpiredThere)
		}
	}
	return nil
}

// unsentRecords returns our records that are newer than theirs. It leaves out an undone
// expiration or purge that is not in force on the remote either.
func unsentRecords(ours, theirs *record.Set) []record.Record {
	return slices.DeleteFunc(ours.Newer(theirs), func(r record.Record) bool {
		was, _ := theirs.Get(r.Kind, r.Key)
		return !r.Frees() && !r.On && !was.On
	})
}

// newPushRecords returns the repository's records that are new to a remote. A record that
// makes objects needed again, such as a hold or an undone expiration, is only sent together
// with these objects (HOLD_FROM_LIVE, UNDO_FROM_LIVE). A record is left out if the
// repository does not have these objects: see neededFor.
func newPushRecords(ctx context.Context, local object.Reader, snap *Snapshot, records *record.Set) (*pushRecords, error) {
	n := &pushRecords{merged: snap.State.Records.Clone()}
	for _, r := range unsentRecords(records, snap.State.Records) {
		if !r.Frees() {
			want, ok, err := neededFor(ctx, local, snap, r)
			if err != nil {
				return nil, err
			}
			if !ok {
				continue
			}
			n.want = append(n.want, want...)
		}
		n.list = append(n.list, r)
		n.merged.Merge(r)
	}
	n.after = n.merged.View()
	return n, nil
}

// neededFor returns the objects that a remote needs because of r, a record that makes
// objects needed again. It reports whether r can be sent at all. A commit that the remote
// does not have needs nothing there: a push that sends it also sends its content.
func neededFor(ctx context.Context, local object.Reader, snap *Snapshot, r record.Record) (want []object.Key, ok bool, err error) {
	if r.Kind == record.Purge {
		ok, err = hasAll(ctx, local, r.Key)
		return []object.Key{r.Key}, ok, err
	}
	content, err := contentOf(ctx, local, r.Key)
	if errors.Is(err, object.ErrNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	_, there, err := snap.Find(r.Key)
	if err != nil || !there {
		return nil, err == nil, err
	}
	// The remote may have the commit without its content, if no ref reaches the
	// commit or its content was removed (WALK_EXPIRED).
	return append(content, r.Key), true, nil
}

// contentOf returns the objects that a commit links to, except its parents.
func contentOf(ctx context.Context, r object.Reader, commit object.Key) ([]object.Key, error) {
	data, err := r.Get(ctx, commit)
	if err != nil {
		return nil, err
	}
	c, err := parseCommit(commit.ID, data)
	if err != nil {
		return nil, err
	}
	return c.contentLinks(), nil
}

// hasAll reports whether r has a chunk or manifest and everything below it.
func hasAll(ctx context.Context, r object.Reader, key object.Key) (bool, error) {
	err := graph.CheckPresent(ctx, r, key)
	if errors.Is(err, object.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// addNeededAgain adds [ErrNeededAgain] to an error for a missing object if the remote's
// records require objects that ours do not. It returns other errors unchanged.
func addNeededAgain(err error, ours, theirs *record.Set) error {
	missing, ok := object.AbsentKey(err, object.ErrNotFound)
	if !ok {
		return err
	}
	for _, r := range theirs.Newer(ours) {
		if was, _ := ours.Get(r.Kind, r.Key); !r.Frees() && was.On != r.On {
			return fmt.Errorf("%s is %w, and is not here: %w", missing, ErrNeededAgain, err)
		}
	}
	return err
}

// dropPrivate leaves out holds and expirations of commits that the remote does not have
// and the plan does not add: they may be private. A commit that the plan does not need
// counts as private even if it lies in a pack that is sent.
func (n *pushRecords) dropPrivate(snap *Snapshot, p *plan) error {
	var list []record.Record
	for _, r := range n.list {
		keep := r.Kind == record.Purge || p.commits[r.Key.ID]
		if !keep {
			var err error
			if _, keep, err = snap.Find(r.Key); err != nil {
				return err
			}
		}
		if keep {
			list = append(list, r)
		}
	}
	n.list = list
	return nil
}

// forRoot returns the records for the root that follows head and makes changes. It leaves
// out the expiration of a commit that an unchanged ref names, because others may have made
// that ref.
func (n *pushRecords) forRoot(ctx context.Context, local object.Reader, head *Snapshot, changes []rootlog.RefChange) ([]record.Record, error) {
	set := &record.Set{}
	var named map[object.ID]bool
	for _, r := range n.list {
		if r.Kind == record.Expire && r.On {
			if named == nil {
				var err error
				if named, err = namedCommits(ctx, head.State.Refs, changes, local, head); err != nil {
					return nil, err
				}
			}
			if named[r.Key.ID] {
				continue
			}
		}
		set.Merge(r)
	}
	return set.Newer(head.State.Records), nil
}

// namedCommits returns the commits that refs name, directly or through a tag. It leaves
// out the refs in changes. It reads a tag from local or, if that does not have it, from other.
func namedCommits(ctx context.Context, refs map[string]object.Key, changes []rootlog.RefChange, local, other object.Reader) (map[object.ID]bool, error) {
	changed := map[string]bool{}
	for _, c := range changes {
		changed[c.Name] = true
	}

	named := map[object.ID]bool{}
	for name, key := range refs {
		if changed[name] {
			continue
		}
		if key.Kind == object.KindTag {
			data, err := local.Get(ctx, key)
			if errors.Is(err, object.ErrNotFound) {
				data, err = other.Get(ctx, key)
			}
			if err != nil {
				return nil, err
			}
			tag, err := object.DecodeTag(data)
			if err != nil {
				return nil, fmt.Errorf("read %s: %w", key, err)
			}
			key.ID = tag.Target
		}
		named[key.ID] = true
	}
	return named, nil
}

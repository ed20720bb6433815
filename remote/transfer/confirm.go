package transfer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote/rootlog"
)

// confirmRefs appends a root that confirms the refs of a push, if that is due. It returns the
// head, and reports whether it did. It leaves out a ref that another writer has moved.
func confirmRefs(ctx context.Context, r *Remote, local object.Reader, head *rootlog.State, o PushOptions) (*rootlog.State, bool, error) {
	for at := head; ; {
		change := r.NewChange()
		for _, u := range o.Updates {
			due, err := isUnconfirmed(ctx, local, at, u, r.o.Now().Add(-o.ConfirmAfter))
			if err != nil {
				return nil, false, err
			}
			if due {
				change.Confirm = append(change.Confirm, u.Name)
			}
		}
		if len(change.Confirm) == 0 {
			return at, false, nil
		}
		if err := r.CheckWritable(ctx, at); err != nil {
			return nil, false, fmt.Errorf("confirm the branch: %w", err)
		}

		next, err := r.log.Append(ctx, at, *change)
		lost, ok := errors.AsType[*rootlog.LostError](err)
		if err != nil && !ok {
			return nil, false, fmt.Errorf("confirm the branch: %w", err)
		}
		if ok {
			next = lost.Head
		}
		if err := r.RememberHead(ctx, next); err != nil || !ok {
			return next, err == nil, err
		}
		at = next
	}
}

// isUnconfirmed reports whether neither the time of a ref's commit nor a confirmation on the
// remote is after since.
func isUnconfirmed(ctx context.Context, local object.Reader, head *rootlog.State, u RefUpdate, since time.Time) (bool, error) {
	if u.New.Kind != object.KindCommit || head.Refs[u.Name] != u.New {
		return false, nil
	}
	c, err := object.ReadCommit(ctx, local, u.New.ID)
	if err != nil {
		return false, err
	}
	return !c.Committer.When().After(since) && !head.Confirmed(u.Name).After(since), nil
}

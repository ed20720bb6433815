package checkout

import (
	"context"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/look/compare"
	"github.com/kist-vcs/kist/tree/work/operation"
)

// ResetMode selects what [Reset] changes besides HEAD.
type ResetMode uint8

// The modes of [Reset].
const (
	ResetMixed ResetMode = iota // also the index
	ResetSoft                   // nothing else
	ResetHard                   // also the index and the worktree
)

// Reset moves HEAD's branch to the commit that a revision names. Except with
// ResetSoft, it ends an operation in progress other than a rebase. ORIG_HEAD and the reflog keep
// the old commit. On a branch without a commit, the revision "HEAD" means no
// commit. If only some paths cannot be written, the rest is done, and the
// error is a [*worktree.ApplyError].
func Reset(ctx context.Context, r *kist.Repository, rev string, mode ResetMode, progress kist.Progress) (object.ID, error) {
	head, err := r.Refs().Head()
	if err != nil {
		return object.ID{}, err
	}

	var id, to object.ID
	if !head.Unborn() || rev != "HEAD" {
		if id, err = r.Resolve(ctx, rev); err != nil {
			return id, err
		}
	}
	if mode != ResetSoft {
		if to, err = kist.CommitTree(ctx, r, id); err != nil {
			return id, err
		}
	}

	move := func(tx *kist.Tx) {
		tx.Need(id)
		if !head.Unborn() {
			tx.SetSpecial(refs.OrigHead, head.ID)
		}
		if !id.IsZero() {
			tx.MoveHead(head, id, "reset: moving to "+rev)
		}
		operation.ClearForReset(tx)
	}

	var lost []compare.LostFolder
	switch mode {
	case ResetSoft:
		if err := operation.NoOperation(r, operation.Rebasing); err != nil {
			return id, err
		}
		return id, r.Publish(ctx, move)
	case ResetMixed:
		err := r.Publish(ctx, func(tx *kist.Tx) {
			tx.NeedUsable(id)
			tx.EditIndex(nil, func(idx *index.Index) error {
				known := compare.NewKnown(r.Objects())
				err := index.ReadTreeIn(ctx, idx, known, to, r.Config().Cone())
				if err == nil {
					lost, err = known.LostIn(ctx, compare.Side{Tree: to, Commit: id, Objects: r.Objects()})
				}
				return err
			})
			move(tx)
		})
		return id, compare.WithLost(err, lost)
	}

	from, err := r.RecordedTree(ctx, head.ID)
	if err != nil {
		return id, err
	}

	return id, SwitchTree(ctx, r, Tips{From: Tip{head.ID, from}, To: Tip{id, to}, Force: true, Progress: progress, Names: move})
}

package kist

import (
	"context"
	"fmt"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/tree/index"
)

// ResetMode says what [Repository.Reset] brings to the commit besides HEAD.
type ResetMode uint8

// What is reset.
const (
	ResetMixed ResetMode = iota // the index
	ResetSoft                   // nothing
	ResetHard                   // the index and the worktree
)

// Reset moves HEAD's branch to the commit that a revision names, and ends an
// operation under way, other than softly. Where the branch was is kept as
// ORIG_HEAD and in the reflog. On a branch without a commit, "HEAD" stands for
// nothing. If only some paths cannot be written, the rest is done, and the
// error is a [*worktree.ApplyError].
func (r *Repository) Reset(ctx context.Context, rev string, mode ResetMode, progress Progress) (object.ID, error) {
	head, err := r.refs.Head()
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
		if to, err = r.commitTree(ctx, id); err != nil {
			return id, err
		}
	}
	move := func(ctx context.Context) error {
		if err := r.stillThere(ctx, id); err != nil {
			return err
		}
		if !head.Unborn() {
			if err := r.refs.SetSpecial(ctx, refs.OrigHead, head.ID); err != nil {
				return err
			}
		}
		if !id.IsZero() {
			if err := r.moveHead(ctx, head, id, "reset: moving to "+rev); err != nil {
				return err
			}
		}
		return r.clearState(ctx)
	}
	switch mode {
	case ResetSoft:
		if err := r.noOperation(); err != nil {
			return id, err
		}
		return id, r.publish(ctx, move)
	case ResetMixed:
		return id, r.publish(ctx, func(ctx context.Context) error {
			if err := r.stillUsable(ctx, id); err != nil {
				return err
			}
			err := index.Update(ctx, r.dir, func(idx *index.Index) error {
				return idx.ReadTree(ctx, r.objects, to)
			})
			if err != nil {
				return err
			}
			return move(ctx)
		})
	}
	from, err := r.recordedTree(ctx, head.ID)
	if err != nil {
		return id, err
	}
	return id, r.switchTree(ctx, tip{head.ID, from}, tip{id, to}, true, progress, move)
}

// moveHead moves HEAD's branch, or HEAD itself if it is detached.
func (r *Repository) moveHead(ctx context.Context, head refs.Head, id object.ID, reason string) error {
	change := refs.Change{Name: "HEAD", Old: head.ID, New: id, Reason: reason}
	if head.Branch != "" {
		change.Name = refs.Heads + head.Branch
	}
	if err := r.refs.Update(ctx, []refs.Change{change}, r.who()); err != nil {
		return fmt.Errorf("move HEAD: %w", err)
	}
	return nil
}

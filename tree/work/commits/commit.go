// Package commits makes commits (commit, merge, revert, cherry-pick) and the branches and tags
// that name them.
package commits

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/look/compare"
	"github.com/kist-vcs/kist/tree/work/operation"
	"github.com/kist-vcs/kist/tree/work/stage"
)

// ErrNothingToCommit means that a commit would equal its parent.
var ErrNothingToCommit = errors.New("nothing to commit")

// CommitOptions configure [Commit].
type CommitOptions struct {
	Message    string        // empty: that of the merge in progress or of the amended commit
	Host       string        // recorded; empty: that of the repository's options
	All        bool          // first stage the changes of tracked files
	Amend      bool          // replace HEAD's commit
	AllowEmpty bool          // commit even if nothing has changed
	Brief      bool          // do not compute Changes
	Times      bool          // commit even if only the times of folders have changed
	Author     *object.Stamp // unset parts come from the committer or, when amending, from the old author
	Progress   kist.Progress // may be nil

	Session volume.SessionOptions // of [StageAndCommit]

	step bool // the commit ends the step at hand: an abort undoes it
}

// CommitResult is the result of [Commit].
type CommitResult struct {
	ID      object.ID
	Commit  *object.Commit
	Branch  string        // "" if HEAD is detached
	Changes []tree.Change // changes from the first parent's tree; none with Brief
	Unknown bool          // Changes could not be computed; a warning has the reason
	Read    kist.Amount   // files read in the worktree, with All
	Stats   volume.Stats  // stored objects, with All also those of staging

	// Unsigned reports whether the commit is without a signature in place of one that has one.
	Unsigned bool
}

// Commit records the index as a commit and moves HEAD's branch to it.
func Commit(ctx context.Context, r *kist.Repository, o CommitOptions) (*CommitResult, error) {
	if o.Amend {
		state, err := operation.Current(r)
		if err == nil && state.Operation != "" && (state.Operation != operation.Rebasing || state.Stopped) {
			err = state.InProgress()
		}
		if err != nil {
			return nil, fmt.Errorf("amend: %w", err)
		}
	}

	staged := &stage.AddResult{}
	if o.All {
		var err error
		if staged, err = stage.Add(ctx, r, stage.AddOptions{Update: true, Progress: o.Progress}); err != nil {
			return nil, err
		}
	}

	var result *CommitResult
	err := r.Update(ctx, func(tx *kist.Tx) (err error) {
		result, err = tryCommit(ctx, tx, o)
		return err
	})
	if err != nil {
		return nil, err
	}

	result.Read, result.Stats = staged.Read, staged.Stats.Plus(result.Stats)
	return result, nil
}

// tryCommit makes the commit from the present index.
func tryCommit(ctx context.Context, tx *kist.Tx, o CommitOptions) (*CommitResult, error) {
	r := tx.Repository()
	state, err := operation.Current(r)
	if err != nil {
		return nil, err
	}
	if !o.mayBeSame(state) && surelySame(ctx, r) {
		return nil, ErrNothingToCommit
	}

	head, idx, err := tx.ReadTrusted(ctx)
	if err != nil {
		return nil, err
	}
	p := &draftCommit{CommitOptions: o, state: state, head: head, idx: idx, tx: tx}
	return p.commitAndMove(ctx, r)
}

// mayBeSame reports whether a commit without changes is allowed.
func (o *CommitOptions) mayBeSame(s operation.State) bool {
	return o.AllowEmpty || o.Amend || s.Operation == operation.Merging || s.Doing.Amends()
}

// surelySame reports whether the index certainly matches HEAD's commit. It
// reads only a small part of the index. False means unknown.
func surelySame(ctx context.Context, r *kist.Repository) bool {
	head, err := r.Refs().Head()
	if err != nil || head.Unborn() {
		return false
	}
	recorded, err := r.RecordedTree(ctx, head.ID)
	if err != nil {
		return false
	}
	staged, known := index.KnownTree(r.Dir())
	return known && staged == recorded
}

// draftCommit is a commit in the making, with the index that it records.
type draftCommit struct {
	CommitOptions
	state operation.State
	head  refs.Head
	idx   *index.Index
	tx    *kist.Tx
	was   []byte          // the signature of the commit that is replaced
	files *stage.Prepared // edits that idx has and the stored index may not have; nil: there are none
}

// commitAndMove makes the commit and moves HEAD to it.
func (p *draftCommit) commitAndMove(ctx context.Context, r *kist.Repository) (*CommitResult, error) {
	if err := index.Unresolved(p.idx.Conflicts()); err != nil {
		return nil, err
	}

	c, old, err := p.newCommit(ctx, r)
	if err != nil {
		return nil, err
	}

	oldTree, err := r.RecordedTree(ctx, old)
	if err != nil {
		return nil, err
	}

	expired := kist.CheckUsable(ctx, r, old)
	if expired != nil && !errors.Is(expired, object.ErrExpired) {
		return nil, expired
	}
	if err := writeStaged(ctx, p.tx, p.idx, c); err != nil {
		return nil, err
	}
	if !p.mayBeSame(p.state) {
		changed := oldTree != c.Tree
		if changed && expired == nil && !p.Times {
			if changed, err = differ(ctx, p.tx, oldTree, c.Tree); err != nil {
				return nil, err
			}
		}
		if !changed {
			return nil, ErrNothingToCommit
		}
	}

	id, err := p.publishCommit(ctx, r, c)
	if err != nil {
		return nil, err
	}

	result := &CommitResult{ID: id, Commit: c, Branch: p.head.Branch, Stats: p.tx.Stats(), Unsigned: len(p.was) > 0 && len(c.Signature) == 0}
	if expired != nil {
		r.Options().Warn(fmt.Sprintf("the changes of the commit cannot be shown: %v", expired))
		result.Unknown = true
		return result, nil
	}
	if p.Brief {
		return result, nil
	}

	result.Changes, err = compare.Diff(ctx, compare.Side{Tree: oldTree, Objects: r.Contents()}, compare.Side{Tree: c.Tree, Objects: r.Contents()}, nil, true)
	if err != nil {
		r.Options().Warn(fmt.Sprintf("the changes of the commit cannot be shown: %v", err))
		result.Unknown = true
	}

	return result, nil
}

// newCommit returns the new commit, without its tree, and the commit to compare it
// with, zero if there is none.
func (p *draftCommit) newCommit(ctx context.Context, r *kist.Repository) (c *object.Commit, old object.ID, err error) {
	c = kist.NewCommit(r, tree.Info{}, p.Message, p.head.ID)
	c.Host = cmp.Or(p.Host, c.Host)
	if !p.head.ID.IsZero() {
		parent, err := object.ReadCommit(ctx, r.Objects(), p.head.ID)
		if err != nil {
			return nil, old, err
		}
		old = p.head.ID
		if p.Amend || p.state.Doing.Amends() {
			c.Parents, c.Author, p.was = parent.Parents, parent.Author, parent.Signature
			if c.Message == "" && p.Amend {
				c.Message = parent.Message
			}
			old = parent.FirstParent()
		}
	} else if err := kist.CheckBranchLost(r, p.head.Branch); err != nil {
		return nil, old, err
	} else if p.Amend {
		return nil, old, fmt.Errorf("amend: %w", kist.ErrUnborn)
	}
	switch {
	case p.state.Operation == operation.Merging:
		c.Parents = append(c.Parents, p.state.Other)
	case p.state.Stopped && (p.state.Doing == operation.Pick || p.state.Doing == operation.PickFrom):
		picked, err := object.ReadCommit(ctx, r.Objects(), p.state.Other)
		if err != nil {
			return nil, old, err
		}
		c.Author = picked.Author
	}
	if c.Message == "" {
		c.Message = p.state.Message
	}
	if strings.TrimSpace(c.Message) == "" {
		return nil, old, errors.New("empty commit message")
	}
	if a := p.Author; a != nil {
		if a.Name != "" || a.Email != "" {
			c.Author.Name, c.Author.Email = a.Name, a.Email
		}
		if !a.Time.IsZero() {
			c.Author.Time, c.Author.Zone = a.Time, a.Zone
		}
	}

	return c, old, nil
}

// writeStaged stores the trees of the index and sets them in c.
func writeStaged(ctx context.Context, rw object.ReadWriter, idx *index.Index, c *object.Commit) error {
	info, err := idx.WriteTree(ctx, rw)
	if err != nil {
		return err
	}
	c.Tree, c.Files, c.Bytes = info.ID, info.Files, info.Bytes
	if skipped := idx.Skipped(); len(skipped) > 0 {
		return c.SetSkipped(ctx, rw, skipped)
	}
	return nil
}

// differ reports whether two trees differ in anything that counts as a change. Some times
// do not count, see [tree.DiffOptions]. A lost folder differs from every other folder.
func differ(ctx context.Context, objects object.Reader, a, b object.ID) (bool, error) {
	known := compare.NewKnown(objects)
	for _, err := range tree.Diff(ctx, known, a, b, tree.DiffOptions{Recorded: true}) {
		return err == nil, err
	}
	return !known.Complete(), nil
}

// publishCommit stores c, moves HEAD to it, and ends the step at hand.
func (p *draftCommit) publishCommit(ctx context.Context, r *kist.Repository, c *object.Commit) (object.ID, error) {
	if err := kist.SignCommit(ctx, r, c); err != nil {
		return object.ID{}, err
	}
	id, err := p.tx.PutCommit(ctx, c)
	if err != nil {
		return id, err
	}

	if p.files != nil {
		p.files.NoteIndex(p.tx)
	}
	if p.step { // an abort after a kill has to know the commit
		next := p.state
		next.Doing, next.To = "", id
		operation.SetState(p.tx, next)
	}
	p.tx.MoveHead(p.head, id, p.reflogReason(c))

	if p.files == nil { // otherwise the index that is written has the new trees
		p.tx.NoteStep(func(ctx context.Context) error {
			p.keepTrees(ctx, r)
			return nil
		})
	}
	ended := p.state
	if p.step {
		ended.Left = id
	}
	operation.EndCommitted(p.tx, ended)
	return id, p.tx.Publish(ctx)
}

// keepTrees keeps the written trees in the index, so that the next commit need not write them. If
// that fails, or another process is changing the index, the next commit writes them.
func (p *draftCommit) keepTrees(ctx context.Context, r *kist.Repository) {
	_, err := index.UpdateIfFree(ctx, r.Dir(), p.idx, func(now *index.Index) error {
		now.CopyTrees(p.idx)
		return nil
	})
	if err != nil {
		r.Options().Warn(fmt.Sprintf("the index could not be written: %v", err))
	}
}

// reflogReason returns the text for the reflog.
func (p *draftCommit) reflogReason(c *object.Commit) string {
	what := "commit"
	switch {
	case p.Amend:
		what = "commit (amend)"
	case p.state.Operation == operation.Rebasing && p.state.Stopped:
		what = "rebase (continue)"
	case p.state.Operation != "":
		what = fmt.Sprintf("commit (%s)", p.state.Operation)
	case len(c.Parents) == 0:
		what = "commit (initial)"
	}
	return what + ": " + c.Subject()
}

package commits

import (
	"context"
	"errors"
	"io"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/tree/work/operation"
	"github.com/kist-vcs/kist/tree/work/stage"
	"github.com/kist-vcs/kist/tree/worktree"
)

// StageAndCommit is [stage.Add] and then [Commit], in one session: one volume is sealed,
// and the index is written once. If the commit fails, the files are staged all the same.
// Staged is nil if staging failed; its Stats are those of both.
func StageAndCommit(ctx context.Context, r *kist.Repository, add stage.AddOptions, o CommitOptions) (staged *stage.AddResult, result *CommitResult, err error) {
	err = r.UpdateWith(ctx, o.Session, func(tx *kist.Tx) (err error) {
		staged, result, err = stageAndCommit(ctx, tx, add, o)
		return err
	})
	if !errors.Is(err, stage.ErrChanged) {
		return staged, result, err
	}

	// Another process changed the index. Let Add edit that one.
	if staged, err = stage.Add(ctx, r, add); err != nil {
		return nil, nil, err
	}
	if result, err = Commit(ctx, r, o); err == nil {
		staged.Stats = staged.Stats.Plus(result.Stats)
	}
	return staged, result, err
}

// StoreStream stores the content that data yields, for [stage.AddOptions.Stream]. It has a
// transaction of its own, so the caller can retry the commit without reading data again. An error
// of data ends it. Until the content is staged, gc spares it only because it is new.
func StoreStream(ctx context.Context, r *kist.Repository, data io.Reader, o volume.SessionOptions, progress kist.Progress) (*worktree.Stored, volume.Stats, error) {
	tx := r.Begin(o)
	defer tx.Close()

	records, err := r.Purges().View()
	if err != nil {
		return nil, volume.Stats{}, err
	}
	stored, err := r.Worktree().StoreStream(ctx, &kist.Withheld{Writer: tx, Purges: records}, data, func(files, bytes int64) {
		if progress != nil {
			progress(kist.Amount{Files: files, Bytes: bytes}, kist.Amount{})
		}
	})
	if err == nil {
		err = tx.Publish(ctx)
	}
	return &stored, tx.Stats(), err
}

// stageAndCommit is one attempt of StageAndCommit. Staged is nil if nothing was staged.
func stageAndCommit(ctx context.Context, tx *kist.Tx, add stage.AddOptions, o CommitOptions) (*stage.AddResult, *CommitResult, error) {
	r := tx.Repository()
	state, err := operation.Current(r)
	if err != nil {
		return nil, nil, err
	}
	head, idx, err := tx.ReadTrusted(ctx)
	if err != nil {
		return nil, nil, err
	}
	files, err := stage.Prepare(ctx, r, tx, idx, add)
	if err != nil {
		return nil, nil, err
	}

	p := &draftCommit{CommitOptions: o, state: state, head: head, idx: idx, tx: tx}
	if !files.HasChanges() {
		if !o.mayBeSame(state) && surelySame(ctx, r) {
			return files.Result, nil, ErrNothingToCommit
		}
		result, err := p.commitAndMove(ctx, r)
		return files.Result, result, err
	}
	if err := files.Apply(); err != nil {
		return nil, nil, err
	}
	p.files = files
	result, err := p.commitAndMove(ctx, r)
	if err != nil && !files.Saved() {
		files.NoteIndex(tx)
		if serr := tx.Publish(ctx); serr != nil {
			return nil, nil, serr
		}
	}
	files.Result.Stats = tx.Stats()
	return files.Result, result, err
}

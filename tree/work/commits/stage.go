package commits

import (
	"context"
	"errors"
	"io"
	"slices"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/tree"
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

// Checkpoint stores a commit whose only file has all chunks of the named volumes. A
// push of it sends these chunks, and the remote keeps them until a commit needs
// them. No ref leads to the commit. Its parent may be zero. Checkpoint returns the
// commit and its tree, or zero if the volumes have no chunks.
func Checkpoint(ctx context.Context, r *kist.Repository, parent object.ID, volumes []string) (id object.ID, root object.Key, err error) {
	inventory, err := r.Objects().Inventory(ctx)
	if err != nil {
		return id, root, err
	}
	tx := r.Begin(volume.SessionOptions{})
	defer tx.Close()

	manifest := object.NewManifestWriter(tx)
	for i := range inventory.Len() {
		if !slices.Contains(volumes, inventory.Volume(i).Name) {
			continue
		}
		for rec, err := range inventory.Keys(i, object.KindChunk) {
			if err == nil {
				err = manifest.Add(ctx, object.ChunkRef{ID: rec.Key.ID, Size: rec.Raw})
			}
			if err != nil {
				return id, root, err
			}
		}
	}

	e := object.Entry{Name: "chunks", Type: object.TypeFile, Mode: 0o600}
	if e.Content, e.Size, err = manifest.Finish(ctx); err != nil || e.Size == 0 {
		return id, root, err
	}
	folder := object.NewTreeWriter(tx)
	if err := folder.Add(ctx, e); err != nil {
		return id, root, err
	}
	root.Kind = object.KindTree
	if root.ID, err = folder.Finish(ctx); err != nil {
		return id, root, err
	}

	c := kist.NewCommit(r, tree.Info{ID: root.ID, Files: 1, Bytes: e.Size}, "chunks of a backup that is not complete", parent)
	if id, err = tx.PutCommit(ctx, c); err != nil {
		return id, root, err
	}
	return id, root, tx.Publish(ctx)
}

package stage

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/tree/lent"
	"github.com/kist-vcs/kist/tree/worktree"
)

// GiveUpError means that files would be removed or replaced that have the only reachable copy of some content. Then Err is
// why the remotes could not be asked for it, or nil if they were asked and none keeps it.
type GiveUpError struct {
	Path  string // of one of the files
	Bytes int64  // of the content
	Err   error
}

func (e *GiveUpError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("path %q: %d bytes would be only on a remote, which cannot be asked: %v", e.Path, e.Bytes, e.Err)
	}
	return fmt.Sprintf("path %q: no remote keeps %d bytes of its content", e.Path, e.Bytes)
}

// Unwrap returns the cause.
func (e *GiveUpError) Unwrap() error { return e.Err }

// giveUpLent finds the lent content of the files that ops remove or replace, if it was evicted: that of a lazy clone was never only
// here. It returns the number of bytes that only remotes have afterwards. The error is a [*GiveUpError] if no remote keeps some of
// it, or if one cannot be asked; it asks none with force. It changes nothing.
func giveUpLent(ctx context.Context, r *kist.Repository, ops []worktree.Op, force bool) (bytes int64, err error) {
	ends := map[string]bool{} // the paths of these files
	for i := range ops {
		if op := &ops[i]; op.Old != nil && (op.New == nil || op.New.Content != op.Old.Content) {
			ends[op.Path] = true
		}
	}
	if len(ends) == 0 {
		return 0, nil
	}
	x, err := lent.Open(r.Dir())
	if err != nil {
		return 0, nil // nothing is lent
	}
	defer x.Close()
	files := worktree.NewRangeReader(r.Worktree())
	defer files.Close()

	chunks := map[object.Key]lent.Chunk{}
	for c, err := range x.Chunks(func(f lent.File) bool { return ends[f.Path] && files.ReadRange(f.Path, f.Stat, 0, nil) == nil }) {
		if err != nil {
			return 0, nil // a damaged file lends nothing
		}
		if away, err := volume.IsEvicted(r.Objects(), c.Key); err != nil {
			return 0, err
		} else if away {
			chunks[c.Key] = c
		}
	}
	if len(chunks) == 0 {
		return 0, nil
	}
	if err := dropWritten(ctx, r, ops, chunks); err != nil {
		return 0, err
	}
	for _, c := range chunks {
		bytes += int64(c.Size)
	}
	if force || bytes == 0 {
		return bytes, nil
	}
	return bytes, checkKept(ctx, r, chunks)
}

// dropWritten removes the chunks that ops write into large files.
func dropWritten(ctx context.Context, r *kist.Repository, ops []worktree.Op, chunks map[object.Key]lent.Chunk) error {
	for i := range ops {
		e := ops[i].New
		if !mayLend(e) {
			continue
		}
		for c, err := range object.Chunks(ctx, r.Objects(), e.Content, e.Size, 0) {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err != nil {
				break // the write finds the error
			}
			delete(chunks, object.Key{Kind: object.KindChunk, ID: c.ID})
		}
	}
	return nil
}

// checkKept returns a [*GiveUpError] unless remotes keep all chunks.
func checkKept(ctx context.Context, r *kist.Repository, chunks map[object.Key]lent.Chunk) error {
	var keys []object.Key
	for key := range chunks {
		keys = append(keys, key)
	}
	report, err := volume.CheckAway(ctx, r.Objects(), keys)
	if err != nil {
		return err
	}
	refused, lacking := &GiveUpError{}, slices.Concat(report.Gone, report.Unkept)
	if len(lacking) == 0 {
		lacking, refused.Err = report.Unknown, cmp.Or(report.Why, object.ErrEvicted)
	}
	if len(lacking) == 0 {
		return nil
	}
	for _, key := range lacking {
		refused.Bytes += int64(chunks[key].Size)
		refused.Path = max(refused.Path, chunks[key].Path)
	}
	return refused
}

// RemoveUntracked carries out ops that remove untracked paths, or those of folders that are left out already. It refuses as [ApplyOps]
// does.
func RemoveUntracked(ctx context.Context, r *kist.Repository, ops []worktree.Op) error {
	bytes, err := giveUpLent(ctx, r, ops, false)
	if err != nil {
		return err
	}
	_, err = r.Worktree().Apply(ctx, r.Contents(), ops, worktree.ApplyOptions{})
	noteOnlyAway(r, bytes)
	return err
}

// noteOnlyAway reports the number of bytes of removed content that only remotes have.
func noteOnlyAway(r *kist.Repository, bytes int64) {
	if note := r.Options().OnlyAway; note != nil && bytes > 0 {
		note(bytes)
	}
}

package stage

import (
	"cmp"
	"context"
	"fmt"
	"maps"
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

// leaving is the lent content of files that operations remove or replace.
type leaving struct {
	chunks  map[object.Key]lent.Chunk // that no file has afterwards
	needed  map[object.Key]bool       // that operations write after no file has them
	sources map[string][]string       // see [worktree.ApplyOptions]
}

// findLeaving finds the lent content of the files that ops remove or replace. A removed file waits until the files that have its
// chunks are written. It changes nothing.
func findLeaving(ctx context.Context, r *kist.Repository, ops []worktree.Op) (*leaving, error) {
	l := &leaving{chunks: map[object.Key]lent.Chunk{}, needed: map[object.Key]bool{}, sources: map[string][]string{}}
	removed := map[string]bool{} // by path of a file that is removed or replaced
	for i := range ops {
		if op := &ops[i]; op.Old != nil && (op.New == nil || op.New.Content != op.Old.Content) {
			removed[op.Path] = op.New == nil
		}
	}
	if len(removed) == 0 {
		return l, nil
	}
	x, err := lent.Open(r.Dir())
	if err != nil {
		return l, nil // nothing is lent
	}
	defer x.Close()
	files := worktree.NewRangeReader(r.Worktree())
	defer files.Close()

	var paths []string // that are removed
	for c, err := range x.Chunks(func(f lent.File) bool {
		gone, ends := removed[f.Path]
		ends = ends && files.ReadRange(f.Path, f.Stat, 0, nil) == nil
		if ends && gone {
			paths = append(paths, f.Path)
		}
		return ends
	}) {
		if err != nil {
			return &leaving{}, nil // a damaged file lends nothing
		}
		away, err := volume.IsAway(r.Objects(), c.Key)
		if err != nil {
			return nil, err
		}
		if away {
			l.chunks[c.Key] = c
		}
	}
	if len(l.chunks) == 0 {
		return l, nil
	}
	return l, l.dropWritten(ctx, r, ops, worktree.RemovableLate(ops, paths))
}

// dropWritten drops the chunks that ops write into large files while the file is there that has them. Late has the paths of files
// whose removal can wait.
func (l *leaving) dropWritten(ctx context.Context, r *kist.Repository, ops []worktree.Op, late map[string]bool) error {
	written := map[object.Key]bool{}
	for i := range ops {
		e := ops[i].New
		if e == nil || e.Type != object.TypeFile || e.Content.IsZero() {
			continue
		}
		to := ops[i].Path
		for c, err := range object.Chunks(ctx, r.Objects(), e.Content, e.Size, 0) {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err != nil {
				break // the write finds the error
			}
			key := object.Key{Kind: object.KindChunk, ID: c.ID}
			from, ok := l.chunks[key]
			if !ok {
				continue
			}
			list := l.sources[from.Path]
			switch {
			case from.Path == to: // the file is replaced when its successor is complete
			case !late[from.Path]:
				l.needed[key] = true
				continue
			case len(list) == 0 || list[len(list)-1] != to:
				l.sources[from.Path] = append(list, to)
			}
			written[key] = written[key] || mayLend(e)
		}
	}
	maps.DeleteFunc(l.chunks, func(key object.Key, _ lent.Chunk) bool { return written[key] })
	return nil
}

// giveUp returns the number of bytes of chunks that only remotes have afterwards, if they were evicted: those of a lazy clone were never
// only here. The error is a [*GiveUpError] if no remote keeps some of it, or if one cannot be asked; it asks none with force.
func (l *leaving) giveUp(ctx context.Context, r *kist.Repository, force bool) (bytes int64, err error) {
	for key, c := range l.chunks {
		evicted, err := volume.IsEvicted(r.Objects(), key)
		if err != nil {
			return 0, err
		}
		if !evicted {
			delete(l.chunks, key)
			continue
		}
		bytes += int64(c.Size)
	}
	if force || bytes == 0 {
		return bytes, nil
	}
	return bytes, checkKept(ctx, r, l.chunks)
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
	leaving, err := findLeaving(ctx, r, ops)
	if err != nil {
		return err
	}
	bytes, err := leaving.giveUp(ctx, r, false)
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

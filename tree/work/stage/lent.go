package stage

import (
	"context"
	"iter"
	"slices"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/lent"
	"github.com/kist-vcs/kist/tree/worktree"
)

// lentFile is a file of the worktree that may have lent chunks.
type lentFile struct {
	lent.File
	content object.Key
	size    uint64
}

// mayLend reports whether a file of an entry may have lent chunks.
func mayLend(e *object.Entry) bool {
	return e != nil && e.Type == object.TypeFile && e.Size >= lent.MinSize && !e.Content.IsZero()
}

// recordLent records the files that have chunks which are away, and forgets other records of the same paths. With all, it
// forgets all other records. It ignores errors: nothing depends on the records.
func recordLent(ctx context.Context, r *kist.Repository, files []lentFile, all bool) {
	if !object.HasFar(r.Objects()) || len(files) == 0 && !all {
		return
	}
	files = slices.DeleteFunc(files, func(f lentFile) bool {
		for _, err := range awayChunks(ctx, r, f) {
			return err != nil
		}
		return true
	})
	if len(files) == 0 && !all {
		return
	}

	e := lent.Edit{Chunks: func(ctx context.Context, i int) iter.Seq2[object.ChunkAt, error] { return awayChunks(ctx, r, files[i]) }}
	paths := map[string]bool{}
	for _, f := range files {
		e.Files = append(e.Files, f.File)
		paths[f.Path] = true
	}
	if !all {
		e.Keep = func(path string) bool { return !paths[path] }
	}
	_ = lent.Apply(ctx, r.Dir(), e)
}

// awayChunks yields the chunks of a file that are away.
func awayChunks(ctx context.Context, r *kist.Repository, f lentFile) iter.Seq2[object.ChunkAt, error] {
	return func(yield func(object.ChunkAt, error) bool) {
		for c, err := range object.Chunks(ctx, r.Objects(), f.content, f.size, 0) {
			away := false
			if err == nil {
				away, err = volume.IsAway(r.Objects(), object.Key{Kind: object.KindChunk, ID: c.ID})
			}
			if err != nil || away {
				if !yield(c, err) || err != nil {
					return
				}
			}
		}
	}
}

// writtenLent returns the written files that may have lent chunks.
func writtenLent(applied []worktree.Applied) (files []lentFile) {
	for _, a := range applied {
		if mayLend(a.New) && !a.Stat.IsZero() {
			files = append(files, lentFile{lent.File{Path: a.Path, Stat: a.Stat}, a.New.Content, a.New.Size})
		}
	}
	return files
}

// lentFiles returns the files of the edits that may have lent chunks.
func (l *edits) lentFiles() (files []lentFile) {
	for e := range l.all() {
		if e.kind != editSet || e.entry == nil {
			continue
		}
		if o := e.entry.Object(); mayLend(&o) {
			files = append(files, lentFile{lent.File{Path: e.path, Stat: e.entry.Stat}, o.Content, o.Size})
		}
	}
	return files
}

// indexedLent returns the files at and below some paths in the index that may have lent chunks, if their size, mtime and inode are still
// the staged ones. The other times may differ: a rename changes them.
func indexedLent(r *kist.Repository, idx *index.Index, paths []string) (files []lentFile) {
	for path, e := range idx.All() {
		o := e.Object()
		if !mayLend(&o) || !Selected(path, paths) {
			continue
		}
		info, err := r.Worktree().Lstat(path)
		if st := info.Stat; err == nil && st.Size == e.Stat.Size && st.MTime == e.Stat.MTime && st.Inode == e.Stat.Inode {
			files = append(files, lentFile{lent.File{Path: path, Stat: st}, o.Content, o.Size})
		}
	}
	return files
}

// RecordMoved records the files at and below paths to which they were moved, by an index that has the new paths.
func RecordMoved(ctx context.Context, r *kist.Repository, idx *index.Index, paths []string) {
	if object.HasFar(r.Objects()) && len(paths) > 0 {
		recordLent(ctx, r, indexedLent(r, idx, paths), false)
	}
}

// RecordLent records all files in the index that have chunks which are away, and forgets all other records. It ignores errors:
// without the records, content is read from a remote.
func RecordLent(ctx context.Context, r *kist.Repository) {
	if r.IsBare() {
		return
	}
	if idx, err := r.Index(); err == nil {
		recordLent(ctx, r, indexedLent(r, idx, []string{""}), true)
	}
}

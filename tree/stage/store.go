package stage

import (
	"context"
	"errors"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/worktree"
)

// storer stores changed files of the worktree and returns the edits of the index
// that result.
type storer struct {
	repo     *kist.Repository
	objects  object.ReadWriter
	idx      *index.Index
	records  *record.View // when the storer was made
	progress kist.Progress
}

func newStorer(r *kist.Repository, objects object.ReadWriter, idx *index.Index, progress kist.Progress) (*storer, error) {
	records, err := r.Purges().View()
	return &storer{r, objects, idx, records, progress}, err
}

// checkUnpurged returns a [*volume.StaleError] if new content in list was purged
// since the storer was made. Publish calls it.
func (s *storer) checkUnpurged(ctx context.Context, list edits) error {
	if now, err := s.repo.Purges().View(); err != nil || now == s.records {
		return err
	}
	for _, e := range list {
		if e.kind != editSet || e.old != nil && e.old.SameContent(e.entry) {
			continue
		}
		entry := e.entry.Object()
		why, err := s.repo.Purged(ctx, &entry)
		if err != nil && !errors.Is(err, object.ErrNotFound) {
			return err
		}
		if why != nil {
			return &volume.StaleError{Keys: []object.Key{why.Key}}
		}
	}
	return nil
}

// implies reports whether the results in a folder show that the folder was
// added or deleted. found begins with the first result after the folder.
func implies(dir string, found []worktree.Found) bool {
	for _, f := range found {
		switch {
		case !tree.Below(f.Path, dir):
			return false
		case f.State == worktree.Untracked || f.State == worktree.Deleted:
			return true
		}
	}
	return false
}

// fileRuns is a list in parts, so that the memory of each part can be freed
// before the others are used.
type fileRuns [][]worktree.Found

// runLength is the number of files in a part.
const runLength = 16 << 10

func (l *fileRuns) add(f worktree.Found) {
	if n := len(*l); n == 0 || len((*l)[n-1]) == runLength {
		*l = append(*l, nil)
	}
	last := &(*l)[len(*l)-1]
	*last = append(*last, f)
}

// store stores the files of a scan and returns the edits for all that it found.
// Purged content counts as unreadable.
func (s *storer) store(ctx context.Context, found []worktree.Found) (edits, error) {
	var list edits
	files := fileRuns{} // to be read
	var total kist.Amount
	for i, f := range found {
		e := edit{path: f.Path, state: f.State, old: f.Old, mode: f.Mode}
		e.implied = f.Dir && (f.State == worktree.Untracked || f.State == worktree.Deleted) && implies(f.Path, found[i+1:])
		switch f.State {
		case worktree.Absent:
			continue
		case worktree.Ignored:
			e.why = f.State.String()
		case worktree.Deleted:
			e.kind = editRemove
		case worktree.Unreadable:
			e.why = reason(f.Err)
		case worktree.Special, worktree.Nested:
			e.why = f.State.String()
			if Indexed(s.idx, f.Path) != nil {
				e.kind = editRemove
			}
		default:
			if !f.Dir {
				files.add(f)
				total.Files++
				total.Bytes += f.Stat.Size
				continue
			}
			e.kind = editDir
		}
		list = append(list, e)
	}
	at := len(list)
	list = append(list, make(edits, total.Files)...)
	return list, s.storeFiles(ctx, files, list[at:], total)
}

// storeFiles stores files, total in all, and sets an edit of list for each. It
// frees each part of files after use: the edits take more and more memory.
func (s *storer) storeFiles(ctx context.Context, files fileRuns, list edits, total kist.Amount) error {
	dst := object.Writer(s.objects)
	if s.records.AnyPurged() {
		dst = &kist.Withheld{Writer: dst, Records: s.records}
	}
	var before, now kist.Amount // done before this part, and with it
	report := func(files, bytes int64) {
		now = kist.Amount{Files: before.Files + files, Bytes: before.Bytes + bytes}
		if s.progress != nil {
			s.progress(now, total)
		}
	}
	for i := range files {
		err := s.repo.Worktree().StoreAll(ctx, dst, files[i], func(at int, stored worktree.Stored, err error) error {
			list[at], err = s.edit(ctx, &files[i][at], stored, err)
			return err
		}, report)
		if err != nil {
			return err
		}
		list, before, files[i] = list[len(files[i]):], now, nil
	}
	return nil
}

// edit returns the edit for a file that was stored, or that failed with err.
func (s *storer) edit(ctx context.Context, f *worktree.Found, stored worktree.Stored, err error) (edit, error) {
	e := edit{path: f.Path, state: f.State, old: f.Old}
	switch {
	case errors.Is(err, worktree.ErrGone):
		e.state = worktree.Deleted
		if Indexed(s.idx, e.path) != nil {
			e.kind = editRemove
		}
		return e, nil
	case err != nil:
		e.state, e.why = worktree.Unreadable, reason(err)
		return e, nil
	}

	entry := index.NewEntry(stored.Entry, stored.Stat)
	if e.old != nil && e.old.SameContent(&entry) {
		entry.MTime = e.old.MTime // a change of the time alone is no change
	} else if why, err := s.repo.PurgedIn(ctx, s.records, s.objects, &stored.Entry); err != nil && !errors.Is(err, object.ErrNotFound) {
		return e, err
	} else if why != nil {
		e.state, e.why = worktree.Unreadable, why.String()
		return e, nil
	}
	e.kind, e.entry = editSet, &entry
	if stored.Unstable {
		e.why = "changed while it was read"
	}
	return e, nil
}

// Package stage combines the index with the worktree: it stages files, reports
// their status, and writes files to the worktree.
package stage

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/worktree"
)

// AddOptions select the paths that [Add] stages.
type AddOptions struct {
	Paths         []string      // slash-separated, below the worktree's root; none, or "", means all
	Update        bool          // only tracked paths
	Force         bool          // also ignored files
	ExcludeCaches bool          // leave out folders with a valid CACHEDIR.TAG
	DryRun        bool          // store and stage nothing
	Progress      kist.Progress // may be nil
}

// AddResult is the result of [Add], also of a dry run. Lists are sorted by
// path. A new or deleted folder is listed only if it is empty; otherwise its
// content is.
type AddResult struct {
	Added, Modified, Deleted []string
	Resolved                 []string // had conflicts

	Skipped []object.Skipped // could not be read, or changed meanwhile; commits record this
	Special []object.Skipped // never stored: FIFOs, sockets, devices, other repositories
	Ignored []string         // named by the user, but ignored

	Read  kist.Amount // files read in the worktree
	Stats volume.Stats
}

// Add stores and stages the changes in the worktree. A path that cannot be
// read is skipped and keeps its staged state. Conflicts at the paths count as
// resolved. The error is [kist.ErrNoMatch], and nothing is staged, if a path
// is neither in the worktree nor in the index.
func Add(ctx context.Context, r *kist.Repository, o AddOptions) (*AddResult, error) {
	var result *AddResult
	err := kist.RetryStale(func() (err error) {
		result, err = add(ctx, r, o)
		return err
	})
	return result, err
}

func add(ctx context.Context, r *kist.Repository, o AddOptions) (*AddResult, error) {
	idx, err := r.Index()
	if err != nil {
		return nil, err
	}

	found, err := scan(ctx, r, idx, worktree.ScanOptions{
		Paths: o.Paths, IncludeIgnored: o.Force, ExcludeCaches: o.ExcludeCaches, NoUntracked: o.Update,
	})
	if err != nil {
		return nil, err
	}

	for _, f := range found {
		if _, conflict := idx.Conflict(f.Path); f.State == worktree.Absent && !conflict {
			return nil, fmt.Errorf("path %q: %w", f.Path, kist.ErrNoMatch)
		}
	}

	purges, err := r.Purges().View()
	if err != nil {
		return nil, err
	}

	session := r.Objects().Begin(volume.SessionOptions{DryRun: o.DryRun})
	defer session.Close()
	stored, err := store(ctx, r, session, idx, found, o.Progress)
	if err != nil {
		return nil, err
	}

	result := stored.result()
	result.Stats = session.Stats()
	list := stored
	if settled := settled(r, idx, stored, o); len(settled) > 0 {
		list = append(settled, stored...)
	}

	for _, e := range list {
		if _, conflict := idx.Conflict(e.path); conflict && e.settles() {
			result.Resolved = append(result.Resolved, e.path)
		}
	}

	if o.DryRun || !list.changes() {
		return result, nil
	}

	begun := list.beginsLost(idx)
	err = session.Publish(ctx, func(ctx context.Context) error {
		if err := checkUnpurged(ctx, r, purges, stored); err != nil {
			return err
		}
		return index.UpdateWith(ctx, r.Dir(), index.Options{From: idx}, list.apply)
	})

	for _, path := range begun {
		if err == nil {
			r.Options().Warn(fmt.Sprintf("folder %q was lost; the next commit will contain only what you add to it", path))
		}
	}

	result.Stats = session.Stats()
	return result, errors.Join(err, session.Close())
}

// checkUnpurged makes sure that no new content of list was purged since the
// records were read as before. Publish calls it. The error is a
// [*volume.StaleError] if one was.
func checkUnpurged(ctx context.Context, r *kist.Repository, before *record.View, list edits) error {
	if now, err := r.Purges().View(); err != nil || now == before {
		return err
	}

	for _, e := range list {
		if e.entry == nil || e.old != nil && e.old.SameContent(e.entry) {
			continue
		}
		entry := e.entry.Object()
		why, err := r.Purged(ctx, &entry)
		if err != nil && !errors.Is(err, object.ErrNotFound) {
			return err
		}
		if why != nil {
			return &volume.StaleError{Keys: []object.Key{why.Key}}
		}
	}

	return nil
}

// settled returns edits that end notes in the index about the selected paths:
// conflicts, which count as resolved now, and that a path could not be read.
func settled(r *kist.Repository, idx *index.Index, stored edits, o AddOptions) edits {
	notes := len(idx.Conflicts()) + len(idx.Skipped())
	if notes == 0 {
		return nil
	}

	touched := make(map[string]bool, len(stored))
	for _, e := range stored {
		touched[e.path] = true
	}

	var list edits
	for _, c := range idx.Conflicts() {
		// An untracked file that the scan ignored does not mean that the user
		// decided to remove the path.
		if Selected(c.Path, o.Paths) && !touched[c.Path] && (Indexed(idx, c.Path) != nil || !r.Worktree().Exists(c.Path)) {
			list = append(list, edit{path: c.Path, resolved: true})
		}
	}

	for _, s := range idx.Skipped() {
		if Selected(s.Path, o.Paths) && !touched[s.Path] && (!o.Update || Indexed(idx, s.Path) != nil || !r.Worktree().Exists(s.Path)) {
			list = append(list, edit{path: s.Path, readable: true})
		}
	}

	return list
}

// Selected reports whether a path is equal to or below one of paths. It is
// always true if paths is nil.
func Selected(path string, paths []string) bool {
	return paths == nil || slices.ContainsFunc(paths, func(p string) bool { return tree.Below(path, p) })
}

// implies reports whether the results in a folder show that the folder was
// added or deleted. Found begins with the first result after the folder.
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

// fileRuns is a list in parts, which can be freed one by one.
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

// store reads the files that a scan found into objects and returns the edits
// that follow. Purged content counts as unreadable.
func store(ctx context.Context, r *kist.Repository, objects object.ReadWriter, idx *index.Index, found []worktree.Found, progress kist.Progress) (edits, error) {
	var list edits
	files := fileRuns{} // to be read
	var total kist.Amount
	for i, f := range found {
		e := edit{path: f.Path, state: f.State, old: f.Old, dir: f.Dir, mode: f.Mode}
		e.implied = f.Dir && (f.State == worktree.Untracked || f.State == worktree.Deleted) && implies(f.Path, found[i+1:])
		switch f.State {
		case worktree.Absent:
			continue
		case worktree.Ignored:
			e.why = f.State.String()
		case worktree.Deleted:
			e.remove = true
		case worktree.Unreadable:
			e.why = reason(f.Err)
		case worktree.Special, worktree.Nested:
			// The tracked file that was there is gone.
			e.why, e.remove = f.State.String(), Indexed(idx, f.Path) != nil
		default:
			if !f.Dir {
				files.add(f)
				total.Files++
				total.Bytes += f.Stat.Size
				continue
			}
		}
		list = append(list, e)
	}

	at := len(list)
	list = append(list, make(edits, total.Files)...)
	return list, storeFiles(ctx, r, objects, idx, files, list[at:], total, progress)
}

// storeFiles reads files into objects and sets one edit of list for each.
// Total is their amount. It frees the files part by part, because the edits
// need more and more memory.
func storeFiles(ctx context.Context, r *kist.Repository, objects object.ReadWriter, idx *index.Index, files fileRuns, list edits, total kist.Amount, progress kist.Progress) error {
	dst := object.Writer(objects)
	purges, err := r.Purges().View()
	if err != nil {
		return err
	}
	if purges.AnyPurged() {
		dst = &kist.Withheld{Writer: dst, Records: purges}
	}

	var before, now kist.Amount // the amount done, without and with this part
	report := func(files, bytes int64) {
		now = kist.Amount{Files: before.Files + files, Bytes: before.Bytes + bytes}
		if progress != nil {
			progress(now, total)
		}
	}

	for i := range files {
		err := r.Worktree().StoreAll(ctx, dst, files[i], func(at int, s worktree.Stored, err error) error {
			list[at], err = storedEdit(ctx, r, purges, objects, idx, &files[i][at], s, err)
			return err
		}, report)
		if err != nil {
			return err
		}
		list, before, files[i] = list[len(files[i]):], now, nil
	}

	return nil
}

// storedEdit returns the edit for a file that was stored, or that failed with
// err. Purges has the purged contents.
func storedEdit(ctx context.Context, r *kist.Repository, purges *record.View, objects object.Reader, idx *index.Index, f *worktree.Found, s worktree.Stored, err error) (edit, error) {
	e := edit{path: f.Path, state: f.State, old: f.Old}
	switch {
	case errors.Is(err, worktree.ErrGone):
		e.state, e.remove = worktree.Deleted, Indexed(idx, e.path) != nil
	case err != nil:
		e.state, e.why = worktree.Unreadable, reason(err)
	default:
		entry := index.NewEntry(s.Entry, s.Stat)
		if e.old != nil && e.old.SameContent(&entry) {
			entry.MTime = e.old.MTime // a changed time alone is no change
		} else if why, err := r.PurgedIn(ctx, purges, objects, &s.Entry); err != nil && !errors.Is(err, object.ErrNotFound) {
			return e, err
		} else if why != nil {
			e.state, e.why = worktree.Unreadable, why.Error()
			break
		}
		e.entry = &entry
		if s.Unstable {
			e.why = "changed while it was read"
		}
	}

	return e, nil
}

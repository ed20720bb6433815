// Package stage combines the index with the worktree: it stages
// files, reports their status, and writes files to the worktree.
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

// AddOptions say what [Add] stages.
type AddOptions struct {
	Paths         []string      // below the worktree's root, slash-separated; "" or none is all
	Update        bool          // only what is tracked already
	Force         bool          // ignored files too
	ExcludeCaches bool          // leave out folders tagged as caches by a CACHEDIR.TAG
	DryRun        bool          // store and stage nothing
	Progress      kist.Progress // may be nil
}

// AddResult tells what [Add] did, or would have done. Lists are in
// the order of a walk; what is in a folder that came or went is listed, and the
// folder only if it is empty.
type AddResult struct {
	Added, Modified, Deleted []string
	Resolved                 []string // had conflicts

	Skipped []object.Skipped // could not be read, or changed while it was; commits will say so
	Special []object.Skipped // never stored: FIFOs, sockets, devices, other repositories
	Ignored []string         // asked for by name, but ignored

	Read  kist.Amount // of the worktree's files
	Stats volume.Stats
}

// Add stores what has changed in the worktree since it was last staged, and
// stages it. A path that cannot be read is skipped, and what is staged for it
// stays. Conflicts at the paths count as resolved. A path that is neither in
// the worktree nor in the index gives [kist.ErrNoMatch], and nothing is staged.
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
	said, err := r.Purges().View()
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
		if err := stillUnpurged(ctx, r, said, stored); err != nil {
			return err
		}
		return index.UpdateWith(ctx, r.Dir(), index.Options{From: idx}, list.apply)
	})
	for _, path := range begun {
		if err == nil {
			r.Options().Warn(fmt.Sprintf("folder %q was lost; the next commit has in it only what you add", path))
		}
	}
	result.Stats = session.Stats()
	return result, errors.Join(err, session.Close())
}

// stillUnpurged makes sure that nothing that is new in list was purged since
// the records were as said. It is called within publish.
func stillUnpurged(ctx context.Context, r *kist.Repository, said *record.View, list edits) error {
	if now, err := r.Purges().View(); err != nil || now == said {
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

// settled returns what the index notes of paths that were looked at, and need
// not note any more: conflicts, which count as resolved now, and that a path
// could not be read.
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
		// Something untracked that was not looked at, being ignored, is no
		// decision for its removal.
		if Asked(c.Path, o.Paths) && !touched[c.Path] && (Indexed(idx, c.Path) != nil || !r.Worktree().Exists(c.Path)) {
			list = append(list, edit{path: c.Path, resolved: true})
		}
	}
	for _, s := range idx.Skipped() {
		if Asked(s.Path, o.Paths) && !touched[s.Path] && (!o.Update || Indexed(idx, s.Path) != nil || !r.Worktree().Exists(s.Path)) {
			list = append(list, edit{path: s.Path, readable: true})
		}
	}
	return list
}

// Asked reports whether a path is one of paths, or below one; nil stands for all.
func Asked(path string, paths []string) bool {
	return paths == nil || slices.ContainsFunc(paths, func(p string) bool { return tree.Below(path, p) })
}

// tellsOf reports whether what was found in a folder makes it clear that the
// folder came or went. What comes after the folder begins found.
func tellsOf(dir string, found []worktree.Found) bool {
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

// fileRuns is a list that can be given back to the system part by part.
type fileRuns [][]worktree.Found

// runLength is how many files are in a part.
const runLength = 16 << 10

func (l *fileRuns) add(f worktree.Found) {
	if n := len(*l); n == 0 || len((*l)[n-1]) == runLength {
		*l = append(*l, nil)
	}
	last := &(*l)[len(*l)-1]
	*last = append(*last, f)
}

// store reads what was found in the worktree into dst, and returns what that
// means for the index. What was purged is taken for unreadable.
func store(ctx context.Context, r *kist.Repository, objects object.ReadWriter, idx *index.Index, found []worktree.Found, progress kist.Progress) (edits, error) {
	var list edits
	files := fileRuns{} // what is to be read
	var total kist.Amount
	for i, f := range found {
		e := edit{path: f.Path, state: f.State, old: f.Old, dir: f.Dir, mode: f.Mode}
		e.told = f.Dir && (f.State == worktree.Untracked || f.State == worktree.Deleted) && tellsOf(f.Path, found[i+1:])
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
			// What was there before is there no more.
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

// storeFiles reads files, total in all, into objects, and sets an edit of list
// for each. It lets go of the files as it goes on: the more is read, the more
// memory the edits take.
func storeFiles(ctx context.Context, r *kist.Repository, objects object.ReadWriter, idx *index.Index, files fileRuns, list edits, total kist.Amount, progress kist.Progress) error {
	dst := object.Writer(objects)
	said, err := r.Purges().View()
	if err != nil {
		return err
	}
	if said.AnyPurged() {
		dst = &kist.Withheld{Writer: dst, Records: said}
	}
	var before, now kist.Amount // what is done: before this part, and with it
	report := func(files, bytes int64) {
		now = kist.Amount{Files: before.Files + files, Bytes: before.Bytes + bytes}
		if progress != nil {
			progress(now, total)
		}
	}
	for i := range files {
		err := r.Worktree().StoreAll(ctx, dst, files[i], func(at int, s worktree.Stored, err error) error {
			list[at], err = storedEdit(ctx, r, said, objects, idx, &files[i][at], s, err)
			return err
		}, report)
		if err != nil {
			return err
		}
		list, before, files[i] = list[len(files[i]):], now, nil
	}
	return nil
}

// storedEdit returns what it means for the index that a file that was found was
// stored, or could not be. What was purged is what said tells.
func storedEdit(ctx context.Context, r *kist.Repository, said *record.View, objects object.Reader, idx *index.Index, f *worktree.Found, s worktree.Stored, err error) (edit, error) {
	e := edit{path: f.Path, state: f.State, old: f.Old}
	switch {
	case errors.Is(err, worktree.ErrGone):
		e.state, e.remove = worktree.Deleted, Indexed(idx, e.path) != nil
	case err != nil:
		e.state, e.why = worktree.Unreadable, reason(err)
	default:
		entry := index.NewEntry(s.Entry, s.Stat)
		if e.old != nil && e.old.SameContent(&entry) {
			entry.MTime = e.old.MTime // a change of the time alone is no change
		} else if why, err := r.PurgedIn(ctx, said, objects, &s.Entry); err != nil && !errors.Is(err, object.ErrNotFound) {
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

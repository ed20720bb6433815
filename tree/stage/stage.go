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

	session := r.Objects().Begin(volume.SessionOptions{DryRun: o.DryRun})
	defer session.Close()
	s, err := newStorer(r, session, idx, o.Progress)
	if err != nil {
		return nil, err
	}
	stored, err := s.store(ctx, found)
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
		if err := s.checkUnpurged(ctx, stored); err != nil {
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

// settled returns edits that end notes in the index about the selected paths:
// conflicts, which count as resolved now, and that a path could not be read.
func settled(r *kist.Repository, idx *index.Index, stored edits, o AddOptions) edits {
	if len(idx.Conflicts())+len(idx.Skipped()) == 0 {
		return nil
	}

	touched := make(map[string]bool, len(stored))
	for _, e := range stored {
		touched[e.path] = true
	}

	open := func(path string) bool { return Selected(path, o.Paths) && !touched[path] }
	// An untracked file that the scan ignored does not mean that the user
	// decided to remove the path.
	decided := func(path string) bool { return Indexed(idx, path) != nil || !r.Worktree().Exists(path) }

	var list edits
	for _, c := range idx.Conflicts() {
		if open(c.Path) && decided(c.Path) {
			list = append(list, edit{path: c.Path, kind: editResolve})
		}
	}

	for _, s := range idx.Skipped() {
		if open(s.Path) && (!o.Update || decided(s.Path)) {
			list = append(list, edit{path: s.Path, kind: editForgive})
		}
	}

	return list
}

// Selected reports whether a path is equal to or below one of paths. It is
// always true if paths is nil.
func Selected(path string, paths []string) bool {
	return paths == nil || slices.ContainsFunc(paths, func(p string) bool { return tree.Below(path, p) })
}

package stage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/intact"
	"github.com/kist-vcs/kist/remote/registry"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/operation"
	"github.com/kist-vcs/kist/tree/view"
	"github.com/kist-vcs/kist/tree/worktree"
)

// StatusOptions select the paths that [ReadStatus] reports.
type StatusOptions struct {
	Paths        []string // nil: everything
	AllUntracked bool     // list the content of untracked folders, not only the folders
	NoUntracked  bool     // do not look for untracked files
	Ignored      bool     // list ignored paths
}

// Status has the differences between worktree, index and HEAD.
type Status struct {
	Head      refs.Head
	HeadLost  bool               // HEAD's commit is an accepted loss: everything counts as added
	Tracking  *registry.Tracking // HEAD's branch and its upstream; nil: no upstream
	State     operation.State
	Staged    []tree.Change    // from HEAD to the index, with renames
	Changed   []worktree.Found // from the index to the worktree: modified, deleted, of another mode or type
	Untracked []worktree.Found
	Ignored   []worktree.Found
	Skipped   []worktree.Found // cannot be read or stored
	Purged    []worktree.Found // tracked, but missing because their content was purged
	Lost      []worktree.Found // tracked, but missing because their content is lost
	Partial   []object.Skipped // could not be read during add; a commit records this
	Conflicts []index.Conflict
}

// Clean reports whether there is nothing to stage, commit or resolve, and all tracked
// files can be read. Untracked files do not count.
func (s *Status) Clean() bool {
	tracked := func(f worktree.Found) bool { return f.Old != nil }
	return len(s.Staged)+len(s.Changed)+len(s.Conflicts) == 0 && !slices.ContainsFunc(s.Skipped, tracked)
}

// ReadStatus compares HEAD, the index and the worktree. It reads files whose
// stat data does not prove that they are unchanged. If they are, it updates
// their stat data in the index, unless another process is changing the index.
func ReadStatus(ctx context.Context, r *kist.Repository, o StatusOptions) (*Status, error) {
	s := &Status{}
	if err := s.readHead(ctx, r); err != nil {
		return nil, err
	}
	idx, err := r.Index()
	if err != nil {
		return nil, err
	}
	for _, p := range idx.Skipped() {
		if Selected(p.Path, o.Paths) {
			s.Partial = append(s.Partial, p)
		}
	}
	for _, c := range idx.Conflicts() {
		if Selected(c.Path, o.Paths) {
			s.Conflicts = append(s.Conflicts, c)
		}
	}

	unchanged, err := s.compareWorktree(ctx, r, idx, o)
	if err != nil {
		return nil, err
	}
	if err := s.compareHead(ctx, r, idx, o.Paths); err != nil {
		return nil, err
	}
	refreshIndex(ctx, r, idx, unchanged)
	return s, nil
}

// readHead sets HEAD, its upstream and the operation in progress.
func (s *Status) readHead(ctx context.Context, r *kist.Repository) (err error) {
	if s.Head, err = r.Refs().Head(); err != nil {
		return err
	}
	if s.State, err = operation.Current(r); err != nil {
		return err
	}
	if s.Head.Branch != "" {
		t, err := registry.Track(ctx, r, s.Head.Branch)
		if err == nil {
			s.Tracking = &t
		} else if !errors.Is(err, kist.ErrNoUpstream) {
			r.Options().Warn(fmt.Sprintf("branch %q cannot be compared with its upstream: %v", s.Head.Branch, err))
		}
	}
	return nil
}

// compareWorktree sets the differences between the index and the worktree. It
// returns the unchanged files that it had to read.
func (s *Status) compareWorktree(ctx context.Context, r *kist.Repository, idx *index.Index, o StatusOptions) ([]worktree.Refreshed, error) {
	found, err := r.Worktree().Scan(ctx, idx, worktree.ScanOptions{
		Paths: o.Paths, CollapseUntracked: !o.AllUntracked, NoUntracked: o.NoUntracked, ListIgnored: o.Ignored,
	})
	if err != nil {
		return nil, err
	}
	found, s.Purged, s.Lost, err = splitUnavailable(ctx, r, found)
	if err != nil {
		return nil, err
	}
	found, unchanged, err := r.Worktree().Confirm(ctx, found)
	if err != nil {
		return nil, err
	}
	for _, f := range found {
		switch f.State {
		case worktree.Untracked:
			s.Untracked = append(s.Untracked, f)
		case worktree.Ignored:
			s.Ignored = append(s.Ignored, f)
		case worktree.Unreadable, worktree.Special, worktree.Nested:
			s.Skipped = append(s.Skipped, f)
		case worktree.Absent:
		default:
			if _, ok := idx.Conflict(f.Path); !ok {
				s.Changed = append(s.Changed, f)
			}
		}
	}
	return unchanged, nil
}

// compareHead sets the differences between HEAD and the index.
func (s *Status) compareHead(ctx context.Context, r *kist.Repository, idx *index.Index, paths []string) error {
	var from object.ID
	if s.HeadLost = r.Objects().IsLost(object.Key{Kind: object.KindCommit, ID: s.Head.ID}); !s.HeadLost {
		var err error
		if from, err = intact.CommitTree(ctx, r, s.Head.ID); err != nil {
			return err
		}
	}
	staged, err := view.FromIndex(ctx, r, idx)
	if err != nil {
		return err
	}
	changes, err := view.Diff(ctx, view.View{Tree: from, Objects: view.NewKnown(r.Contents())}, staged, paths, true)
	if err != nil {
		return err
	}
	for _, c := range changes {
		if _, ok := idx.Conflict(c.Path); !ok {
			s.Staged = append(s.Staged, c)
		}
	}
	return nil
}

// refreshIndex notes the unchanged files that were read and the computed trees,
// so that the next command is faster. It ignores errors.
func refreshIndex(ctx context.Context, r *kist.Repository, idx *index.Index, unchanged []worktree.Refreshed) {
	if len(unchanged) == 0 {
		return
	}
	_ = r.Publish(ctx, func(ctx context.Context) error {
		_, err := index.UpdateIfFree(ctx, r.Dir(), idx, func(idx *index.Index) error {
			noteUnchanged(idx, unchanged)
			return nil
		})
		return err
	})
}

// Subject returns the first line of a message.
func Subject(message string) string {
	line, _, _ := strings.Cut(message, "\n")
	return line
}

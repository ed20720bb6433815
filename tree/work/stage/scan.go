package stage

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/look/compare"
	"github.com/kist-vcs/kist/tree/work/operation"
	"github.com/kist-vcs/kist/tree/worktree"
)

// WorktreeView returns the present state of the tracked paths in the worktree.
// It reads the files that may differ from the index, but does not store them.
func WorktreeView(ctx context.Context, r *kist.Repository, paths []string) (compare.Side, error) {
	idx, err := r.Index()
	if err != nil {
		return compare.Side{}, err
	}

	found, err := scan(ctx, r, r.Worktree(), idx, worktree.ScanOptions{Paths: paths, NoUntracked: true})
	if err != nil {
		return compare.Side{}, err
	}

	found, unchanged, err := r.Worktree().Confirm(ctx, found)
	if err != nil {
		return compare.Side{}, err
	}

	refreshIndex(ctx, r, nil, unchanged)
	o := object.NewOverlay(r.Contents())
	s, err := newStager(r, o, idx, nil)
	if err != nil {
		return compare.Side{}, err
	}
	edits, err := s.storeFound(ctx, found)
	if err != nil {
		return compare.Side{}, err
	}

	var skipped []object.Skipped
	for _, e := range edits.list {
		if e.isSkipped() {
			skipped = append(skipped, object.Skipped{Path: e.path, Reason: e.reason})
		}
	}

	if err := edits.applyTo(idx); err != nil {
		return compare.Side{}, err
	}

	info, err := idx.PreviewTree(ctx, o)
	return compare.Side{Tree: info.ID, Objects: o, Worktree: true, Skipped: skipped}, err
}

// scan returns the changes in a worktree. A file that is missing because its
// content was purged or lost, or that kist does not write because it is git's, is no
// change: the user did not remove it.
func scan(ctx context.Context, r *kist.Repository, w *worktree.Worktree, idx *index.Index, o worktree.ScanOptions) ([]*worktree.Found, error) {
	found, err := scanAll(ctx, w, idx, o)
	if err != nil {
		return nil, err
	}
	split, err := splitUnavailable(ctx, r, w, found)
	return split.rest, err
}

// splitScan is a scan's result. Purged, lost and unwritten are missing tracked files that the
// user did not remove: their content was purged, it was lost and the file was never written, or
// they are in a folder of git that kist does not write. Rest has all other results, except
// missing folders of such files: the folders are still tracked.
type splitScan struct{ rest, purged, lost, unwritten []*worktree.Found }

// splitUnavailable splits the result of a scan of w. The caller must not use found afterwards.
func splitUnavailable(ctx context.Context, r *kist.Repository, w *worktree.Worktree, found []*worktree.Found) (split splitScan, err error) {
	purges, err := r.Purges().View()
	if err != nil {
		return split, err
	}

	without := map[string]bool{}
	if w == r.Worktree() && !r.IsBare() { // kist writes to no other worktree, so the user removed a missing file
		found, without = split.takeUnwritten(w, found)
	}
	for _, f := range found {
		if f.State != worktree.Deleted || f.Old == nil || !purges.AnyPurged() && !f.Old.Stat.IsZero() {
			continue
		}
		e := f.Old.Object()
		why, err := r.Purged(ctx, &e)
		if err != nil && !object.IsUnreadable(err) {
			return split, err
		}
		switch {
		case why != nil:
			split.purged = append(split.purged, f)
		case f.Old.Stat.IsZero() && isLost(ctx, r, &e):
			split.lost = append(split.lost, f)
		default:
			continue
		}
		for path := f.Path; path != ""; path, _ = tree.Split(path) {
			without[path] = true
		}
	}

	split.rest = found
	if len(without) > 0 {
		split.rest = slices.DeleteFunc(found, func(f *worktree.Found) bool { return f.State == worktree.Deleted && without[f.Path] })
	}
	return split, nil
}

// takeUnwritten moves the missing content of git's own folders from found to s.unwritten, if
// the folder is absent and kist never wrote a file of it. Above has the folders above it, which
// may be missing, too.
func (s *splitScan) takeUnwritten(w *worktree.Worktree, found []*worktree.Found) (rest []*worktree.Found, above map[string]bool) {
	above = map[string]bool{}
	absent := map[string]bool{} // folders of git
	for _, f := range found {
		at := tree.GitFolder(f.Path)
		if at == "" || f.State != worktree.Deleted {
			continue
		}
		if _, known := absent[at]; !known {
			absent[at] = !w.Exists(at)
		}
		if f.Old != nil && !f.Old.Stat.IsZero() {
			absent[at] = false // the user removed it
		}
	}
	if len(absent) == 0 {
		return found, above
	}

	for _, f := range found {
		if f.State != worktree.Deleted || !absent[tree.GitFolder(f.Path)] {
			rest = append(rest, f)
			continue
		}
		s.unwritten = append(s.unwritten, f)
		for path, _ := tree.Split(f.Path); path != ""; path, _ = tree.Split(path) {
			above[path] = true
		}
	}
	return rest, above
}

// isLost reports whether a part of a file's content is missing. It reads
// manifests, but no chunks.
func isLost(ctx context.Context, r *kist.Repository, e *object.Entry) bool {
	if e.Content.IsZero() {
		return false
	}

	keys := []object.Key{e.Content}
	if e.Content.Kind == object.KindManifest {
		for c, err := range object.Chunks(ctx, r.Objects(), e.Content, e.Size, 0) {
			if err != nil {
				return object.IsUnreadable(err)
			}
			keys = append(keys, object.Key{Kind: object.KindChunk, ID: c.ID})
		}
	}

	missing, err := r.Objects().Missing(ctx, keys)
	return len(missing) > 0 || object.IsUnreadable(err)
}

// OnlyCopies returns the files that operations would remove or replace though
// their content was purged: the file in the worktree is the only copy.
func OnlyCopies(r *kist.Repository, ops []worktree.Op) ([]Obstacle, error) {
	purges, err := r.Purges().View()
	if err != nil || !purges.AnyPurged() {
		return nil, err
	}

	var list []Obstacle
	for _, op := range ops {
		if op.Old == nil || op.New != nil && op.New.Content == op.Old.Content {
			continue
		}
		if _, purged := purges.Purged(op.Old.Content); purged && r.Worktree().Exists(op.Path) {
			list = append(list, Obstacle{op.Path, "the only copy: its content was purged"})
		}
	}

	return list, nil
}

// clearPurged removes files that should have been replaced by purged content,
// unless they have local changes. Otherwise the old files would look like
// changed versions of the new ones.
func clearPurged(ctx context.Context, r *kist.Repository, idx *index.Index, ops []worktree.Op, failed *worktree.ApplyError) error {
	paths := map[string]bool{}
	for _, f := range failed.Failed {
		if errors.Is(f.Err, object.ErrPurged) {
			paths[f.Path] = true
		}
	}

	var removals []worktree.Op
	for _, op := range ops {
		if paths[op.Path] && op.Old != nil {
			removals = append(removals, worktree.Op{Path: op.Path, Old: op.Old})
		}
	}

	if len(removals) == 0 {
		return nil
	}

	kept, err := r.Worktree().Check(ctx, idx, removals)
	if err != nil {
		return err
	}

	only, err := OnlyCopies(r, removals)
	if err != nil {
		return err
	}

	for _, o := range append(Obstacles(r, removals, kept), only...) {
		delete(paths, o.Path)
	}

	todo := removals[:0]
	for _, op := range removals {
		if paths[op.Path] {
			todo = append(todo, op)
		}
	}

	_, err = r.Worktree().Apply(ctx, r.Contents(), todo, worktree.ApplyOptions{})
	if err != nil {
		return fmt.Errorf("remove the old file: %w", err)
	}

	return nil
}

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
	HeadLost  bool                     // HEAD's commit is an accepted loss: everything counts as added
	Tracking  *kist.UpstreamComparison // HEAD's branch and its upstream; nil: no upstream
	State     operation.State
	Staged    []tree.Change     // from HEAD to the index, with renames
	Changed   []*worktree.Found // from the index to the worktree: modified, deleted, of another mode or type; untracked if it is to be added
	Untracked []*worktree.Found
	Ignored   []*worktree.Found
	Skipped   []*worktree.Found // cannot be read or stored
	Purged    []*worktree.Found // tracked, but missing because their content was purged
	Lost      []*worktree.Found // tracked, but missing because their content is lost
	Unwritten []string          // tracked folders of git that no command wrote here
	LeftOut   []string          // untracked folders of git, which add leaves out
	Partial   []object.Skipped  // could not be read during add; a commit records this
	Conflicts []index.Conflict
}

// Clean reports whether there is nothing to stage, commit or resolve, and all tracked
// files can be read. Untracked files do not count.
func (s *Status) Clean() bool {
	tracked := func(f *worktree.Found) bool { return f.Old != nil }
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
	if s.State, err = operation.CurrentAt(r, s.Head); err != nil {
		return err
	}
	if s.Head.Branch != "" {
		t, err := kist.CompareUpstream(ctx, r, s.Head.Branch)
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
	found, err := scanAll(ctx, r.Worktree(), idx, worktree.ScanOptions{
		Paths: o.Paths, CollapseUntracked: !o.AllUntracked, NoUntracked: o.NoUntracked, ListIgnored: o.Ignored,
	})
	if err != nil {
		return nil, err
	}
	split, err := splitUnavailable(ctx, r, r.Worktree(), found)
	if err != nil {
		return nil, err
	}
	s.Purged, s.Lost = split.purged, split.lost
	s.LeftOut, s.Unwritten = r.Worktree().LeftOutGit()
	for _, f := range split.unwritten {
		s.Unwritten = append(s.Unwritten, tree.GitFolder(f.Path))
	}
	slices.SortFunc(s.Unwritten, tree.ComparePaths)
	s.Unwritten = slices.Compact(s.Unwritten)

	found, unchanged, err := r.Worktree().Confirm(ctx, split.rest)
	if err != nil {
		return nil, err
	}
	for _, f := range found {
		switch f.State {
		case worktree.Untracked:
			if idx.Intended(f.Path) {
				s.Changed = append(s.Changed, f)
				continue
			}
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
		if from, err = kist.CommitTree(ctx, r, s.Head.ID); err != nil {
			return err
		}
	}
	staged, err := compare.FromIndex(ctx, r, idx)
	if err != nil {
		return err
	}
	changes, err := compare.Diff(ctx, compare.Side{Tree: from, Objects: compare.NewKnown(r.Contents())}, staged, paths, true)
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
	_ = r.Publish(ctx, kist.Step(func(ctx context.Context) error {
		_, err := index.UpdateIfFree(ctx, r.Dir(), idx, func(idx *index.Index) error {
			noteUnchanged(idx, unchanged)
			return nil
		})
		return err
	}))
}

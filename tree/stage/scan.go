package stage

import (
	"context"
	"errors"
	"fmt"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/view"
	"github.com/kist-vcs/kist/tree/worktree"
)

// WorktreeView returns the present state of the tracked paths in the worktree.
// It reads the files that may differ from the index, but does not store them.
func WorktreeView(ctx context.Context, r *kist.Repository, paths []string) (view.View, error) {
	idx, err := r.Index()
	if err != nil {
		return view.View{}, err
	}

	found, err := scan(ctx, r, idx, worktree.ScanOptions{Paths: paths, NoUntracked: true})
	if err != nil {
		return view.View{}, err
	}

	found, unchanged, err := r.Worktree().Confirm(ctx, found)
	if err != nil {
		return view.View{}, err
	}

	refreshIndex(ctx, r, nil, unchanged)
	o := object.NewOverlay(r.Contents())
	s, err := newStorer(r, o, idx, nil)
	if err != nil {
		return view.View{}, err
	}
	edits, err := s.store(ctx, found)
	if err != nil {
		return view.View{}, err
	}

	var skipped []object.Skipped
	for _, e := range edits {
		if e.skipped() {
			skipped = append(skipped, object.Skipped{Path: e.path, Reason: e.why})
		}
	}
	if err := edits.apply(idx); err != nil {
		return view.View{}, err
	}

	info, err := idx.PreviewTree(ctx, o)
	return view.View{Tree: info.ID, Objects: o, Worktree: true, Skipped: skipped}, err
}

// scan returns the changes in the worktree. A file that is missing because its
// content was purged or lost is no change: the user did not remove it.
func scan(ctx context.Context, r *kist.Repository, idx *index.Index, o worktree.ScanOptions) ([]worktree.Found, error) {
	found, err := r.Worktree().Scan(ctx, idx, o)
	if err != nil {
		return nil, err
	}
	kept, _, _, err := splitUnavailable(ctx, r, found)
	return kept, err
}

// splitUnavailable splits a scan's result. Purged and lost are missing tracked
// files that nobody removed: their content was purged, or it was lost and the
// file was never written. Rest is everything else. It leaves out missing
// folders of such files, which are still tracked.
func splitUnavailable(ctx context.Context, r *kist.Repository, found []worktree.Found) (rest, purged, lost []worktree.Found, err error) {
	purges, err := r.Purges().View()
	if err != nil {
		return nil, nil, nil, err
	}

	without := map[string]bool{}
	for _, f := range found {
		if f.State != worktree.Deleted || f.Old == nil || !purges.AnyPurged() && !f.Old.Stat.IsZero() {
			continue
		}
		e := f.Old.Object()
		why, err := r.Purged(ctx, &e)
		if err != nil && !view.IsLost(err) {
			return nil, nil, nil, err
		}
		switch {
		case why != nil:
			purged = append(purged, f)
		case f.Old.Stat.IsZero() && isLost(ctx, r, &e):
			lost = append(lost, f)
		default:
			continue
		}
		for path := f.Path; path != ""; path, _ = tree.Split(path) {
			without[path] = true
		}
	}

	for _, f := range found {
		if f.State != worktree.Deleted || !without[f.Path] {
			rest = append(rest, f)
		}
	}

	return rest, purged, lost, nil
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
				return view.IsLost(err)
			}
			keys = append(keys, object.Key{Kind: object.KindChunk, ID: c.ID})
		}
	}

	missing, err := r.Objects().Missing(ctx, keys)
	return len(missing) > 0 || view.IsLost(err)
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

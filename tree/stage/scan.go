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

// WorktreeView returns what the tracked paths hold in the worktree now. It
// reads, but does not store, the files that may differ from what is staged.
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
	edits, err := store(ctx, r, o, idx, found, nil)
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

// scan looks for what has changed in the worktree. That a file is not there
// whose content was purged or is lost is no change: nobody has removed it.
func scan(ctx context.Context, r *kist.Repository, idx *index.Index, o worktree.ScanOptions) ([]worktree.Found, error) {
	found, err := r.Worktree().Scan(ctx, idx, o)
	if err != nil {
		return nil, err
	}
	kept, _, _, err := withoutGone(ctx, r, found)
	return kept, err
}

// withoutGone returns what was found without tracked files that are gone and
// cannot be there, and these apart: their content was purged, or it is lost and
// they were never written. A folder that is gone, and had such a file, is left
// out too: the file is still tracked.
func withoutGone(ctx context.Context, r *kist.Repository, found []worktree.Found) (rest, purged, lost []worktree.Found, err error) {
	said, err := r.Purges().View()
	if err != nil {
		return nil, nil, nil, err
	}
	without := map[string]bool{}
	for _, f := range found {
		if f.State != worktree.Deleted || f.Old == nil || !said.AnyPurged() && !f.Old.Stat.IsZero() {
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

// isLost reports whether a part of a file's content is missing. It reads lists of
// chunks, and no chunks.
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

// OnlyCopies returns the files that operations would remove or replace, and
// whose content was purged: what is in the worktree is all that is left of it.
func OnlyCopies(r *kist.Repository, ops []worktree.Op) ([]Obstacle, error) {
	said, err := r.Purges().View()
	if err != nil || !said.AnyPurged() {
		return nil, err
	}
	var list []Obstacle
	for _, op := range ops {
		if op.Old == nil || op.New != nil && op.New.Content == op.Old.Content {
			continue
		}
		if _, purged := said.Purged(op.Old.Content); purged && r.Worktree().Exists(op.Path) {
			list = append(list, Obstacle{op.Path, "the only copy: its content was purged"})
		}
	}
	return list, nil
}

// clearPurged removes the files from the worktree that are to become others
// whose content turned out to be purged, unless they hold what is nowhere else.
// The old ones in their places would be taken for the new ones with changes.
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
		return fmt.Errorf("remove what was before: %w", err)
	}
	return nil
}

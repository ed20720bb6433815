package stage

import (
	"context"
	"fmt"
	"slices"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/worktree"
)

// addIntents notes untracked files as to be added. It is Add with [AddOptions.Intent].
func addIntents(ctx context.Context, tx *kist.Tx, idx *index.Index, o AddOptions) (*AddResult, error) {
	if err := CheckPaths(idx, o.Paths...); err != nil {
		return nil, err
	}
	found, err := tx.Repository().Worktree().Scan(ctx, idx, worktree.ScanOptions{Paths: o.Paths, IncludeIgnored: o.Force, Exclude: o.Exclude})
	if err != nil {
		return nil, err
	}
	result := &AddResult{}
	for _, f := range found {
		switch {
		case f.State == worktree.Absent:
			return nil, fmt.Errorf("path %q: %w", f.Path, kist.ErrNoMatch)
		case f.LeftOut && f.State == worktree.Untracked:
			if !f.Dir {
				result.Skipped = append(result.Skipped, object.Skipped{Path: f.Path, Reason: index.ErrLeftOut.Error()})
			}
		case f.State == worktree.Ignored:
			result.Ignored = append(result.Ignored, f.Path)
		case f.State == worktree.Special, f.State == worktree.Nested:
			result.NeverStored = append(result.NeverStored, object.Skipped{Path: f.Path, Reason: f.State.String()})
		case f.State == worktree.Untracked && !f.Dir && !idx.Intended(f.Path):
			result.Added.Add(f.Path, nil)
		}
	}
	if o.DryRun || result.Added.Len() == 0 {
		return result, nil
	}
	tx.EditIndex(idx, func(idx *index.Index) error {
		for path := range result.Added.All() {
			if Indexed(idx, path) != nil {
				continue
			}
			if err := index.SetIntent(idx, path); err != nil {
				return err
			}
		}
		return nil
	})
	return result, nil
}

// scanAll is [worktree.Worktree.Scan], but always reports files with an intent to add, even if
// o leaves out untracked or ignored files. They are Untracked, or Deleted if they are missing.
func scanAll(ctx context.Context, w *worktree.Worktree, idx *index.Index, o worktree.ScanOptions) ([]*worktree.Found, error) {
	found, err := w.Scan(ctx, idx, o)
	if err != nil {
		return nil, err
	}
	intents := slices.DeleteFunc(idx.Intents(), func(path string) bool { return !Selected(path, o.Paths) })
	if len(intents) == 0 {
		return found, nil
	}

	above := map[string]bool{} // the folders with such files
	for _, path := range intents {
		for dir, _ := tree.Split(path); dir != ""; dir, _ = tree.Split(dir) {
			above[dir] = true
		}
	}
	if o.CollapseUntracked {
		if found, err = expand(ctx, w, idx, found, above); err != nil {
			return nil, err
		}
	}

	list, err := w.Scan(ctx, idx, worktree.ScanOptions{Paths: intents, IncludeIgnored: true})
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(f *worktree.Found) bool { return f.Dir && o.CollapseUntracked })
	for i, f := range list {
		if f.State == worktree.Absent {
			list[i] = &worktree.Found{Path: f.Path, State: worktree.Deleted}
		}
	}
	list = append(list, found...)
	slices.SortStableFunc(list, func(a, b *worktree.Found) int { return tree.ComparePaths(a.Path, b.Path) })
	return slices.CompactFunc(list, func(a, b *worktree.Found) bool { return a.Path == b.Path }), nil
}

// expand lists the untracked paths in place of untracked folders that have files to be added.
func expand(ctx context.Context, w *worktree.Worktree, idx *index.Index, found []*worktree.Found, above map[string]bool) ([]*worktree.Found, error) {
	var out []*worktree.Found
	for _, f := range found {
		if f.State != worktree.Untracked || !f.Dir || !above[f.Path] {
			out = append(out, f)
			continue
		}
		below, err := w.Scan(ctx, idx, worktree.ScanOptions{Paths: []string{f.Path}})
		if err != nil {
			return nil, err
		}
		shown := "" // an untracked folder, shown without its content
		for _, b := range below {
			if above[b.Path] || shown != "" && tree.Below(b.Path, shown) {
				continue
			}
			if b.Dir {
				shown = b.Path
			}
			out = append(out, b)
		}
	}
	return out, nil
}

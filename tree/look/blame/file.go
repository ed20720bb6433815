package blame

import (
	"context"
	"errors"
	"fmt"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/look/compare"
	"github.com/kist-vcs/kist/tree/work/operation"
	"github.com/kist-vcs/kist/tree/work/stage"
)

// ErrNotFile is the error for a folder or another entry that is no file.
var ErrNotFile = errors.New("not a file")

// Committed returns the file of a commit.
func Committed(ctx context.Context, r *kist.Repository, commit object.ID, path string) (*File, error) {
	v, err := compare.OfCommit(ctx, r, commit.String())
	if err != nil {
		return nil, err
	}
	return findFile(ctx, v, FileInCommit{commit, path})
}

// findFile returns the file of a view.
func findFile(ctx context.Context, v compare.Side, at FileInCommit) (*File, error) {
	f := &File{FileInCommit: at, View: v}
	var err error
	if f.Entry, err = v.Find(ctx, at.Path); err == nil && f.Entry.Type != object.TypeFile {
		err = fmt.Errorf("path %q: %w", at.Path, ErrNotFile)
	}
	return f, err
}

// InWorktree returns the file as it is in the worktree. If its content is that of HEAD, the
// result is the file of HEAD.
func InWorktree(ctx context.Context, r *kist.Repository, path string) (*File, error) {
	head, _, err := compare.HeadCommit(ctx, r)
	if err != nil {
		return nil, err
	}
	v, err := stage.WorktreeView(ctx, r, []string{path})
	if err != nil {
		return nil, err
	}
	f, err := findFile(ctx, v, FileInCommit{Path: path})
	if err != nil {
		return nil, err
	}

	staged, err := compare.OfIndex(ctx, r)
	if err != nil {
		return nil, err
	}
	parents := []object.ID{head.ID}
	state, err := operation.Current(r)
	if err != nil {
		return nil, err
	}
	if state.Operation == operation.Merging {
		parents = append(parents, state.Other)
	}
	for i, parent := range parents {
		before, err := compare.OfCommit(ctx, r, parent.String())
		if err != nil {
			return nil, err
		}
		from, err := FormerPath(ctx, before, staged, path)
		if err != nil {
			return nil, err
		}
		if from == "" {
			continue
		}
		old, err := before.Find(ctx, from)
		if err != nil {
			return nil, err
		}
		if i == 0 && from == path && tree.ContentID(&old) == tree.ContentID(&f.Entry) && old.Type == object.TypeFile {
			return Committed(ctx, r, parent, path)
		}
		f.Parents = append(f.Parents, FileInCommit{parent, from})
	}
	return f, nil
}

// FormerPath returns the path in before of the file that is at path in now, or "" if the
// file is new.
func FormerPath(ctx context.Context, before, now compare.Side, path string) (string, error) {
	_, err := before.Find(ctx, path)
	if err == nil || object.PassOver(before.Objects, path, object.Key{}, err) {
		return path, nil
	}
	if !errors.Is(err, tree.ErrNotExist) && !errors.Is(err, tree.ErrNotDir) {
		return "", err
	}
	changes, err := compare.Diff(ctx, before, now, nil, true)
	for _, c := range changes {
		if c.Path == path {
			return c.From, err
		}
	}
	return "", err
}

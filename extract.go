package kist

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/worktree"
)

// ErrInsideRepository says that a folder to write to lies in a .kist folder.
var ErrInsideRepository = errors.New("inside a .kist folder")

// Extract writes paths of a view below another folder, which is made if it is
// absent, with the modification times that were recorded. Files that are there
// and differ are a [*LocalChangesError] unless forced; nothing is removed. If
// only some paths cannot be written, all others are, and the error is a
// [*worktree.ApplyError]. It returns how many files there are.
func (r *Repository) Extract(ctx context.Context, source View, paths []string, to string, force bool, progress Progress) (Amount, error) {
	var ops []worktree.Op
	for _, path := range paths {
		list, err := source.opsAt(ctx, path)
		if err != nil {
			return Amount{}, err
		}
		ops = append(ops, list...)
	}
	if err := outsideRepository(to); err != nil {
		return Amount{}, err
	}
	if err := os.MkdirAll(to, 0o777); err != nil {
		return Amount{}, err
	}
	w, err := r.openWorktree(to)
	if err != nil {
		return Amount{}, err
	}
	if !force {
		found, err := w.Check(ctx, nil, ops)
		if err != nil {
			return Amount{}, err
		}
		if err := obstacleError(r.obstacles(nil, found)); err != nil {
			return Amount{}, err
		}
	}
	applied, err := w.Apply(ctx, source.Objects, ops, worktree.ApplyOptions{RestoreTimes: true, Progress: applyProgress(ops, progress)})
	var wrote Amount
	for _, a := range applied {
		if a.New.Type != object.TypeDir {
			wrote.Files++
			wrote.Bytes += int64(a.New.Size)
		}
	}
	return wrote, err
}

// opsAt returns what makes path as it is in a view, with the folders that lead
// to it and all that is below it.
func (v View) opsAt(ctx context.Context, path string) ([]worktree.Op, error) {
	e, err := v.find(ctx, path)
	if errors.Is(err, tree.ErrNotExist) || errors.Is(err, tree.ErrNotDir) {
		return nil, fmt.Errorf("path %q: %w", path, ErrNoMatch)
	}
	if err != nil {
		return nil, err
	}
	var ops []worktree.Op
	for i, c := range path {
		if c != '/' {
			continue
		}
		dir, err := v.find(ctx, path[:i])
		if err != nil {
			return nil, err
		}
		ops = append(ops, worktree.Op{Path: path[:i], New: &dir})
	}
	if path != "" {
		ops = append(ops, worktree.Op{Path: path, New: &e})
	}
	if e.Type != object.TypeDir || e.Content.ID.IsZero() {
		return ops, nil
	}
	err = tree.Walk(ctx, v.Objects, e.Content.ID, func(below string, e object.Entry) error {
		ops = append(ops, worktree.Op{Path: tree.Join(path, below), New: &e})
		return nil
	})
	return ops, err
}

// outsideRepository makes sure that a folder, which need not exist, is not in a
// .kist folder.
func outsideRepository(dir string) error {
	full, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	// What does not exist has no symlinks.
	for at := full; ; at = filepath.Dir(at) {
		if real, err := filepath.EvalSymlinks(at); err == nil {
			full = filepath.Join(real, strings.TrimPrefix(full, at))
			break
		}
		if at == filepath.Dir(at) {
			break
		}
	}
	for at := full; at != filepath.Dir(at); at = filepath.Dir(at) {
		if filepath.Base(at) == Dir {
			return fmt.Errorf("%q is %w", dir, ErrInsideRepository)
		}
	}
	return nil
}

// find returns the entry at path, of the root itself if path is "".
func (v View) find(ctx context.Context, path string) (object.Entry, error) {
	if path == "" {
		return object.Entry{Type: object.TypeDir, Mode: 0o755, Content: object.Key{Kind: object.KindTree, ID: v.Tree}}, nil
	}
	if v.Tree.IsZero() {
		return object.Entry{}, fmt.Errorf("path %q: %w", path, tree.ErrNotExist)
	}
	return tree.Find(ctx, v.Objects, v.Tree, path)
}

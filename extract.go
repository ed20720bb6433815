package kist

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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
// [*worktree.ApplyError]: a folder that is damaged or missing is one such path.
// It returns how many files there are.
func (r *Repository) Extract(ctx context.Context, source View, paths []string, to string, force bool, progress Progress) (Amount, error) {
	var ops []worktree.Op
	var lost []worktree.Failed
	for _, path := range paths {
		list, unread, err := source.opsAt(ctx, path)
		if err != nil {
			return Amount{}, err
		}
		ops, lost = append(ops, list...), append(lost, unread...)
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
	return wrote, withLost(err, lost)
}

// withLost adds folders that could not be read to what could not be written.
func withLost(err error, lost []worktree.Failed) error {
	var failed *worktree.ApplyError
	if len(lost) == 0 || err != nil && !errors.As(err, &failed) {
		return err
	}
	all := &worktree.ApplyError{Failed: lost}
	if failed != nil {
		all.Failed, all.Stopped = append(all.Failed, failed.Failed...), failed.Stopped
	}
	slices.SortStableFunc(all.Failed, func(a, b worktree.Failed) int { return tree.ComparePaths(a.Path, b.Path) })
	return all
}

// opsAt returns what makes path as it is in a view, with the folders that lead
// to it and all that is below it, and the folders below it that are damaged or
// missing.
func (v View) opsAt(ctx context.Context, path string) (ops []worktree.Op, lost []worktree.Failed, err error) {
	e, err := v.find(ctx, path)
	if errors.Is(err, tree.ErrNotExist) || errors.Is(err, tree.ErrNotDir) {
		return nil, nil, fmt.Errorf("path %q: %w", path, ErrNoMatch)
	}
	if err != nil {
		return nil, nil, err
	}
	for i, c := range path {
		if c != '/' {
			continue
		}
		dir, err := v.find(ctx, path[:i])
		if err != nil {
			return nil, nil, err
		}
		ops = append(ops, worktree.Op{Path: path[:i], New: &dir})
	}
	if path != "" {
		ops = append(ops, worktree.Op{Path: path, New: &e})
	}
	if e.Type != object.TypeDir || e.Content.ID.IsZero() {
		return ops, nil, nil
	}
	n := len(ops)
	add := func(below string, e object.Entry) error {
		ops = append(ops, worktree.Op{Path: tree.Join(path, below), New: &e})
		return nil
	}
	if err = tree.Walk(ctx, v.Objects, e.Content.ID, add); !isLost(err) {
		return ops, nil, err
	}
	// Begin again, and look at each folder before it is read.
	ops = ops[:n]
	err = tree.WalkInto(ctx, v.Objects, e.Content.ID, func(below string, node object.ID) (bool, error) {
		_, err := object.ReadTree(ctx, v.Objects, node)
		at := tree.Join(path, below)
		if !isLost(err) || at == "" { // of that nothing can be written
			return err == nil, err
		}
		lost = append(lost, worktree.Failed{Path: at, Err: err})
		return false, nil
	}, add)
	return ops, lost, err
}

// isLost reports whether an error says that an object is damaged or missing.
func isLost(err error) bool {
	return errors.Is(err, object.ErrNotFound) || errors.Is(err, object.ErrCorrupt)
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

package checkout

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree/stage"
	"github.com/kist-vcs/kist/tree/view"
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
func Extract(ctx context.Context, r *kist.Repository, source view.View, paths []string, to string, force bool, progress kist.Progress) (kist.Amount, error) {
	var ops []worktree.Op
	var lost []worktree.Failed
	for _, path := range paths {
		list, unread, err := source.OpsAt(ctx, path)
		if err != nil {
			return kist.Amount{}, err
		}
		ops, lost = append(ops, list...), append(lost, unread...)
	}
	if err := outsideRepository(to); err != nil {
		return kist.Amount{}, err
	}
	if err := os.MkdirAll(to, 0o777); err != nil {
		return kist.Amount{}, err
	}
	w, err := r.OpenWorktree(to)
	if err != nil {
		return kist.Amount{}, err
	}
	if !force {
		found, err := w.Check(ctx, nil, ops)
		if err != nil {
			return kist.Amount{}, err
		}
		if err := stage.ObstacleError(stage.Obstacles(r, nil, found)); err != nil {
			return kist.Amount{}, err
		}
	}
	applied, err := w.Apply(ctx, source.Objects, ops, worktree.ApplyOptions{RestoreTimes: true, Progress: stage.ApplyProgress(ops, progress)})
	var wrote kist.Amount
	for _, a := range applied {
		if a.New.Type != object.TypeDir {
			wrote.Files++
			wrote.Bytes += int64(a.New.Size)
		}
	}
	return wrote, view.WithFailed(err, lost)
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
		if filepath.Base(at) == kist.Dir {
			return fmt.Errorf("%q is %w", dir, ErrInsideRepository)
		}
	}
	return nil
}

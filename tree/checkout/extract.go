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

// ErrInsideRepository means that the target folder lies in a .kist folder.
var ErrInsideRepository = errors.New("inside a .kist folder")

// ExtractOptions configure [Extract].
type ExtractOptions struct {
	Paths    []string // paths of the view
	To       string   // a folder; created if missing
	Force    bool     // overwrite files that differ
	Progress kist.Progress
}

// Extract writes paths of a view below another folder, with their recorded
// modification times, and returns the amount written. It removes nothing. A file
// there that differs is a [*stage.LocalChangesError], except with o.Force. If only
// some paths cannot be written, or their folder is damaged or missing, it writes
// all others and returns a [*worktree.ApplyError].
func Extract(ctx context.Context, r *kist.Repository, source view.View, o ExtractOptions) (kist.Amount, error) {
	var ops []worktree.Op
	var lost []worktree.Failed
	for _, path := range o.Paths {
		list, unread, err := source.OpsAt(ctx, path)
		if err != nil {
			return kist.Amount{}, err
		}
		ops, lost = append(ops, list...), append(lost, unread...)
	}
	if err := OutsideRepository(o.To); err != nil {
		return kist.Amount{}, err
	}
	if err := os.MkdirAll(o.To, 0o777); err != nil {
		return kist.Amount{}, err
	}

	w, err := r.OpenWorktree(o.To)
	if err != nil {
		return kist.Amount{}, err
	}
	if !o.Force {
		found, err := w.Check(ctx, nil, ops)
		if err != nil {
			return kist.Amount{}, err
		}
		if err := stage.ObstacleError(stage.Obstacles(r, nil, found)); err != nil {
			return kist.Amount{}, err
		}
	}

	applied, err := w.Apply(ctx, source.Objects, ops, worktree.ApplyOptions{RestoreTimes: true, Progress: stage.ApplyProgress(ops, o.Progress)})
	var wrote kist.Amount
	for _, a := range applied {
		if a.New.Type != object.TypeDir {
			wrote.Files++
			wrote.Bytes += int64(a.New.Size)
		}
	}

	return wrote, view.WithFailed(err, lost)
}

// OutsideRepository makes sure that a path does not lie in a .kist folder.
// Nothing need exist at the path.
func OutsideRepository(dir string) error {
	full, err := filepath.Abs(dir)
	if err != nil {
		return err
	}

	// Resolve the symlinks of the existing part of the path.
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

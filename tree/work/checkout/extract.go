package checkout

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"slices"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/look/compare"
	"github.com/kist-vcs/kist/tree/work/stage"
	"github.com/kist-vcs/kist/tree/worktree"
)

// ErrInsideRepository means that the target folder lies in a .kist folder or a bare
// repository.
var ErrInsideRepository = errors.New("inside a repository's own folder")

// ExtractOptions configure [Extract].
type ExtractOptions struct {
	Paths []string // paths of the view
	To    string   // a folder; created if missing

	// Root has the properties that To gets if it is created. Nil: the usual ones.
	Root *object.Entry

	// Select reports whether to write a path. Folders that lead to
	// written paths are written, too. Nil: all are written.
	Select func(path string, isDir bool) bool

	// Metadata restores everything that the view records. Nil: only what a checkout writes,
	// and the times.
	Metadata *worktree.FullMetadata

	// Xattrs selects extended attributes, as [worktree.Options].
	Xattrs func(name string) bool

	Git       bool // also write git's own folders
	Refuse    bool // return a [*stage.LocalChangesError] if a different file exists
	Overwrite worktree.Overwrite
	Delete    bool // remove everything below Paths that the view does not have
	Verify    bool // read the written files back
	DryRun    bool // change nothing
	Progress  kist.Progress
}

// Extracted is the result of [Extract].
type Extracted struct {
	kist.Amount               // files written
	Ops         []worktree.Op // the operations carried out or, in a dry run, planned; sorted by path
}

// ErrNotVerified is the error for a written file whose bytes on disk are not its content.
var ErrNotVerified = errors.New("has other bytes after it was written")

// Extract writes paths of a view below another folder, with their recorded modification
// times. Files that are the same already stay untouched, so it can be repeated. Existing folders
// above the paths keep their properties. If some
// paths cannot be written, or their folder is damaged or missing, it writes all others and
// returns a [*worktree.ApplyError]. A dry run makes the same checks and returns the same errors,
// as far as they are known before files are written.
func Extract(ctx context.Context, r *kist.Repository, source compare.Side, o ExtractOptions) (*Extracted, error) {
	ops, lost, err := selectedOps(ctx, source, o)
	if err != nil {
		return nil, err
	}
	if err := OutsideRepository(o.To); err != nil {
		return nil, err
	}

	to, err := openTarget(r, o)
	if err != nil {
		return nil, err
	}
	if o.Refuse {
		if err := refuseDifferent(ctx, r, to.w, ops); err != nil {
			return nil, err
		}
	}
	result := &Extracted{}
	how := worktree.ApplyOptions{RestoreTimes: true, Metadata: o.Metadata}
	if result.Ops, err = to.w.Pending(ctx, ops, o.Overwrite, how); err != nil {
		return nil, err
	}
	if o.Delete {
		surplus, err := findSurplus(ctx, to.w, ops, lost, o)
		if err != nil {
			return nil, err
		}
		result.Ops = append(result.Ops, surplus...)
		slices.SortStableFunc(result.Ops, func(a, b worktree.Op) int { return tree.ComparePaths(a.Path, b.Path) })
	}
	if o.DryRun {
		return result, compare.WithFailed(nil, append(lost, result.dropGit(to.w, o)...))
	}

	how.Progress = stage.ApplyProgress(result.Ops, o.Progress)
	applied, err := to.w.Apply(ctx, source.Objects, result.Ops, how)
	for _, a := range applied {
		if a.New != nil && a.New.Type != object.TypeDir {
			result.Files++
			result.Bytes += int64(a.New.Size)
		}
	}
	if o.Verify && ctx.Err() == nil {
		lost = append(lost, verifyWritten(ctx, to.w, applied)...)
	}
	if finishErr := to.finishFolder(ctx, r, o, how); finishErr != nil {
		lost = append(lost, worktree.FailedPath{Err: finishErr})
	}

	return result, compare.WithFailed(err, lost)
}

// dropGit removes the operations that Apply will refuse from the plan. It returns their folders
// of git, with the reason.
func (e *Extracted) dropGit(w *worktree.Worktree, o ExtractOptions) (failed []worktree.FailedPath) {
	e.Ops = slices.DeleteFunc(slices.Clone(e.Ops), func(op worktree.Op) bool {
		err := w.MayWrite(op.Path)
		if err == nil || o.Git {
			return false
		}
		failed = append(failed, worktree.FailedPath{Path: tree.GitFolder(op.Path), Err: err})
		return true
	})
	return slices.CompactFunc(failed, func(a, b worktree.FailedPath) bool { return a.Path == b.Path })
}

// refuseDifferent returns a [*stage.LocalChangesError] if ops would replace anything that
// differs.
func refuseDifferent(ctx context.Context, r *kist.Repository, w *worktree.Worktree, ops []worktree.Op) error {
	found, err := w.Check(ctx, nil, ops)
	if err != nil {
		return err
	}
	different := stage.Obstacles(r, nil, found)
	for i := range different {
		different[i].Reason = "differs"
	}

	return stage.ObstacleError(different)
}

// selectedOps returns the operations that write the selected paths. Lost are the folders
// that cannot be read.
func selectedOps(ctx context.Context, source compare.Side, o ExtractOptions) (ops []worktree.Op, lost []worktree.FailedPath, err error) {
	for _, path := range o.Paths {
		list, unread, err := source.OpsAt(ctx, path)
		if err != nil {
			return nil, nil, err
		}
		ops, lost = append(ops, list...), append(lost, unread...)
	}

	for i, op := range ops {
		ops[i].Above = !slices.ContainsFunc(o.Paths, func(path string) bool { return tree.Below(op.Path, path) })
	}
	if o.Select == nil {
		return ops, lost, nil
	}

	folders := map[string]bool{} // that lead to selected paths
	for _, op := range ops {
		if !o.Select(op.Path, op.New.Type == object.TypeDir) {
			continue
		}
		for dir, _ := tree.Split(op.Path); dir != "" && !folders[dir]; dir, _ = tree.Split(dir) {
			folders[dir] = true
		}
	}

	selected := ops[:0]
	for _, op := range ops {
		isDir := op.New.Type == object.TypeDir
		switch {
		case o.Select(op.Path, isDir):
			selected = append(selected, op)
		case isDir && folders[op.Path]:
			op.Above = true
			selected = append(selected, op)
		}
	}
	return selected, lost, nil
}

// findSurplus returns the operations that remove everything selected that the view does
// not have. Paths in lost folders and bare repositories stay.
func findSurplus(ctx context.Context, w *worktree.Worktree, ops []worktree.Op, lost []worktree.FailedPath, o ExtractOptions) (list []worktree.Op, err error) {
	wanted := make(map[string]bool, len(ops)) // whether it is a folder
	for _, op := range ops {
		wanted[op.Path] = op.New.Type == object.TypeDir
	}

	unread := map[string]bool{}
	for _, f := range lost {
		unread[f.Path] = true
	}

	keep := func(path string, isDir bool) worktree.Keep {
		folder, known := wanted[path]
		switch {
		case unread[path], isDir && kist.IsBareDir(filepath.Join(o.To, filepath.FromSlash(path))):
			return worktree.KeepAll
		case known && (folder || !isDir):
			return worktree.KeepFolder
		case known || o.Select == nil || o.Select(path, isDir):
			return worktree.KeepNothing
		case isDir:
			return worktree.KeepFolder // it may have selected paths
		}
		return worktree.KeepAll
	}

	for _, path := range stage.Outermost(o.Paths) {
		if path != "" && !wanted[path] {
			continue
		}
		below, err := w.Surplus(ctx, path, keep)
		if err != nil {
			return nil, err
		}
		list = append(list, below...)
	}

	return list, nil
}

// verifyWritten returns the files that differ from their entries after they were written.
func verifyWritten(ctx context.Context, w *worktree.Worktree, applied []worktree.Applied) (bad []worktree.FailedPath) {
	var ops []worktree.Op
	for _, a := range applied {
		if a.New != nil && a.New.Type != object.TypeDir {
			ops = append(ops, worktree.Op{Path: a.Path, New: a.New})
		}
	}

	found, err := w.Check(ctx, nil, ops)
	if err != nil {
		return nil // cancelled, which Apply's caller sees
	}
	for _, f := range found {
		bad = append(bad, worktree.FailedPath{Path: f.Path, Err: cmp.Or(f.Err, ErrNotVerified)})
	}

	return bad
}

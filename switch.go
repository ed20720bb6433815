package kist

import (
	"context"
	"errors"
	"fmt"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/worktree"
)

// ErrLocalChanges is matched by every [*LocalChangesError].
var ErrLocalChanges = errors.New("local changes would be lost")

// LocalChangesError says that an operation was not begun because it would
// overwrite what exists in the worktree or the index alone.
type LocalChangesError struct{ Obstacles []Obstacle }

// Obstacle is a path in the way, and why.
type Obstacle struct{ Path, Reason string }

func (e *LocalChangesError) Error() string {
	if len(e.Obstacles) == 1 {
		return fmt.Sprintf("%v: %q: %s", ErrLocalChanges, e.Obstacles[0].Path, e.Obstacles[0].Reason)
	}
	return fmt.Sprintf("%v: %d paths", ErrLocalChanges, len(e.Obstacles))
}

// Is makes errors.Is(err, ErrLocalChanges) true.
func (e *LocalChangesError) Is(target error) bool { return target == ErrLocalChanges }

// switchTree brings worktree and index from one tree, HEAD's, to another, and
// then publishes what comes with it: HEAD on its new commit. What is staged or
// changed at paths that are equal in both trees stays. With force, what is
// staged or changed is given up.
//
// Killed at any moment, it leaves each file old or new, and can be run again:
// a file that is as it is to be is in nobody's way.
func (r *Repository) switchTree(ctx context.Context, from, to object.ID, force bool, progress Progress, publish func(ctx context.Context) error) error {
	idx, err := r.Index()
	if err != nil {
		return err
	}
	var ops []worktree.Op
	if force {
		ops, err = r.forceOps(ctx, idx, View{Tree: to, Objects: r.objects}, nil)
	} else {
		ops, err = r.switchOps(ctx, idx, from, to)
	}
	if err != nil {
		return err
	}
	return r.applyOps(ctx, idx, ops, applyOptions{force: force, progress: progress, publish: publish})
}

// switchOps returns what leads from one tree to another, given that the index
// has nothing else staged where they differ.
func (r *Repository) switchOps(ctx context.Context, idx *index.Index, from, to object.ID) ([]worktree.Op, error) {
	var ops []worktree.Op
	var inTheWay []Obstacle
	for c, err := range tree.Diff(ctx, r.objects, from, to, tree.DiffOptions{Recursive: true, Paired: true}) {
		if err != nil {
			return nil, err
		}
		if _, ok := idx.Conflict(c.Path); ok {
			inTheWay = append(inTheWay, Obstacle{c.Path, "unresolved conflict"})
			continue
		}
		have := indexed(idx, c.Path)
		switch {
		case sameEntry(have, c.Old):
			ops = append(ops, worktree.Op{Path: c.Path, Old: idx.Entry(c.Path), New: c.New})
		case sameEntry(have, c.New):
		case have == nil && c.New == nil:
		default:
			inTheWay = append(inTheWay, Obstacle{c.Path, "a change is staged"})
		}
	}
	if len(inTheWay) > 0 {
		return nil, &LocalChangesError{inTheWay}
	}
	return ops, nil
}

// indexed returns what the index has at path as a tree would hold it, nil if
// it has nothing. Of a directory only type and mode are told.
func indexed(idx *index.Index, path string) *object.Entry {
	if e := idx.Entry(path); e != nil {
		o := e.Object()
		return &o
	}
	if d := idx.Dir(path); d != nil {
		return &object.Entry{Name: d.Name(), Type: object.TypeDir, Mode: d.Mode()}
	}
	return nil
}

// sameEntry reports whether two entries are the same. What is below
// directories is told apart by its own paths.
func sameEntry(a, b *object.Entry) bool {
	if a != nil && b != nil && a.Type == object.TypeDir && b.Type == object.TypeDir {
		return a.Mode == b.Mode
	}
	return tree.ContentEqual(a, b)
}

// forceOps returns what makes index and worktree equal to a tree at the given
// paths (nil: all), whatever they hold now. Untracked files stay, unless they
// are where a file is to be.
func (r *Repository) forceOps(ctx context.Context, idx *index.Index, to View, paths []string) ([]worktree.Op, error) {
	from, err := r.viewIndex(ctx, idx)
	if err != nil {
		return nil, err
	}
	changes, err := diff(ctx, from, to, tree.DiffOptions{Paths: paths, Recursive: true})
	if err != nil {
		return nil, err
	}
	var ops []worktree.Op
	planned := map[string]bool{}
	for _, c := range changes {
		planned[c.Path] = true
		ops = append(ops, worktree.Op{Path: c.Path, Old: idx.Entry(c.Path), New: c.New})
	}
	found, err := r.worktree.Scan(ctx, idx, worktree.ScanOptions{Paths: paths, NoUntracked: true})
	if err != nil {
		return nil, err
	}
	for _, f := range found {
		if planned[f.Path] {
			continue
		}
		e, err := tree.Find(ctx, to.Objects, to.Tree, f.Path)
		if errors.Is(err, tree.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		ops = append(ops, worktree.Op{Path: f.Path, Old: f.Old, New: &e})
	}
	return ops, nil
}

// checkOps makes sure that ops destroy nothing that exists in the worktree alone.
func (r *Repository) checkOps(ctx context.Context, idx *index.Index, ops []worktree.Op) error {
	obstacles, err := r.worktree.Check(ctx, idx, ops)
	return obstacleError(obstacles, err)
}

func obstacleError(obstacles []worktree.Obstacle, err error) error {
	if err != nil || len(obstacles) == 0 {
		return err
	}
	e := &LocalChangesError{}
	for _, o := range obstacles {
		e.Obstacles = append(e.Obstacles, Obstacle{o.Path, o.Reason.String()})
	}
	return e
}

// applyOptions say how [Repository.applyOps] goes about it.
type applyOptions struct {
	force    bool // whatever is in the way
	unstaged bool // leave the index as it is
	progress Progress
	edit     func(idx *index.Index) error    // what else happens to the index, if all went well
	publish  func(ctx context.Context) error // what then is published, if all went well
}

// applyOps carries out ops in the worktree and stages them. Unless forced, it
// first makes sure that nothing is lost.
func (r *Repository) applyOps(ctx context.Context, idx *index.Index, ops []worktree.Op, o applyOptions) error {
	if !o.force {
		if err := r.checkOps(ctx, idx, ops); err != nil {
			return err
		}
	}
	applied, applyErr := r.worktree.Apply(ctx, r.objects, ops, worktree.ApplyOptions{Progress: applyProgress(ops, o.progress)})
	// What was written is staged even if not all of it could be.
	ctx = context.WithoutCancel(ctx)
	err := r.publish(ctx, func(ctx context.Context) error {
		err := index.Update(ctx, r.dir, func(idx *index.Index) error {
			if !o.unstaged {
				if err := stageApplied(idx, applied); err != nil {
					return err
				}
			}
			if o.edit != nil && applyErr == nil {
				return o.edit(idx)
			}
			return nil
		})
		if err != nil || applyErr != nil || o.publish == nil {
			return err
		}
		return o.publish(ctx)
	})
	return errors.Join(applyErr, err)
}

// stageApplied stages what was written to the worktree.
func stageApplied(idx *index.Index, applied []worktree.Applied) error {
	for _, a := range applied {
		var err error
		switch {
		case a.Entry.Type == 0: // removed
			idx.Remove(a.Path)
		case a.Entry.Type == object.TypeDir:
			err = idx.SetDir(a.Path, a.Entry.Mode)
		default:
			err = idx.Set(a.Path, index.NewEntry(a.Entry, a.Stat))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// applyProgress turns a worktree's progress into one that knows the total.
func applyProgress(ops []worktree.Op, progress Progress) func(files, bytes int64) {
	if progress == nil {
		return nil
	}
	var total Amount
	for _, op := range ops {
		if op.New != nil && op.New.Type != object.TypeDir {
			total.Files++
			total.Bytes += int64(op.New.Size)
		}
	}
	return func(files, bytes int64) { progress(Amount{files, bytes}, total) }
}

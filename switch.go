package kist

import (
	"context"
	"errors"
	"fmt"
	"slices"

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

// tip is a commit and its tree; zero if there is none yet.
type tip struct{ commit, tree object.ID }

// switchTree brings worktree and index from one tree, HEAD's, to another, and
// then publishes what comes with it: HEAD on its new commit. What is staged or
// changed at paths that are equal in both trees stays. With force, what is
// staged or changed is given up.
//
// Killed at any moment, it leaves each file old or new, and can be run again:
// a file that is as it is to be is in nobody's way.
func (r *Repository) switchTree(ctx context.Context, from, to tip, force bool, progress Progress, publish func(ctx context.Context) error) error {
	load := r.Index
	if force { // even if the index was lost
		load = func() (*index.Index, error) { return index.Load(r.dir) }
	}
	idx, err := load()
	if err != nil {
		return err
	}
	o := applyOptions{progress: progress, replaces: true, publish: publish, needs: []object.ID{from.commit, to.commit}}
	switch {
	case force:
		o.needs = []object.ID{to.commit}
	case from == to:
		o.needs = nil
	}
	var ops []worktree.Op
	var inTheWay []Obstacle
	if force {
		o.edit = clearNotes
		ops, o.unchanged, err = r.forceOps(ctx, idx, View{Tree: to.tree, Objects: r.Contents()}, nil)
	} else {
		ops, inTheWay, err = r.switchOps(ctx, idx, from.tree, to.tree)
	}
	if err == nil && !force {
		err = r.checkOps(ctx, idx, ops, inTheWay)
	}
	if err != nil {
		return err
	}
	return r.applyOps(ctx, idx, ops, o)
}

// clearNotes makes an index hold its entries and nothing besides: no conflicts,
// and no paths that could not be read.
func clearNotes(idx *index.Index) error {
	for _, c := range slices.Clone(idx.Conflicts()) {
		idx.ClearConflict(c.Path)
	}
	for _, s := range slices.Clone(idx.Skipped()) {
		idx.ClearSkipped(s.Path)
	}
	return nil
}

// switchOps returns what leads from one tree to another, and the paths where
// they differ and the index has something else staged.
func (r *Repository) switchOps(ctx context.Context, idx *index.Index, from, to object.ID) ([]worktree.Op, []Obstacle, error) {
	var ops []worktree.Op
	var inTheWay []Obstacle
	replaced := false // a folder becomes something else
	for c, err := range tree.Diff(ctx, r.objects, from, to, tree.DiffOptions{Recursive: true, Paired: true}) {
		if err != nil {
			return nil, nil, err
		}
		if _, ok := idx.Conflict(c.Path); ok {
			inTheWay = append(inTheWay, Obstacle{c.Path, "unresolved conflict"})
			continue
		}
		have := indexed(idx, c.Path)
		switch {
		case sameEntry(have, c.Old):
			ops = append(ops, worktree.Op{Path: c.Path, Old: idx.Entry(c.Path), New: c.New})
			replaced = replaced || isFolder(c.Old) && c.New != nil && !isFolder(c.New)
		case sameEntry(have, c.New):
		case c.New == nil && isFolder(have) != isFolder(c.Old): // what is removed is not staged any more
		default:
			inTheWay = append(inTheWay, Obstacle{c.Path, stagedReason})
		}
	}
	if replaced {
		inTheWay = append(inTheWay, stagedBelow(idx, ops)...)
	}
	return ops, append(inTheWay, stagedAbove(idx, ops)...), nil
}

// stagedAbove returns what is staged, and does not become a folder, where ops need
// one.
func stagedAbove(idx *index.Index, ops []worktree.Op) []Obstacle {
	folders := map[string]bool{} // that are files yet
	var inTheWay []Obstacle
	last := ""
	for _, op := range ops {
		if op.Old != nil && isFolder(op.New) {
			folders[op.Path] = true
		}
		dir, _ := tree.Split(op.Path)
		if op.New == nil || dir == last {
			continue
		}
		for last = dir; dir != "" && idx.Dir(dir) == nil; dir, _ = tree.Split(dir) {
			if idx.Entry(dir) != nil && !folders[dir] {
				inTheWay = append(inTheWay, Obstacle{dir, stagedReason})
			}
		}
	}
	return inTheWay
}

// stagedBelow returns what is staged, and not removed, in folders that become
// something else.
func stagedBelow(idx *index.Index, ops []worktree.Op) []Obstacle {
	removed := map[string]bool{}
	for _, op := range ops {
		if op.New == nil {
			removed[op.Path] = true
		}
	}
	var inTheWay []Obstacle
	for _, op := range ops {
		d := idx.Dir(op.Path)
		if d == nil || op.New == nil || isFolder(op.New) {
			continue
		}
		for path := range d.All() {
			if !removed[path] {
				inTheWay = append(inTheWay, Obstacle{path, stagedReason})
			}
		}
	}
	return inTheWay
}

func isFolder(e *object.Entry) bool { return e != nil && e.Type == object.TypeDir }

// stagedReason is why a path is in the way at which something is staged.
const stagedReason = "a change is staged"

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
// paths (nil: all), whatever they hold now, and the files that were read and
// are equal to what is staged. Untracked files stay, unless they are where a
// file is to be.
func (r *Repository) forceOps(ctx context.Context, idx *index.Index, to View, paths []string) ([]worktree.Op, []worktree.Refreshed, error) {
	from, err := r.viewIndex(ctx, idx)
	if err != nil {
		return nil, nil, err
	}
	changes, err := diff(ctx, from, to, tree.DiffOptions{Paths: paths, Recursive: true, Paired: true})
	if err != nil {
		return nil, nil, err
	}
	var ops []worktree.Op
	planned := map[string]bool{}
	for _, c := range changes {
		planned[c.Path] = true
		ops = append(ops, worktree.Op{Path: c.Path, Old: idx.Entry(c.Path), New: c.New})
	}
	found, err := r.worktree.Scan(ctx, idx, worktree.ScanOptions{Paths: paths, NoUntracked: true})
	if err != nil {
		return nil, nil, err
	}
	found = slices.DeleteFunc(found, func(f worktree.Found) bool { return planned[f.Path] })
	// A file that is as it is to be keeps its time: builds go by it.
	found, unchanged, err := r.worktree.Confirm(ctx, found)
	if err != nil {
		return nil, nil, err
	}
	for _, f := range found {
		e, err := tree.Find(ctx, to.Objects, to.Tree, f.Path)
		if errors.Is(err, tree.ErrNotExist) || errors.Is(err, tree.ErrNotDir) {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		ops = append(ops, worktree.Op{Path: f.Path, Old: f.Old, New: &e})
	}
	return ops, unchanged, nil
}

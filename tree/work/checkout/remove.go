package checkout

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/look/compare"
	"github.com/kist-vcs/kist/tree/work/stage"
	"github.com/kist-vcs/kist/tree/worktree"
)

// RemoveOptions configure [Remove].
type RemoveOptions struct {
	Paths     []string
	Cached    bool // remove only from the index: the files stay, untracked
	Recursive bool // also remove folders with their tracked content
	Force     bool // also remove files with uncommitted changes
	DryRun    bool
}

// ErrIsDirectory is matched by the error for a folder where a file is wanted.
var ErrIsDirectory = errors.New("is a directory")

// Remove removes tracked files from the worktree and the index. It returns
// their paths, and those of empty tracked folders. A file with uncommitted
// changes is a [*stage.LocalChangesError], unless o.Force is set or another
// copy of the content remains.
func Remove(ctx context.Context, r *kist.Repository, o RemoveOptions) ([]string, error) {
	idx, err := wholeIndex(r, o.Paths)
	if err != nil {
		return nil, err
	}

	o.Paths = stage.Outermost(o.Paths)
	var removed []string
	var ops []worktree.Op
	add := func(path string, old *index.Entry) {
		removed = append(removed, path)
		if !o.Cached {
			ops = append(ops, worktree.Op{Path: path, Old: old})
		}
	}

	for _, p := range o.Paths {
		dir := idx.Dir(p)
		conflict, inConflict := idx.Conflict(p)
		switch e := idx.Entry(p); {
		case e != nil:
			add(p, e)
			continue
		case inConflict && dir == nil:
			add(p, conflictEntry(conflict))
			continue
		case idx.Intended(p):
			if err := o.checkIntended(p); err != nil {
				return nil, err
			}
			untracked := index.NewEntry(object.Entry{Type: object.TypeFile}, index.Stat{})
			add(p, &untracked)
			continue
		case dir == nil:
			return nil, fmt.Errorf("path %q: %w", p, kist.ErrNoMatch)
		case !o.Recursive:
			return nil, fmt.Errorf("path %q: %w", p, ErrIsDirectory)
		}
		for below, e := range dir.All() {
			add(below, e)
		}
		for below, d := range dir.Walk() {
			if below == "" {
				continue
			}
			ops = append(ops, worktree.Op{Path: below})
			if d.Len()+len(d.Subdirs()) == 0 {
				removed = append(removed, below)
			}
		}
	}

	slices.SortFunc(removed, tree.ComparePaths)
	if !o.Force {
		if err := checkRemoval(ctx, r, idx, ops, o); err != nil {
			return nil, err
		}
	}
	if o.DryRun {
		return removed, nil
	}

	remove := func(idx *index.Index) error {
		for _, p := range o.Paths {
			idx.Remove(p)
		}
		return nil
	}

	if o.Cached {
		return removed, r.Publish(ctx, func(tx *kist.Tx) { tx.EditIndex(idx, remove) })
	}

	return removed, stage.ApplyOps(ctx, r, idx, ops, stage.ApplyOptions{GiveUp: o.Force, Edit: remove})
}

// checkIntended refuses to remove a file that nothing has a copy of.
func (o *RemoveOptions) checkIntended(path string) error {
	if o.Cached || o.Force {
		return nil
	}
	return &stage.LocalChangesError{Obstacles: []stage.Obstacle{{Path: path, Reason: "not staged yet"}}}
}

// conflictEntry returns an entry for the file that a merge left at a conflict.
func conflictEntry(c index.Conflict) *index.Entry {
	for _, side := range []*object.Entry{c.Theirs, c.Ours, c.Base} {
		if side != nil {
			e := index.NewEntry(*side, index.Stat{})
			return &e
		}
	}
	return nil
}

// checkRemoval makes sure that the content to remove exists in HEAD's commit
// too. With Cached, a copy in the worktree is enough.
func checkRemoval(ctx context.Context, r *kist.Repository, idx *index.Index, ops []worktree.Op, o RemoveOptions) error {
	found, err := r.Worktree().Scan(ctx, idx, worktree.ScanOptions{Paths: o.Paths, NoUntracked: true})
	if err != nil {
		return err
	}
	if found, _, err = r.Worktree().Confirm(ctx, found); err != nil {
		return err
	}

	e := &stage.LocalChangesError{}
	if e.Obstacles, err = stage.OnlyCopies(r, ops); err != nil {
		return err
	}

	changed, obstacles := o.findChanged(idx, found)
	e.Obstacles = append(e.Obstacles, obstacles...)

	head, err := compare.OfHead(ctx, r)
	if err != nil {
		return err
	}

	staged, err := compare.FromIndex(ctx, r, idx)
	if err != nil {
		return err
	}

	changes, err := compare.Diff(ctx, head, staged, o.Paths, false)
	if err != nil {
		return err
	}

	for _, c := range changes {
		_, conflict := idx.Conflict(c.Path)
		switch {
		case c.New == nil || c.New.Type == object.TypeDir || conflict:
		case o.Cached != changed[c.Path]: // a copy remains, or the path is in the list already
		default:
			e.Obstacles = append(e.Obstacles, stage.Obstacle{Path: c.Path, Reason: "staged, but not committed"})
		}
	}

	if len(e.Obstacles) > 0 {
		return e
	}

	return nil
}

// findChanged returns the files that differ from the index, and the obstacles among all that
// a scan found.
func (o *RemoveOptions) findChanged(idx *index.Index, found []*worktree.Found) (changed map[string]bool, obstacles []stage.Obstacle) {
	changed = map[string]bool{}
	for _, f := range found {
		if f.State == worktree.Unreadable && f.Dir && !o.Cached {
			obstacles = append(obstacles, stage.Obstacle{Path: f.Path, Reason: "a folder that cannot be read: files below it may have changed"})
		}
		if f.State == worktree.Deleted || f.State == worktree.Absent || f.Dir {
			continue
		}
		changed[f.Path] = true
		if _, conflict := idx.Conflict(f.Path); !o.Cached && !conflict {
			obstacles = append(obstacles, stage.Obstacle{Path: f.Path, Reason: "changed since it was staged"})
		}
	}

	return changed, obstacles
}

// wholeIndex returns the index after checkWhole.
func wholeIndex(r *kist.Repository, paths []string) (*index.Index, error) {
	idx, err := r.Index()
	if err == nil {
		err = checkWhole(idx, paths)
	}
	return idx, err
}

// checkWhole returns a [*index.LeftOutError] if a folder is left out of the worktree at a path, or
// above or below it.
func checkWhole(idx *index.Index, paths []string) error {
	for _, path := range paths {
		if err := stage.CheckPaths(idx, path); err != nil {
			return err
		}
		dir := idx.Dir(path)
		if dir == nil || !index.HasLeftOut(idx) {
			continue
		}
		for below, d := range dir.Walk() {
			if d.LeftOut() {
				return &index.LeftOutError{Path: path, Dir: below}
			}
		}
	}
	return nil
}

// MoveOptions configure [Move].
type MoveOptions struct {
	Sources     []string
	Destination string // the new path, or a folder to move the sources into
	Force       bool   // replace the files at the new paths
	DryRun      bool
}

// Moved is a path that was moved.
type Moved struct{ From, To string }

// Move renames tracked files and folders, in the worktree and the index. A file at
// a new path is a [*stage.LocalChangesError], except with o.Force.
func Move(ctx context.Context, r *kist.Repository, o MoveOptions) ([]Moved, error) {
	idx, err := r.Index()
	if err != nil {
		return nil, err
	}

	into := o.Destination == "" || r.Worktree().IsDir(o.Destination)
	if len(o.Sources) > 1 && !into {
		return nil, fmt.Errorf("path %q is not a directory", o.Destination)
	}

	var moves []Moved
	for _, from := range o.Sources {
		m := Moved{from, o.Destination}
		if into {
			m.To = path.Join(o.Destination, path.Base(from))
		}
		if err := checkMove(r, idx, m, moves); err != nil {
			return nil, err
		}
		if !o.Force && (holdsFiles(idx, m.To) || r.Worktree().Exists(m.To)) {
			return nil, &stage.LocalChangesError{Obstacles: []stage.Obstacle{{Path: m.To, Reason: "is in the way"}}}
		}
		moves = append(moves, m)
	}

	if o.DryRun {
		return moves, nil
	}

	for i, m := range moves {
		err := ctx.Err()
		if err == nil {
			err = r.Worktree().Rename(m.From, m.To)
		}
		if err != nil {
			return moves[:i], errors.Join(err, stageMoves(ctx, r, idx, moves[:i]))
		}
	}

	return moves, stageMoves(ctx, r, idx, moves)
}

// holdsFiles reports whether path is a tracked file, or a folder with some.
func holdsFiles(idx *index.Index, path string) bool {
	if idx.Entry(path) != nil {
		return true
	}
	if d := idx.Dir(path); d != nil {
		for range d.All() {
			return true
		}
	}
	return false
}

// checkMove returns an error if m is impossible, by itself or after others.
func checkMove(r *kist.Repository, idx *index.Index, m Moved, others []Moved) error {
	dir := path.Dir(m.To)
	if err := stage.CheckPaths(idx, m.From, m.To); err != nil {
		return err
	}
	switch {
	case m.From == "":
		return errors.New("the root of the worktree cannot be moved")
	case r.Worktree().MayWrite(m.From) != nil:
		return fmt.Errorf("path %q: %w", m.From, r.Worktree().MayWrite(m.From))
	case r.Worktree().MayWrite(m.To) != nil:
		return fmt.Errorf("path %q: %w", m.To, r.Worktree().MayWrite(m.To))
	case stage.Indexed(idx, m.From) == nil:
		return fmt.Errorf("path %q: %w", m.From, kist.ErrNoMatch)
	case tree.Below(m.To, m.From):
		return fmt.Errorf("path %q cannot be moved into itself, to %q", m.From, m.To)
	case !r.Worktree().Exists(m.From):
		return fmt.Errorf("path %q is not in the worktree", m.From)
	case dir != "." && !r.Worktree().IsDir(dir):
		return fmt.Errorf("there is no folder %q", dir)
	case slices.ContainsFunc(others, func(o Moved) bool { return o.To == m.To }):
		return fmt.Errorf("two paths cannot both be moved to %q", m.To)
	case slices.ContainsFunc(others, func(o Moved) bool { return tree.Below(m.From, o.From) || tree.Below(o.From, m.From) }):
		return fmt.Errorf("path %q cannot be moved twice", m.From)
	}

	return nil
}

// stageMoves repeats the moves in the index, even if the command was
// interrupted meanwhile.
func stageMoves(ctx context.Context, r *kist.Repository, idx *index.Index, moves []Moved) error {
	var paths []string
	for _, m := range moves {
		paths = append(paths, m.To)
	}
	return r.Publish(context.WithoutCancel(ctx), func(tx *kist.Tx) {
		tx.EditIndex(idx, func(idx *index.Index) error {
			for _, m := range moves {
				if err := idx.Move(m.From, m.To); err != nil {
					return err
				}
			}
			stage.RecordMoved(context.WithoutCancel(ctx), r, idx, paths)
			return nil
		})
	})
}

package checkout

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/stage"
	"github.com/kist-vcs/kist/tree/view"
	"github.com/kist-vcs/kist/tree/worktree"
)

// RemoveOptions say what [Remove] removes.
type RemoveOptions struct {
	Paths     []string
	Cached    bool // only from the index: the files stay, untracked
	Recursive bool // folders with all that is tracked in them
	Force     bool // even what has changes that exist nowhere else
	DryRun    bool
}

// ErrIsDirectory is matched by the error for a folder where a file is wanted.
var ErrIsDirectory = errors.New("is a directory")

// Remove removes tracked files from the worktree and the index, and returns
// their paths, and those of folders that were empty. A file with changes that
// were not committed is a [*LocalChangesError], unless forced or kept in the
// worktree.
func Remove(ctx context.Context, r *kist.Repository, o RemoveOptions) ([]string, error) {
	idx, err := r.Index()
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
		if err := checkRemoval(ctx, r, idx, o); err != nil {
			return nil, err
		}
	}
	if o.DryRun {
		return removed, nil
	}
	if o.Cached {
		return removed, r.EditIndex(ctx, idx, func(idx *index.Index) error {
			for _, p := range o.Paths {
				idx.Remove(p)
			}
			return nil
		})
	}
	return removed, stage.ApplyOps(ctx, r, idx, ops, stage.ApplyOptions{Edit: func(idx *index.Index) error {
		for _, p := range o.Paths {
			idx.Remove(p)
		}
		return nil
	}})
}

// conflictEntry returns an entry for the file that a merge has left at the path
// of a conflict.
func conflictEntry(c index.Conflict) *index.Entry {
	for _, side := range []*object.Entry{c.Theirs, c.Ours, c.Base} {
		if side != nil {
			e := index.NewEntry(*side, index.Stat{})
			return &e
		}
	}
	return nil
}

// checkRemoval makes sure that what is to be removed is in HEAD's commit, or
// if it stays in the worktree, that what is staged is in one of the two.
func checkRemoval(ctx context.Context, r *kist.Repository, idx *index.Index, o RemoveOptions) error {
	found, err := r.Worktree().Scan(ctx, idx, worktree.ScanOptions{Paths: o.Paths, NoUntracked: true})
	if err != nil {
		return err
	}
	if found, _, err = r.Worktree().Confirm(ctx, found); err != nil {
		return err
	}
	changed := map[string]bool{}
	e := &stage.LocalChangesError{}
	if !o.Cached {
		if e.Obstacles, err = stage.OnlyCopies(r, removals(idx, o.Paths)); err != nil {
			return err
		}
	}
	for _, f := range found {
		if f.State == worktree.Deleted || f.State == worktree.Absent || f.Dir {
			continue
		}
		changed[f.Path] = true
		if _, conflict := idx.Conflict(f.Path); !o.Cached && !conflict {
			e.Obstacles = append(e.Obstacles, stage.Obstacle{Path: f.Path, Reason: "changed since it was staged"})
		}
	}
	head, err := view.OfHead(ctx, r)
	if err != nil {
		return err
	}
	staged, err := view.FromIndex(ctx, r, idx)
	if err != nil {
		return err
	}
	changes, err := view.Diff(ctx, head, staged, o.Paths, false)
	if err != nil {
		return err
	}
	for _, c := range changes {
		_, conflict := idx.Conflict(c.Path)
		switch {
		case c.New == nil || c.New.Type == object.TypeDir || conflict:
		case o.Cached != changed[c.Path]: // nothing is lost, or it was told above
		default:
			e.Obstacles = append(e.Obstacles, stage.Obstacle{Path: c.Path, Reason: "staged, but not committed"})
		}
	}
	if len(e.Obstacles) > 0 {
		return e
	}
	return nil
}

// removals returns operations that remove what is tracked at paths and below.
func removals(idx *index.Index, paths []string) (ops []worktree.Op) {
	for _, p := range paths {
		if e := idx.Entry(p); e != nil {
			ops = append(ops, worktree.Op{Path: p, Old: e})
		} else if d := idx.Dir(p); d != nil {
			for below, e := range d.All() {
				ops = append(ops, worktree.Op{Path: below, Old: e})
			}
		}
	}
	return ops
}

// Moved is a path that was moved.
type Moved struct{ From, To string }

// Move renames tracked files and folders, in the worktree and the index. If
// destination is a folder, or there are several sources, they are moved into
// it. What is at the new path is a [*LocalChangesError] unless forced.
func Move(ctx context.Context, r *kist.Repository, sources []string, destination string, force, dryRun bool) ([]Moved, error) {
	idx, err := r.Index()
	if err != nil {
		return nil, err
	}
	into := destination == "" || idx.Dir(destination) != nil || r.Worktree().IsDir(destination)
	if len(sources) > 1 && !into {
		return nil, fmt.Errorf("path %q is not a directory", destination)
	}
	var moves []Moved
	taken := map[string]bool{}
	for _, from := range sources {
		m := Moved{from, destination}
		if into {
			m.To = path.Join(destination, path.Base(from))
		}
		switch {
		case from == "":
			return nil, errors.New("the root of the worktree cannot be moved")
		case stage.Indexed(idx, from) == nil:
			return nil, fmt.Errorf("path %q: %w", from, kist.ErrNoMatch)
		case m.To == from || strings.HasPrefix(m.To, from+"/"):
			return nil, fmt.Errorf("path %q cannot be moved into itself, to %q", from, m.To)
		case !r.Worktree().Exists(from):
			return nil, fmt.Errorf("path %q is not in the worktree", from)
		case path.Dir(m.To) != "." && !r.Worktree().IsDir(path.Dir(m.To)):
			return nil, fmt.Errorf("there is no folder %q", path.Dir(m.To))
		case taken[m.To]:
			return nil, fmt.Errorf("two paths cannot both be moved to %q", m.To)
		case slices.ContainsFunc(moves, func(o Moved) bool { return tree.Below(from, o.From) || tree.Below(o.From, from) }):
			return nil, fmt.Errorf("path %q cannot be moved twice", from)
		case !force && (stage.Indexed(idx, m.To) != nil || r.Worktree().Exists(m.To)):
			return nil, &stage.LocalChangesError{Obstacles: []stage.Obstacle{{Path: m.To, Reason: "is in the way"}}}
		}
		taken[m.To] = true
		moves = append(moves, m)
	}
	if dryRun {
		return moves, nil
	}
	for i, m := range moves {
		if err := ctx.Err(); err != nil {
			return moves[:i], errors.Join(err, stageMoves(ctx, r, idx, moves[:i]))
		}
		if err := r.Worktree().Rename(m.From, m.To); err != nil {
			return moves[:i], errors.Join(err, stageMoves(ctx, r, idx, moves[:i]))
		}
	}
	return moves, stageMoves(ctx, r, idx, moves)
}

// stageMoves renames in the index what was renamed in the worktree, also if the
// command was interrupted meanwhile.
func stageMoves(ctx context.Context, r *kist.Repository, idx *index.Index, moves []Moved) error {
	return r.EditIndex(context.WithoutCancel(ctx), idx, func(idx *index.Index) error {
		for _, m := range moves {
			if err := idx.Move(m.From, m.To); err != nil {
				return err
			}
		}
		return nil
	})
}

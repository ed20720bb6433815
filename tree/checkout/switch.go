package checkout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/stage"
	"github.com/kist-vcs/kist/tree/view"
	"github.com/kist-vcs/kist/tree/worktree"
)

// CheckNew makes sure that a branch or tag, below prefix, can be made, and
// returns where it is if it exists and may.
func CheckNew(r *kist.Repository, prefix, name string, mayExist bool) (object.ID, error) {
	if err := refs.CheckShort(name); err != nil {
		return object.ID{}, err
	}
	full := prefix + name
	id, err := r.Refs().Get(full)
	switch {
	case err == nil && !mayExist:
		what := map[string]string{refs.Heads: "branch", refs.Tags: "tag"}[prefix]
		return id, fmt.Errorf("%s %q %w", what, name, kist.ErrNameTaken)
	case err == nil || !errors.Is(err, refs.ErrNotFound):
		return id, err
	}
	// A ref is a file, and those with its name before a slash are in a folder.
	for at := strings.LastIndexByte(full, '/'); at >= len(prefix); at = strings.LastIndexByte(full[:at], '/') {
		if _, err := r.Refs().Get(full[:at]); err == nil {
			return id, &refs.ConflictError{Name: full, With: full[:at]}
		}
	}
	if list, _ := r.Refs().List(full + "/"); len(list) > 0 {
		return id, &refs.ConflictError{Name: full, With: list[0].Name}
	}
	return object.ID{}, nil
}

// Tip is a commit and its tree; zero if there is none yet.
type Tip struct{ Commit, Tree object.ID }

// Tips is a switch from one commit, HEAD's, to another.
type Tips struct {
	From, To Tip
	Force    bool // discard staged and changed content
	Progress kist.Progress
	Publish  func(ctx context.Context) error // moves HEAD after the index
}

// SwitchTree brings worktree and index from one tree to another, and then calls
// s.Publish. Staged and changed content stays at paths that are equal in both
// trees. Elsewhere it is an obstacle, except with s.Force.
//
// A kill at any moment leaves each file old or new. The command can be repeated:
// a file with its new content is no obstacle.
func SwitchTree(ctx context.Context, r *kist.Repository, s Tips) error {
	load, from, to := r.Index, s.From, s.To
	if s.Force { // even if the index was lost
		load = func() (*index.Index, error) { return index.Load(r.Dir()) }
	}
	idx, err := load()
	if err != nil {
		return err
	}
	o := stage.ApplyOptions{Progress: s.Progress, Replaces: true, Publish: s.Publish, Needs: []object.ID{from.Commit, to.Commit}}
	switch {
	case s.Force:
		o.Needs = []object.ID{to.Commit}
	case from == to:
		o.Needs = nil
	case from.Tree.IsZero(): // also if the loss of its commit was accepted
		o.Needs = []object.ID{to.Commit}
	}
	var ops []worktree.Op
	var inTheWay []stage.Obstacle
	if s.Force {
		o.Edit = clearNotes
		ops, o.Unchanged, o.Lost, err = ForceOps(ctx, r, idx, view.View{Tree: to.Tree, Commit: to.Commit, Objects: r.Contents()}, nil)
	} else {
		ops, inTheWay, o.Lost, err = switchOps(ctx, r, idx, from.Tree, to)
		if err == nil {
			err = stage.CheckOps(ctx, r, idx, ops, inTheWay)
		}
	}
	if err != nil {
		return err
	}
	return stage.ApplyOps(ctx, r, idx, ops, o)
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

// switchOps returns what leads from one tree to another, the paths where they
// differ and the index has something else staged, and the folders of the second
// tree that are lost. A folder whose content the index does not know counts as
// empty.
func switchOps(ctx context.Context, r *kist.Repository, idx *index.Index, from object.ID, to Tip) ([]worktree.Op, []stage.Obstacle, []view.LostFolder, error) {
	var ops []worktree.Op
	var inTheWay []stage.Obstacle
	replaced := false // a folder becomes something else
	known := view.NewKnown(r.Objects())
	known.Hide(idx)
	for c, err := range tree.Diff(ctx, known, from, to.Tree, tree.DiffOptions{Recursive: true, Paired: true}) {
		if err != nil {
			return nil, nil, nil, err
		}
		if _, ok := idx.Conflict(c.Path); ok {
			inTheWay = append(inTheWay, stage.Obstacle{Path: c.Path, Reason: "unresolved conflict"})
			continue
		}
		have := stage.Indexed(idx, c.Path)
		switch {
		case stage.SameEntry(have, c.Old):
			ops = append(ops, worktree.Op{Path: c.Path, Old: idx.Entry(c.Path), New: c.New})
			replaced = replaced || view.IsFolder(c.Old) && c.New != nil && !view.IsFolder(c.New)
		case stage.SameEntry(have, c.New):
		case c.New == nil && view.IsFolder(have) != view.IsFolder(c.Old): // what is removed is not staged any more
		default:
			inTheWay = append(inTheWay, stage.Obstacle{Path: c.Path, Reason: StagedReason})
		}
	}
	if replaced {
		inTheWay = append(inTheWay, stagedBelow(idx, ops)...)
	}
	lost, err := known.LostIn(ctx, view.View{Tree: to.Tree, Commit: to.Commit, Objects: r.Objects()})
	return ops, append(inTheWay, stagedAbove(idx, ops)...), lost, err
}

// stagedAbove returns what is staged, and does not become a folder, where ops need
// one.
func stagedAbove(idx *index.Index, ops []worktree.Op) []stage.Obstacle {
	folders := map[string]bool{} // that are files yet
	var inTheWay []stage.Obstacle
	last := ""
	for _, op := range ops {
		if op.Old != nil && view.IsFolder(op.New) {
			folders[op.Path] = true
		}
		dir, _ := tree.Split(op.Path)
		if op.New == nil || dir == last {
			continue
		}
		for last = dir; dir != "" && idx.Dir(dir) == nil; dir, _ = tree.Split(dir) {
			if idx.Entry(dir) != nil && !folders[dir] {
				inTheWay = append(inTheWay, stage.Obstacle{Path: dir, Reason: StagedReason})
			}
		}
	}
	return inTheWay
}

// stagedBelow returns what is staged, and not removed, in folders that become
// something else.
func stagedBelow(idx *index.Index, ops []worktree.Op) []stage.Obstacle {
	removed := map[string]bool{}
	for _, op := range ops {
		if op.New == nil {
			removed[op.Path] = true
		}
	}
	var inTheWay []stage.Obstacle
	for _, op := range ops {
		d := idx.Dir(op.Path)
		if d == nil || op.New == nil || view.IsFolder(op.New) {
			continue
		}
		for path := range d.All() {
			if !removed[path] {
				inTheWay = append(inTheWay, stage.Obstacle{Path: path, Reason: StagedReason})
			}
		}
	}
	return inTheWay
}

// StagedReason is why a path is in the way at which something is staged.
const StagedReason = "a change is staged"

// ForceOps returns what makes index and worktree equal to a tree at the given
// paths (nil: all), whatever they hold now, the files that were read and are equal
// to what is staged, and the folders of the tree that are lost. Untracked files stay, unless they are where a
// file is to be.
func ForceOps(ctx context.Context, r *kist.Repository, idx *index.Index, to view.View, paths []string) ([]worktree.Op, []worktree.Refreshed, []view.LostFolder, error) {
	from, err := view.FromKnown(ctx, r, idx)
	if err != nil {
		return nil, nil, nil, err
	}
	changes, lost, err := view.DiffKnown(ctx, from, to, tree.DiffOptions{Paths: paths, Recursive: true, Paired: true})
	if err != nil {
		return nil, nil, nil, err
	}
	var ops []worktree.Op
	planned := map[string]bool{}
	for _, c := range changes {
		planned[c.Path] = true
		ops = append(ops, worktree.Op{Path: c.Path, Old: idx.Entry(c.Path), New: c.New})
	}
	found, err := r.Worktree().Scan(ctx, idx, worktree.ScanOptions{Paths: paths, NoUntracked: true})
	if err != nil {
		return nil, nil, nil, err
	}
	found = slices.DeleteFunc(found, func(f worktree.Found) bool { return planned[f.Path] })
	// A file that is as it is to be keeps its time: builds go by it.
	found, unchanged, err := r.Worktree().Confirm(ctx, found)
	if err != nil {
		return nil, nil, nil, err
	}
	for _, f := range found {
		e, err := tree.Find(ctx, to.Objects, to.Tree, f.Path)
		if errors.Is(err, tree.ErrNotExist) || errors.Is(err, tree.ErrNotDir) {
			continue
		}
		if view.IsLost(err) && f.Old != nil { // in a folder that is the same in the index
			e, err = f.Old.Object(), nil
		}
		if err != nil {
			return nil, nil, nil, err
		}
		ops = append(ops, worktree.Op{Path: f.Path, Old: f.Old, New: &e})
	}
	return ops, unchanged, lost, nil
}

package checkout

import (
	"cmp"
	"context"
	"slices"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/look/compare"
	"github.com/kist-vcs/kist/tree/work/stage"
	"github.com/kist-vcs/kist/tree/worktree"
)

// Undo takes an interrupted [SwitchTree] back, after an error or a kill at any moment. Where
// the trees differ, a file with the content of s.To becomes that of s.From again, in the
// worktree and in the index. Paths with other content stay: the user changed them meanwhile.
func Undo(ctx context.Context, r *kist.Repository, s Tips) error {
	idx, err := r.Index()
	if err != nil {
		return err
	}
	done := index.New() // as if the switch had come to its end; it knows no times, so files are read
	if !s.To.Tree.IsZero() {
		err = done.ReadTree(ctx, compare.NewKnown(r.Objects()), s.To.Tree)
	}
	if err != nil {
		return err
	}
	back := switcher{objects: r.Objects(), idx: done}
	lost, err := back.compareTrees(ctx, s.To.Tree, s.From)
	if err != nil {
		return err
	}
	ops := back.ops
	obstacles, err := r.Worktree().Check(ctx, done, stage.NewLeftOut(idx, r.Config().Cone()).TakeOps(ops))
	if err != nil {
		return err
	}

	var staged []worktree.Op // the user changed the file, but not what the switch staged
	ops = slices.DeleteFunc(ops, func(op worktree.Op) bool {
		have, readErr := stage.IndexedIn(ctx, r.Objects(), idx, op.Path)
		err = cmp.Or(err, readErr)
		ours := stage.SameEntry(have, stage.Indexed(done, op.Path))
		if !ours && !stage.SameEntry(have, op.New) {
			return true
		}
		changed := slices.ContainsFunc(obstacles, func(o worktree.Obstacle) bool {
			return tree.Below(o.Path, op.Path) || tree.Below(op.Path, o.Path)
		})
		if changed && ours && !tree.IsDir(have) && !tree.IsDir(op.New) {
			staged = append(staged, op)
		}
		return changed
	})
	if err != nil {
		return err
	}
	o := stage.ApplyOptions{Progress: s.Progress, KeepGit: s.KeepGit, Replaces: true, GiveUp: true, Lost: lost}
	o.Edit = func(idx *index.Index) error { return unstage(idx, staged) }
	if !s.From.Commit.IsZero() {
		o.Needs = append(o.Needs, s.From.Commit)
	}
	return stage.ApplyOps(ctx, r, idx, ops, o)
}

// unstage gives files the entries that they get by ops, in the index only.
func unstage(idx *index.Index, ops []worktree.Op) error {
	for _, op := range ops {
		if op.New == nil {
			idx.Remove(op.Path)
			continue
		}
		if err := idx.Set(op.Path, index.NewEntry(*op.New, index.Stat{})); err != nil {
			return err
		}
	}
	return nil
}

package commits

import (
	"context"
	"errors"
	"fmt"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/work/stage"
	"github.com/kist-vcs/kist/tree/worktree"
)

// ApplyOptions configure [Apply].
type ApplyOptions struct {
	Base, Theirs object.ID // trees: the changes between them are applied
	Untracked    object.ID // a tree of further files to write, which are not staged; zero: none
	Labels       tree.Labels
	AtBase       string      // replaces Labels.Ours if the index equals Base; empty: it stays
	Needs        []object.ID // the commits that the trees come from

	// Stage returns the tree to stage instead of the merged one. It does not count if
	// there are conflicts.
	Stage func(ctx context.Context, rw object.ReadWriter, ours object.ID, merged *tree.MergeResult) (object.ID, error)

	// Names notes changes of names, to publish after the index; nil: none.
	Names func(tx *kist.Tx)

	Progress kist.Progress
}

// Apply merges the changes from one tree to another into index and worktree. It makes no
// commit, and records no operation in progress. Staged changes count as ours. The
// error is a [*stage.LocalChangesError], and nothing is done, if a path to write has
// changed since it was staged. Conflicts are marked as by [Merge]. If only some paths
// cannot be written, the rest is done, and the error is a [*worktree.ApplyError].
func Apply(ctx context.Context, r *kist.Repository, o ApplyOptions) (conflicts []tree.Conflict, err error) {
	head, err := r.Refs().Head()
	if err != nil {
		return nil, err
	}
	err = r.Update(ctx, func(tx *kist.Tx) error {
		ours, err := writeIndex(ctx, r)
		if err != nil {
			return err
		}
		labels := o.Labels
		if ours == o.Base && o.AtBase != "" {
			labels.Ours = o.AtBase
		}
		conflicts, err = mergeTrees(ctx, tx, &threeWay{
			head: head, ours: ours, theirs: o.Theirs, labels: labels, needs: o.Needs, apply: &o, progress: o.Progress,
			base: func(context.Context, object.ReadWriter) (object.ID, error) { return o.Base, nil },
		})
		return err
	})
	return conflicts, err
}

// applied has the parts of an [Apply] that a merge lacks. Nil has none.
type applied struct {
	ops    []worktree.Op    // write the untracked files
	blocks []stage.Obstacle // these files are tracked now
	edits  []tree.Change    // from the merged tree with the untracked files to the tree to stage
}

func (a *applied) findObstacles() []stage.Obstacle {
	if a == nil {
		return nil
	}
	return a.blocks
}

// paths returns the paths whose state in the worktree is not the staged one: untracked files, and changes
// that are not staged. They need open folders.
func (a *applied) paths() (paths []string) {
	if a == nil {
		return nil
	}
	for _, op := range a.ops {
		if tree.IsDir(op.New) { // it may be empty
			paths = append(paths, op.Path+"/")
		} else {
			paths = append(paths, op.Path)
		}
	}
	for _, c := range a.edits {
		paths = append(paths, c.Path)
		if tree.IsDir(c.Old) && tree.IsDir(c.New) { // the folder itself must be open
			paths = append(paths, c.Path+"/")
		}
	}
	return paths
}

func (a *applied) stagedChanges() []tree.Change {
	if a == nil {
		return nil
	}
	return a.edits
}

// finishMerge returns the untracked files to write and the changes to stage after a merge.
func (o *ApplyOptions) finishMerge(ctx context.Context, rw object.ReadWriter, ours object.ID, merged *tree.MergeResult) (*applied, error) {
	a := &applied{}
	written, err := a.addUntracked(ctx, rw, o.Untracked, merged.Tree)
	if err != nil {
		return nil, err
	}
	staged := merged.Tree.ID
	if o.Stage != nil {
		id, err := o.Stage(ctx, rw, ours, merged)
		if err != nil {
			return nil, err
		}
		if len(merged.Conflicts) == 0 {
			staged = id
		}
	}
	for c, err := range tree.Diff(ctx, rw, written, staged, tree.DiffOptions{Recursive: true, Paired: true}) {
		if err != nil {
			return nil, err
		}
		a.edits = append(a.edits, c)
	}
	return a, nil
}

// addUntracked adds the operations for the files of a tree. It returns the tree that has
// them in addition to base.
func (a *applied) addUntracked(ctx context.Context, rw object.ReadWriter, files object.ID, base tree.Info) (object.ID, error) {
	if files.IsZero() {
		return base.ID, nil
	}
	editor := tree.NewEditor(rw, base)
	err := tree.Walk(ctx, rw, files, func(path string, e object.Entry) error {
		there, err := tree.Find(ctx, rw, base.ID, path)
		switch {
		case err == nil && tree.IsDir(&there) && tree.IsDir(&e):
			return nil
		case err == nil || errors.Is(err, tree.ErrNotDir):
			a.blocks = append(a.blocks, stage.Obstacle{Path: path, Reason: "a tracked file"})
			return nil
		case !errors.Is(err, tree.ErrNotExist):
			return err
		}
		a.ops = append(a.ops, worktree.Op{Path: path, New: &e})
		if tree.IsDir(&e) {
			return editor.SetDir(ctx, path, e)
		}
		return editor.Set(ctx, path, e)
	})
	if err != nil {
		return object.ID{}, fmt.Errorf("untracked files: %w", err)
	}
	info, err := editor.Finish(ctx)
	return info.ID, err
}

package stash

import (
	"context"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/work/commits"
)

// ApplyOptions configure [Apply].
type ApplyOptions struct {
	Index    bool              // also stage the changes that were staged
	Names    func(tx *kist.Tx) // notes changes of names, to publish after the index; nil: none
	Progress kist.Progress
}

// Applied is the result of [Apply].
type Applied struct {
	Conflicts []tree.Conflict // to resolve
	Dropped   bool            // by [Pop] or [Branch]
}

// Apply makes the changes of a stash again, on top of the index and the worktree. Only
// added files are staged, unless o.Index is set. Conflicts stay in the worktree and the
// index, as after a merge, but no operation is in progress. If there are conflicts, all
// other changes are staged, as in git. The error is a [*stage.LocalChangesError], and nothing
// is done, if a changed or untracked file is in the way. It is [ErrStaged] if o.Index is set,
// and staged changes conflict. If only some paths cannot be written, the rest is done, and the error
// is a [*worktree.ApplyError].
func Apply(ctx context.Context, r *kist.Repository, id object.ID, o ApplyOptions) (*Applied, error) {
	parts, err := Read(ctx, r, id)
	if err != nil {
		return nil, err
	}
	a := commits.ApplyOptions{
		Theirs: parts.Stash.Tree, Needs: []object.ID{id}, Names: o.Names, Progress: o.Progress, Stage: unstage,
		Labels: tree.Labels{Ours: "Updated upstream", Theirs: "Stashed changes"}, AtBase: "Version stash was based on",
	}
	var staged object.ID
	for _, part := range []struct {
		commit object.ID
		to     *object.ID
	}{{parts.Base, &a.Base}, {parts.Index, &staged}, {parts.Untracked, &a.Untracked}} {
		if *part.to, err = kist.CommitTree(ctx, r, part.commit); err != nil {
			return nil, err
		}
	}
	if o.Index {
		a.Stage = func(ctx context.Context, rw object.ReadWriter, ours object.ID, _ *tree.MergeResult) (object.ID, error) {
			m, err := tree.Merge(ctx, rw, tree.Versions{Base: a.Base, Ours: ours, Theirs: staged}, tree.MergeOptions{
				Directories: r.Config().DirectoryRenames(), Split: r.Chunker().Split,
			})
			if err == nil && len(m.Conflicts) > 0 {
				err = ErrStaged
			}
			if err != nil {
				return object.ID{}, err
			}
			return m.Tree.ID, nil
		}
	}

	conflicts, err := commits.Apply(ctx, r, a)
	return &Applied{Conflicts: conflicts}, err
}

// Pop is Apply of a stash. If all of it was applied without conflicts, Pop drops it from the list.
func Pop(ctx context.Context, r *kist.Repository, e Listed, o ApplyOptions) (*Applied, error) {
	applied, err := Apply(ctx, r, e.New, o)
	if err == nil && len(applied.Conflicts) == 0 && e.N >= 0 {
		err = Drop(ctx, r, e)
		applied.Dropped = err == nil
	}
	return applied, err
}

// unstage returns the merged tree with the former entries of all paths that are not new.
// Attributes keep their new values, because the worktree has none.
func unstage(ctx context.Context, rw object.ReadWriter, _ object.ID, merged *tree.MergeResult) (object.ID, error) {
	editor := tree.NewEditor(rw, merged.Tree)
	replaced := "" // the last folder that a file replaced
	for _, c := range merged.Changes {
		var err error
		switch {
		case c.Old == nil || replaced != "" && tree.Below(c.Path, replaced):
		case c.New != nil && tree.IsDir(c.New) != tree.IsDir(c.Old):
			replaced = c.Path
		default:
			e := *c.Old
			if c.New != nil {
				e.SetAttrs(c.New.Attrs)
			}
			if tree.IsDir(&e) {
				err = editor.SetDir(ctx, c.Path, e)
			} else {
				err = editor.Set(ctx, c.Path, e)
			}
		}
		if err != nil {
			return object.ID{}, err
		}
	}
	info, err := editor.Finish(ctx)
	return info.ID, err
}

package kist

import (
	"context"
	"errors"
	"slices"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/worktree"
)

// View is a tree that can be compared with others: one that was committed, or
// what the index or the worktree holds now. Objects reads its nodes; the
// content of a view of the worktree is in the worktree alone.
type View struct {
	Tree     object.ID // zero: nothing
	Commit   object.ID // whose tree it is; zero: none's
	Objects  object.Reader
	Worktree bool
	Skipped  []object.Skipped // in the worktree: could not be read, and are in the tree as they are staged
}

// CommitView returns the tree of the commit that a revision names. The error is
// an [*ExpiredError] if its content has expired.
func (r *Repository) CommitView(ctx context.Context, rev string) (View, error) {
	id, c, err := r.ReadCommit(ctx, rev)
	if err == nil {
		err = r.usable(ctx, id)
	}
	if err != nil {
		return View{}, err
	}
	return View{Tree: c.Tree, Commit: id, Objects: r.Contents()}, nil
}

// HeadView returns the tree of HEAD's commit, or of none if there is none yet.
func (r *Repository) HeadView(ctx context.Context) (View, error) {
	id, err := r.headTree(ctx)
	return View{Tree: id, Objects: r.Contents()}, err
}

// headTree returns the ID of HEAD's tree, zero on an unborn branch.
func (r *Repository) headTree(ctx context.Context) (object.ID, error) {
	head, err := r.refs.Head()
	if err != nil || head.ID.IsZero() {
		return object.ID{}, err
	}
	return r.commitTree(ctx, head.ID)
}

// commitTree returns the tree of a commit, zero for none. The error is an
// [*ExpiredError] if its content has expired.
func (r *Repository) commitTree(ctx context.Context, commit object.ID) (object.ID, error) {
	if err := r.usable(ctx, commit); err != nil {
		return object.ID{}, err
	}
	return r.recordedTree(ctx, commit)
}

// recordedTree returns the tree of a commit, zero for none. It need not be here
// if the commit's content has expired.
func (r *Repository) recordedTree(ctx context.Context, commit object.ID) (object.ID, error) {
	if commit.IsZero() {
		return object.ID{}, nil
	}
	c, err := object.ReadCommit(ctx, r.objects, commit)
	if err != nil {
		return object.ID{}, err
	}
	return c.Tree, nil
}

// IndexView returns what is staged. Of paths with conflicts it has what is
// staged beside them, if anything.
func (r *Repository) IndexView(ctx context.Context) (View, error) {
	idx, err := r.Index()
	if err != nil {
		return View{}, err
	}
	return r.viewIndex(ctx, idx)
}

func (r *Repository) viewIndex(ctx context.Context, idx *index.Index) (View, error) {
	o := newOverlay(r.Contents())
	info, err := idx.PreviewTree(ctx, o)
	return View{Tree: info.ID, Objects: o}, err
}

// WorktreeView returns what the tracked paths hold in the worktree now. It
// reads, but does not store, the files that may differ from what is staged.
func (r *Repository) WorktreeView(ctx context.Context, paths []string) (View, error) {
	idx, err := r.Index()
	if err != nil {
		return View{}, err
	}
	found, err := r.scan(ctx, idx, worktree.ScanOptions{Paths: paths, NoUntracked: true})
	if err != nil {
		return View{}, err
	}
	found, unchanged, err := r.worktree.Confirm(ctx, found)
	if err != nil {
		return View{}, err
	}
	r.refreshIndex(ctx, nil, unchanged)
	o := newOverlay(r.Contents())
	edits, err := r.store(ctx, o, idx, found, nil)
	if err != nil {
		return View{}, err
	}
	var skipped []object.Skipped
	for _, e := range edits {
		if e.skipped() {
			skipped = append(skipped, object.Skipped{Path: e.path, Reason: e.why})
		}
	}
	if err := edits.apply(idx); err != nil {
		return View{}, err
	}
	info, err := idx.PreviewTree(ctx, o)
	return View{Tree: info.ID, Objects: o, Worktree: true, Skipped: skipped}, err
}

// Diff returns the changes of files that lead from view a to view b, in the
// order of their paths, and those of folders that are empty or have got other
// permission bits. Renames are found if they are asked for.
func Diff(ctx context.Context, a, b View, paths []string, renames bool) ([]tree.Change, error) {
	changes, err := diff(ctx, a, b, tree.DiffOptions{Paths: paths, Recursive: true})
	if err != nil {
		return nil, err
	}
	// A folder that came or went with what is in it is told by that.
	empty, _ := object.EmptyTree()
	changes = slices.DeleteFunc(changes, func(c tree.Change) bool {
		e := c.Old
		if e == nil {
			e = c.New
		}
		return (c.Old == nil || c.New == nil) && e.Type == object.TypeDir && e.Content.ID != empty
	})
	if !renames {
		return changes, nil
	}
	return tree.DetectRenames(ctx, layered{b.Objects, a.Objects}, changes, tree.RenameOptions{})
}

func diff(ctx context.Context, a, b View, o tree.DiffOptions) ([]tree.Change, error) {
	var changes []tree.Change
	for c, err := range tree.Diff(ctx, layered{b.Objects, a.Objects}, a.Tree, b.Tree, o) {
		if err != nil {
			return nil, err
		}
		changes = append(changes, c)
	}
	return changes, nil
}

// layered reads from the first of two stores that has an object.
type layered [2]object.Reader

func (l layered) Get(ctx context.Context, key object.Key) ([]byte, error) {
	data, err := l[0].Get(ctx, key)
	if errors.Is(err, object.ErrNotFound) && l[1] != l[0] {
		return l[1].Get(ctx, key)
	}
	return data, err
}

func (l layered) Missing(ctx context.Context, keys []object.Key) ([]object.Key, error) {
	missing, err := l[0].Missing(ctx, keys)
	if err != nil || len(missing) == 0 {
		return missing, err
	}
	return l[1].Missing(ctx, missing)
}

// ErrUnborn says that the current branch has no commit yet.
var ErrUnborn = errors.New("the current branch has no commit yet")

// headCommit returns HEAD and its commit; the error is [ErrUnborn] if it has none.
func (r *Repository) headCommit(ctx context.Context) (refs.Head, *object.Commit, error) {
	head, err := r.refs.Head()
	if err != nil {
		return head, nil, err
	}
	if head.ID.IsZero() {
		return head, nil, ErrUnborn
	}
	c, err := object.ReadCommit(ctx, r.objects, head.ID)
	return head, c, err
}

// Package compare shows a commit, the index or HEAD as one tree, and compares such
// views.
package compare

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/worktree"
)

// Side is a tree with the store of its objects: the tree of a commit, of the index, of the
// worktree, or of a branch with pending changes. Objects reads its nodes. The content of the
// worktree's tree is only in the worktree. All packages that look at such a tree take a Side.
type Side struct {
	Tree     object.ID // zero: no tree
	Commit   object.ID // the commit that has the tree, or that the tree follows; zero: none
	Objects  object.Reader
	Worktree bool
	Skipped  []object.Skipped // unreadable files of the worktree; the tree has their staged versions
}

// OfCommit returns the tree of the commit that a revision names; REV^{tree} means the same.
// The error is an [*object.AbsentError] if its content has expired.
func OfCommit(ctx context.Context, r *kist.Repository, rev string) (Side, error) {
	id, c, err := r.ReadCommit(ctx, strings.TrimSuffix(rev, "^{tree}"))
	if err == nil {
		err = kist.CheckUsable(ctx, r, id)
	}
	if err != nil {
		return Side{}, err
	}
	return Side{Tree: c.Tree, Commit: id, Objects: r.Contents()}, nil
}

// OfHead returns the tree of HEAD's commit, or of none if there is none yet.
func OfHead(ctx context.Context, r *kist.Repository) (Side, error) {
	id, err := HeadTree(ctx, r)
	return Side{Tree: id, Objects: r.Contents()}, err
}

// HeadTree returns the ID of HEAD's tree, zero on an unborn branch.
func HeadTree(ctx context.Context, r *kist.Repository) (object.ID, error) {
	head, err := r.Refs().Head()
	if err != nil || head.ID.IsZero() {
		return object.ID{}, err
	}
	return kist.CommitTree(ctx, r, head.ID)
}

// OfIndex returns the view of the index. A path with a conflict has its staged
// entry, if there is one.
func OfIndex(ctx context.Context, r *kist.Repository) (Side, error) {
	idx, err := r.Index()
	if err != nil {
		return Side{}, err
	}
	return FromIndex(ctx, r, idx)
}

// FromIndex is [OfIndex] for an index that the caller has read.
func FromIndex(ctx context.Context, r *kist.Repository, idx *index.Index) (Side, error) {
	o := object.NewOverlay(r.Contents())
	info, err := idx.PreviewTree(ctx, o)
	return Side{Tree: info.ID, Objects: o}, err
}

// Diff returns the changes from view a to view b in path order: of files, and of
// folders that are empty or have other permission bits or metadata. With renames, it also
// finds moved files.
func Diff(ctx context.Context, a, b Side, paths []string, renames bool) ([]tree.Change, error) {
	changes, err := DiffWith(ctx, a, b, tree.DiffOptions{Paths: paths, Recursive: true, Recorded: true})
	if err != nil {
		return nil, err
	}
	// A new or deleted folder is implied by its content.
	empty, _ := object.EmptyTree()
	changes = slices.DeleteFunc(changes, func(c tree.Change) bool {
		e := cmp.Or(c.Old, c.New)
		return (c.Old == nil || c.New == nil) && e.Type == object.TypeDir && e.Content.ID != empty
	})
	if !renames {
		return changes, nil
	}
	return tree.DetectRenames(ctx, layeredReader{b.Objects, a.Objects}, changes)
}

// DiffWith returns the changes from view a to view b that o selects.
func DiffWith(ctx context.Context, a, b Side, o tree.DiffOptions) ([]tree.Change, error) {
	return diffTrees(ctx, layeredReader{b.Objects, a.Objects}, a, b, o)
}

func diffTrees(ctx context.Context, r object.Reader, a, b Side, o tree.DiffOptions) (changes []tree.Change, err error) {
	for c, err := range tree.Diff(ctx, r, a.Tree, b.Tree, o) {
		if err != nil {
			return nil, err
		}
		changes = append(changes, c)
	}
	return changes, nil
}

// layeredReader reads from the first of two stores that has an object.
type layeredReader [2]object.Reader

// PassOver implements [object.Lenient], if one of the stores does.
func (l layeredReader) PassOver(path string, key object.Key, err error) bool {
	return object.PassOver(l[0], path, key, err) || object.PassOver(l[1], path, key, err)
}

// Below implements [object.Layer]: both views read far objects in the same store.
func (l layeredReader) Below() object.Reader { return l[0] }

func (l layeredReader) Get(ctx context.Context, key object.Key) ([]byte, error) {
	data, err := l[0].Get(ctx, key)
	if errors.Is(err, object.ErrNotFound) && l[1] != l[0] {
		return l[1].Get(ctx, key)
	}
	return data, err
}

func (l layeredReader) Missing(ctx context.Context, keys []object.Key) ([]object.Key, error) {
	missing, err := l[0].Missing(ctx, keys)
	if err != nil || len(missing) == 0 {
		return missing, err
	}
	return l[1].Missing(ctx, missing)
}

// HeadCommit returns HEAD and its commit; the error is [kist.ErrUnborn] if it has none.
func HeadCommit(ctx context.Context, r *kist.Repository) (refs.Head, *object.Commit, error) {
	head, err := r.Refs().Head()
	if err != nil {
		return head, nil, err
	}
	if head.ID.IsZero() {
		return head, nil, kist.ErrUnborn
	}
	c, err := object.ReadCommit(ctx, r.Objects(), head.ID)
	return head, c, err
}

// OpsAt returns the operations that write path as it is in the view, with its
// parent folders and everything below it. Lost has the folders below it that are
// damaged or missing.
func (v Side) OpsAt(ctx context.Context, path string) (ops []worktree.Op, lost []worktree.FailedPath, err error) {
	e, err := v.Find(ctx, path)
	if errors.Is(err, tree.ErrNotExist) || errors.Is(err, tree.ErrNotDir) {
		return nil, nil, fmt.Errorf("path %q: %w", path, kist.ErrNoMatch)
	}
	if err != nil {
		return nil, nil, err
	}
	add := func(at string, e object.Entry) error {
		ops = append(ops, worktree.Op{Path: at, New: &e})
		return nil
	}

	if err = v.Walk(ctx, path, add); !object.IsUnreadable(err) {
		return ops, nil, err
	}

	// Begin again below path, and look at each folder before it is read.
	ops = slices.DeleteFunc(ops, func(op worktree.Op) bool { return op.Path != path && tree.Below(op.Path, path) })
	err = tree.WalkInto(ctx, v.Objects, e.Content.ID, func(below string, node object.ID) (bool, error) {
		_, err := object.ReadTree(ctx, v.Objects, node)
		at := tree.Join(path, below)
		if !object.IsUnreadable(err) || at == "" { // without the root, nothing can be written
			return err == nil, err
		}
		lost = append(lost, worktree.FailedPath{Path: at, Err: err})
		return false, nil
	}, func(below string, e object.Entry) error { return add(tree.Join(path, below), e) })
	return ops, lost, err
}

// Moved returns a view that has only one path of source, at another path.
func Moved(ctx context.Context, source Side, from, to string) (Side, error) {
	e, err := source.Find(ctx, from)
	if err != nil {
		return source, err
	}
	objects := object.NewOverlay(source.Objects)
	edit := tree.NewEditor(objects, tree.Info{})
	if err := edit.Set(ctx, to, e); err != nil {
		return source, err
	}
	info, err := edit.Finish(ctx)
	return Side{Tree: info.ID, Commit: source.Commit, Objects: objects}, err
}

// Walk calls fn for the folders that lead to path, for path unless it is "", and for
// everything below it.
func (v Side) Walk(ctx context.Context, path string, fn func(path string, e object.Entry) error) error {
	for i, c := range path + "/" {
		if c != '/' || i == 0 {
			continue
		}
		e, err := v.Find(ctx, path[:i])
		if err == nil {
			err = fn(path[:i], e)
		}
		if err != nil {
			return err
		}
	}

	e, err := v.Find(ctx, path)
	if err != nil || e.Type != object.TypeDir || e.Content.ID.IsZero() {
		return err
	}
	return tree.Walk(ctx, v.Objects, e.Content.ID, func(below string, e object.Entry) error {
		return fn(tree.Join(path, below), e)
	})
}

// Find returns the entry at path, of the root itself if path is "". Errors are those of
// [tree.Find].
func (v Side) Find(ctx context.Context, path string) (object.Entry, error) {
	switch {
	case path == "" && v.Tree.IsZero():
		return object.Entry{Type: object.TypeDir, Mode: 0o755}, nil
	case path == "":
		return object.Entry{Type: object.TypeDir, Mode: 0o755, Content: object.Key{Kind: object.KindTree, ID: v.Tree}}, nil
	case v.Tree.IsZero():
		return object.Entry{}, &tree.PathError{Path: path, Err: tree.ErrNotExist}
	}
	return tree.Find(ctx, v.Objects, v.Tree, path)
}

// ReadContent returns the content of a file of the view, at most limit bytes. If a
// file of the worktree changed since, it returns the present content.
func (v Side) ReadContent(ctx context.Context, r *kist.Repository, path string, e object.Entry, limit int64) ([]byte, error) {
	data, err := object.NewContentReader(ctx, v.Objects, e).Start(limit)
	if !v.Worktree || !errors.Is(err, object.ErrNotFound) && !errors.Is(err, object.ErrPurged) {
		return data, err
	}
	f, openErr := r.Worktree().Open(path)
	if openErr != nil && errors.Is(err, object.ErrPurged) {
		return nil, err
	}
	if openErr != nil {
		return nil, openErr
	}
	defer f.Close()

	return io.ReadAll(io.LimitReader(f, limit))
}

// ChangedRanges returns the ranges in which two files differ, in whole chunks.
// The first file is in view a, the second in view b. Neither need be stored.
func ChangedRanges(ctx context.Context, a, b Side, old, new object.Entry) ([]tree.Range, error) {
	return tree.ChangedRanges(ctx, layeredReader{b.Objects, a.Objects}, old, new)
}

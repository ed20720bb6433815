// Package rewrite replaces the commits that hold a purged content.
package rewrite

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/gc/purge"
	"github.com/kist-vcs/kist/gc/retain"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/graph"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/intact"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/commits"
	"github.com/kist-vcs/kist/tree/operation"
	"github.com/kist-vcs/kist/tree/stage"
)

// Result is the result of [Run].
type Result struct {
	Commits []Commit      // parents before their children
	Refs    []refs.Change // branches and tags that were moved, and "HEAD" if it is detached
	File    string        // with the map of Commits, in the .kist folder; "" if none was written
}

// Commit is a commit, and the one in its place.
type Commit struct{ Old, New object.ID }

// Run replaces the history by one without what a plan would purge, inline
// content included: all commits that HEAD, branches and tags reach, if
// they have it, and those after them, get other IDs. Authors, dates, messages
// and the structure of merges stay. Of paths that were given with AllHistory,
// nothing stays, whatever they held.
//
// If a commit that is held would become another one, nothing is done, and the
// error is a [*HeldError].
//
// Branches and tags are moved, the new commits have expired if the old ones had,
// and log entries and names such as ORIG_HEAD that tell of old ones are
// dropped. The index is that of the new HEAD; the worktree stays as it is, and
// removed files are untracked. A file gets the old and new ID of each commit.
// No operation may be under way and nothing staged. Stopped at any moment, it
// leaves every branch old or new; run again, it ends what it has begun.
//
// The contents are not purged by this: remote-tracking branches, remotes and
// other clones still have the old commits.
func Run(ctx context.Context, r *kist.Repository, p *purge.Plan, dryRun bool) (*Result, error) {
	if err := operation.NoOperation(r); err != nil {
		return nil, err
	}
	session := r.Objects().Begin(volume.SessionOptions{})
	defer session.Close()
	w := &rewriter{r: r, plan: p, rw: session, commits: map[object.ID]object.ID{}, trees: map[object.ID]tree.Info{}}
	if dryRun {
		w.rw = object.NewOverlay(r.Objects())
	}
	set, err := r.Records().Load()
	if err != nil {
		return nil, err
	}
	w.records = set.At(r.Options().Now()) // a hold that is over blocks nothing
	// The trees of old commits are taken to be whole.
	if w.head, _, err = commits.Trusted(ctx, r, session); err != nil {
		return nil, err
	}
	changes, err := w.changes(ctx)
	if err != nil {
		return nil, err
	}
	if err := w.nothingStaged(ctx); err != nil {
		return nil, err
	}
	result := &Result{Commits: w.order, Refs: changes}
	switch {
	case dryRun:
		return result, nil
	case len(w.order) == 0:
		return result, w.forget(ctx, nil)
	}
	return result, session.Publish(ctx, func(ctx context.Context) (err error) {
		if err := w.unchanged(); err != nil {
			return err
		}
		if result.File, err = w.writeMap(); err != nil {
			return err
		}
		return w.publish(ctx, changes)
	})
}

// rewriter rewrites histories.
type rewriter struct {
	r       *kist.Repository
	plan    *purge.Plan
	rw      object.ReadWriter
	records *record.View

	head    refs.Head
	listed  []refs.Ref              // branches and tags, as they were
	commits map[object.ID]object.ID // the visited commits, and their new IDs
	trees   map[object.ID]tree.Info // the same of trees
	order   []Commit                // the commits that changed
}

// changes rewrites all, and returns how refs move.
func (w *rewriter) changes(ctx context.Context) ([]refs.Change, error) {
	const reason = "purge: rewrite"
	var changes []refs.Change
	if w.head.Branch == "" {
		id, err := w.commit(ctx, w.head.ID)
		if err != nil {
			return nil, err
		}
		if id != w.head.ID {
			changes = append(changes, refs.Change{Name: "HEAD", Old: w.head.ID, New: id, Reason: reason})
		}
	}
	var err error
	if w.listed, err = branchesAndTags(w.r); err != nil {
		return nil, err
	}
	for _, ref := range w.listed {
		id, err := w.ref(ctx, ref)
		if err != nil {
			return nil, fmt.Errorf("rewrite %s: %w", ref.Name, err)
		}
		if id != ref.ID {
			changes = append(changes, refs.Change{Name: ref.Name, Old: ref.ID, New: id, Reason: reason})
		}
	}
	return changes, w.noneHeld(ctx)
}

// noneHeld makes sure that no commit that is held would become another one.
func (w *rewriter) noneHeld(ctx context.Context) error {
	var held []record.Record
	for _, hold := range retain.HoldsOf(w.records) {
		became, err := w.commit(ctx, hold.Key.ID)
		if err != nil {
			return fmt.Errorf("look at the hold of %s: %w", hold.Key.ID.Short(), err)
		}
		if became != hold.Key.ID {
			held = append(held, hold)
		}
	}
	if len(held) > 0 {
		return &retain.HeldError{Holds: held}
	}
	return nil
}

func branchesAndTags(r *kist.Repository) ([]refs.Ref, error) {
	branches, err := r.Refs().List(refs.Heads)
	if err != nil {
		return nil, err
	}
	tags, err := r.Refs().List(refs.Tags)
	return append(branches, tags...), err
}

// ref returns the new object of a branch or tag. A tag object is replaced if its
// commit is.
func (w *rewriter) ref(ctx context.Context, ref refs.Ref) (object.ID, error) {
	commit, err := refs.Peel(ctx, w.r.Objects(), ref.ID)
	if err != nil {
		return commit, err
	}
	id, err := w.commit(ctx, commit)
	if err != nil || commit == ref.ID {
		return id, err
	}
	if id == commit {
		return ref.ID, nil
	}
	tag, err := object.ReadTag(ctx, w.r.Objects(), ref.ID)
	if err != nil {
		return id, err
	}
	tag.Target = id
	data, err := tag.Encode()
	if err != nil {
		return id, err
	}
	return w.rw.Put(ctx, object.KindTag, data)
}

// commit returns what a commit becomes, after all before it.
func (w *rewriter) commit(ctx context.Context, tip object.ID) (object.ID, error) {
	return graph.Fold(ctx, w.commits, tip, func(id object.ID) (*object.Commit, []object.ID, error) {
		c, err := object.ReadCommit(ctx, w.r.Objects(), id)
		if err != nil {
			return nil, nil, err
		}
		return c, c.Parents, nil
	}, func(id object.ID, c *object.Commit) (object.ID, error) { return w.one(ctx, id, c) })
}

// one returns the new ID of a commit. Its parents are rewritten already.
func (w *rewriter) one(ctx context.Context, id object.ID, c *object.Commit) (object.ID, error) {
	info, err := w.tree(ctx, id, c)
	if err != nil {
		return id, err
	}
	changed := info.ID != c.Tree
	c.Tree, c.Files, c.Bytes = info.ID, info.Files, info.Bytes
	var parents []object.ID
	for _, parent := range c.Parents {
		became := w.commits[parent]
		changed = changed || became != parent
		if !slices.Contains(parents, became) { // two may have become the same
			parents = append(parents, became)
		}
	}
	if !changed {
		return id, nil
	}
	c.Parents = parents
	data, err := c.Encode()
	if err != nil {
		return id, err
	}
	became, err := w.rw.Put(ctx, object.KindCommit, data)
	if err != nil {
		return id, err
	}
	w.order = append(w.order, Commit{id, became})
	return became, nil
}

// tree returns a commit's tree without the removed files. If its content has expired
// and is gone, the tree stays the same.
func (w *rewriter) tree(ctx context.Context, id object.ID, c *object.Commit) (tree.Info, error) {
	base := tree.Info{ID: c.Tree, Files: c.Files, Bytes: c.Bytes}
	if info, done := w.trees[c.Tree]; done {
		return info, nil
	}
	if intact.IsGone(ctx, w.r, w.records, id, c) {
		return base, nil
	}
	paths, err := w.paths(ctx, c.Tree)
	if err != nil {
		return base, err
	}
	info := base
	if len(paths) > 0 {
		editor := tree.NewEditor(w.rw, base)
		for _, path := range paths {
			if err := editor.Remove(ctx, path); err != nil {
				return base, err
			}
		}
		if info, err = editor.Finish(ctx); err != nil {
			return base, err
		}
	}
	w.trees[c.Tree] = info
	return info, nil
}

// paths returns the paths to remove from a tree, in path order.
func (w *rewriter) paths(ctx context.Context, root object.ID) ([]string, error) {
	found := map[string]bool{}
	walk := w.plan.Walk
	err := walk.Files(ctx, root, func(path string, e *object.Entry) {
		if walk.Targets[e.Content] != nil {
			found[path] = true
		}
	})
	if err != nil {
		return nil, err
	}
	for _, at := range w.plan.O.Paths {
		if err := w.pathsAt(ctx, root, at.Path, found); err != nil {
			return nil, err
		}
	}
	return stage.Outermost(slices.Collect(maps.Keys(found))), nil
}

// pathsAt finds the paths to remove at a path of the plan and below it: all files, or
// the inline ones.
func (w *rewriter) pathsAt(ctx context.Context, root object.ID, path string, found map[string]bool) error {
	if !w.plan.O.AllHistory && len(w.plan.Inlines) == 0 {
		return nil
	}
	goes := func(e *object.Entry) bool {
		return e.Type != object.TypeDir && e.Content.IsZero() && w.plan.Inlines[purge.InlineContent(e)]
	}
	e, err := tree.Find(ctx, w.r.Objects(), root, path)
	switch {
	case errors.Is(err, tree.ErrNotExist), errors.Is(err, tree.ErrNotDir):
		return nil
	case err != nil:
		return err
	case w.plan.O.AllHistory || goes(&e):
		found[path] = true
		return nil
	case e.Type != object.TypeDir:
		return nil
	}
	return tree.Walk(ctx, w.r.Objects(), e.Content.ID, func(below string, e object.Entry) error {
		if goes(&e) {
			found[tree.Join(path, below)] = true
		}
		return nil
	})
}

// Package rewrite replaces the commits that hold a purged content.
package rewrite

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/gc/purge"
	"github.com/kist-vcs/kist/gc/retain"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/object/graph"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/history"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/look/compare"
	"github.com/kist-vcs/kist/tree/look/versions"
	"github.com/kist-vcs/kist/tree/work/commits"
	"github.com/kist-vcs/kist/tree/work/operation"
	"github.com/kist-vcs/kist/tree/work/stage"
)

// Result is the result of [Run].
type Result struct {
	Commits []Replaced    // parents before their children
	Refs    []refs.Change // branches and tags that were moved, and "HEAD" if it is detached
	File    string        // with the map of Commits, in the .kist folder; "" if none was written
	Signed  int           // replaced commits and tags that had a signature; the new ones have none
}

// Replaced is a replaced commit and its replacement.
type Replaced struct {
	Old object.ID `json:"old" doc:"the commit before"`
	New object.ID `json:"new" doc:"the commit now"`
}

// Run rewrites history without the contents that a plan would purge, inline
// content included. It replaces all commits that HEAD, branches and tags reach,
// if they have such a content or come after one that has. Authors, dates,
// messages and the structure of merges stay; signatures do not. Paths that were given with
// AllHistory disappear from all commits, whatever their content is.
//
// Branches and tags move to the new commits. A new commit has expired if the old
// one had. Log entries that name old commits are dropped, and so are names such
// as ORIG_HEAD. The index gets the tree of the new HEAD. The worktree stays, so
// the removed files become untracked. A file in .kist maps old IDs to new ones.
//
// If a held commit would be replaced, Run does nothing and returns a
// [*retain.HeldError]. It also refuses to run during an operation, or while
// changes are staged. A kill at any moment leaves each branch old or new, and
// the next Run completes the work.
//
// Run does not purge the contents: remote-tracking branches, remotes and other
// clones still have the old commits.
func Run(ctx context.Context, r *kist.Repository, p *purge.Plan, dryRun bool) (*Result, error) {
	if err := operation.NoOperation(r); err != nil {
		return nil, err
	}
	tx := r.Begin(volume.SessionOptions{})
	defer tx.Close()

	w := &rewriter{r: r, plan: p, rw: tx, commits: map[object.ID]object.ID{}, trees: map[object.ID]tree.Info{}}
	if dryRun {
		w.rw = object.NewOverlay(r.Objects())
	}
	set, err := r.Records().Load()
	if err != nil {
		return nil, err
	}
	w.records = set.At(r.Options().Now()) // a hold that is over blocks nothing
	// From here on, the trees of old commits count as intact.
	if w.head, _, err = tx.ReadTrusted(ctx); err != nil {
		return nil, err
	}
	changes, err := w.rewriteRefs(ctx)
	if err != nil {
		return nil, err
	}
	if err := w.nothingStaged(ctx); err != nil {
		return nil, err
	}
	result := &Result{Commits: w.order, Refs: changes, Signed: w.signed}
	switch {
	case dryRun:
		return result, nil
	case len(w.order) == 0:
		return result, w.forgetOld(ctx, nil)
	}

	tx.NoteStep(func(ctx context.Context) (err error) {
		if err := w.checkUnmoved(); err != nil {
			return err
		}
		if result.File, err = w.writeMap(); err != nil {
			return err
		}
		return w.publishMoves(ctx, changes)
	})
	return result, tx.Publish(ctx)
}

// rewriter is the state of one Run.
type rewriter struct {
	r       *kist.Repository
	plan    *purge.Plan
	rw      object.ReadWriter
	records *record.Effects

	head    refs.Head
	listed  []refs.Ref              // the former branches and tags
	commits map[object.ID]object.ID // new IDs of the visited commits, by old ID
	trees   map[object.ID]tree.Info // new trees of the visited trees, by old ID
	order   []Replaced              // the replaced commits
	signed  int                     // see Result
}

// rewriteRefs rewrites all commits and returns the moves of refs.
func (w *rewriter) rewriteRefs(ctx context.Context) ([]refs.Change, error) {
	const reason = "purge: rewrite"
	var changes []refs.Change
	if w.head.Branch == "" {
		id, err := w.rewriteCommit(ctx, w.head.ID)
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
		id, err := w.rewriteRef(ctx, ref)
		if err != nil {
			return nil, fmt.Errorf("rewrite %s: %w", ref.Name, err)
		}
		if id != ref.ID {
			changes = append(changes, refs.Change{Name: ref.Name, Old: ref.ID, New: id, Reason: reason})
		}
	}

	return changes, w.noneHeld(ctx)
}

// noneHeld returns a [*retain.HeldError] if a held commit would be replaced.
func (w *rewriter) noneHeld(ctx context.Context) error {
	var held []record.Record
	for _, hold := range retain.HoldsOf(w.records) {
		became, err := w.rewriteCommit(ctx, hold.Key.ID)
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

// rewriteRef returns the new object of a branch or tag. It replaces a tag object if the
// commit of the tag is replaced.
func (w *rewriter) rewriteRef(ctx context.Context, ref refs.Ref) (object.ID, error) {
	commit, err := refs.Peel(ctx, w.r.Objects(), ref.ID)
	if err != nil {
		return commit, err
	}
	id, err := w.rewriteCommit(ctx, commit)
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
	tag.Target, tag.Signature = id, w.dropSignature(tag.Signature)
	return object.PutNode(ctx, w.rw, object.KindTag, tag)
}

// rewriteCommit rewrites a commit and its ancestors, and returns the new ID.
func (w *rewriter) rewriteCommit(ctx context.Context, tip object.ID) (object.ID, error) {
	return graph.Fold(ctx, w.commits, tip, func(id object.ID) (*object.Commit, []object.ID, error) {
		c, err := object.ReadCommit(ctx, w.r.Objects(), id)
		if err != nil {
			return nil, nil, err
		}
		return c, c.Parents, nil
	}, func(id object.ID, c *object.Commit) (object.ID, error) { return w.rewriteOne(ctx, id, c) })
}

// rewriteOne returns the new ID of a commit. Its parents are rewritten already.
func (w *rewriter) rewriteOne(ctx context.Context, id object.ID, c *object.Commit) (object.ID, error) {
	info, err := w.rewriteTree(ctx, id, c)
	if err != nil {
		return id, err
	}
	changed := info.ID != c.Tree
	c.Tree, c.Files, c.Bytes = info.ID, info.Files, info.Bytes
	var parents []object.ID
	for _, parent := range c.Parents {
		became := w.commits[parent]
		changed = changed || became != parent
		if !slices.Contains(parents, became) { // two parents can have the same replacement
			parents = append(parents, became)
		}
	}

	if !changed {
		return id, nil
	}
	c.Parents, c.Signature = parents, w.dropSignature(c.Signature)
	became, err := object.PutNode(ctx, w.rw, object.KindCommit, c)
	if err != nil {
		return id, err
	}
	w.order = append(w.order, Replaced{id, became})
	return became, nil
}

// dropSignature counts a signature, and returns that of the new commit or tag: none. A new signature
// could differ each time, and so a repeated Run would not find the commits of an interrupted one.
// It would also be by the user's key, whoever made the commit.
func (w *rewriter) dropSignature(signature []byte) []byte {
	if len(signature) > 0 {
		w.signed++
	}
	return nil
}

// rewriteTree returns a commit's tree without the removed files. If its content has expired
// and is gone, the tree stays the same.
func (w *rewriter) rewriteTree(ctx context.Context, id object.ID, c *object.Commit) (tree.Info, error) {
	base := tree.Info{ID: c.Tree, Files: c.Files, Bytes: c.Bytes}
	if info, done := w.trees[c.Tree]; done {
		return info, nil
	}
	if kist.IsContentGone(ctx, w.r, w.records, id, c) {
		return base, nil
	}
	paths, err := w.pathsToRemove(ctx, history.Commit{ID: id, Commit: c})
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

// pathsToRemove returns the paths to remove from a commit, in path order.
func (w *rewriter) pathsToRemove(ctx context.Context, c history.Commit) ([]string, error) {
	found := map[string]bool{}
	walk := w.plan.Walk
	err := walk.Files(ctx, c, func(path string, e *object.Entry) {
		if walk.Targets[e.Content] != nil {
			found[path] = true
		}
	})
	if err != nil {
		return nil, err
	}
	for _, at := range w.plan.O.Paths {
		if err := w.pathsAt(ctx, c.Tree, at.Path, found); err != nil {
			return nil, err
		}
	}

	return stage.Outermost(slices.Collect(maps.Keys(found))), nil
}

// pathsAt finds the paths to remove at a path of the plan and below it: all
// files, or those with inline content.
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

// nothingStaged returns an error if the index differs from HEAD's tree. It
// accepts an index with the tree of the new HEAD: then an earlier rewrite was
// stopped before it moved HEAD.
func (w *rewriter) nothingStaged(ctx context.Context) error {
	from, err := kist.CommitTree(ctx, w.r, w.head.ID)
	if err != nil {
		return err
	}
	err = commits.NothingStaged(ctx, w.r, from)
	var local *stage.LocalChangesError
	became, moves := w.headMoves()
	if !errors.As(err, &local) || !moves {
		return err
	}
	to, cerr := object.ReadCommit(ctx, w.rw, became)
	if cerr != nil {
		return cerr
	}
	if staged, serr := compare.OfIndex(ctx, w.r); serr != nil || staged.Tree == to.Tree {
		return serr
	}
	return err
}

// headMoves returns the new ID of HEAD's commit, and whether it is replaced.
func (w *rewriter) headMoves() (object.ID, bool) {
	became, known := w.commits[w.head.ID]
	return became, known && became != w.head.ID
}

// checkUnmoved returns an error if HEAD, a branch or a tag moved meanwhile, or is
// new: a new one would keep the old commits. The caller publishes.
func (w *rewriter) checkUnmoved() error {
	list, err := branchesAndTags(w.r)
	if err != nil {
		return err
	}
	now, err := w.r.Refs().Head()
	if err == nil && (!slices.Equal(list, w.listed) || now != w.head) {
		err = fmt.Errorf("branches were moved while history was rewritten: %w", refs.ErrMoved)
	}
	return err
}

// publishMoves makes names lead to the new commits. It can be stopped after each step
// and run again. First it records the new commits that have expired. Then it
// changes the index: after HEAD has moved, removed files in the index would look
// staged. HEAD moves last, because the next run looks up the paths there.
func (w *rewriter) publishMoves(ctx context.Context, changes []refs.Change) error {
	became := make(map[object.ID]object.ID, len(w.order))
	for _, c := range w.order {
		became[c.Old] = c.New
	}

	if err := w.recordExpired(ctx, became); err != nil {
		return err
	}
	if id, moves := w.headMoves(); moves {
		to, err := w.r.RecordedTree(ctx, id)
		if err != nil {
			return err
		}
		err = index.Update(ctx, w.r.Dir(), func(idx *index.Index) error {
			return index.ReadTreeIn(ctx, idx, w.r.Objects(), to, w.r.Config().Cone())
		})
		if err != nil {
			return err
		}
	}
	if err := w.r.Refs().Update(ctx, w.headLast(changes), w.r.Who()); err != nil {
		return err
	}
	return w.forgetOld(ctx, changes)
}

// headLast returns changes with the current branch at the end.
func (w *rewriter) headLast(changes []refs.Change) []refs.Change {
	last := func(c refs.Change) bool { return c.Name == "HEAD" || c.Name == refs.Heads+w.head.Branch }
	sorted := slices.DeleteFunc(slices.Clone(changes), last)
	return append(sorted, slices.DeleteFunc(slices.Clone(changes), func(c refs.Change) bool { return !last(c) })...)
}

// recordExpired makes the new commits expire whose old commits had. If an old commit is
// held by now, it returns a [*retain.HeldError] and changes nothing.
func (w *rewriter) recordExpired(ctx context.Context, became map[object.ID]object.ID) error {
	return w.r.Records().Update(ctx, func(set *record.Set) error {
		now := w.r.Options().Now()
		for _, rec := range slices.Collect(set.All()) {
			id, ok := became[rec.Key.ID]
			if !ok || !rec.On || rec.Over(now) || rec.Key.Kind != object.KindCommit {
				continue
			}
			if rec.Kind == record.Hold {
				return &retain.HeldError{Holds: []record.Record{rec}}
			}
			rec.Key.ID = id
			if err := set.Switch(rec); err != nil {
				return err
			}
		}
		return nil
	})
}

// forgetOld removes old commits from the reflogs, ORIG_HEAD and FETCH_HEAD. A commit is old if this
// run replaced it, or if an earlier run replaced it and it is now unreachable. forgetOld also deletes
// the index of history, because it has paths and hashes of the removed files.
func (w *rewriter) forgetOld(ctx context.Context, changes []refs.Change) error {
	if err := versions.Discard(w.r.Dir()); err != nil {
		return err
	}
	old, err := gc.Rewritten(w.r)
	if err != nil {
		return err
	}
	for id := range old {
		if became, known := w.commits[id]; known && became == id {
			delete(old, id)
		}
	}

	for _, change := range changes { // tag objects, too
		old[change.Old] = true
	}

	for _, name := range []string{refs.OrigHead, refs.FetchHead} {
		id, err := w.r.Refs().Special(name)
		if errors.Is(err, refs.ErrNotFound) {
			continue
		}
		if err == nil && old[id] {
			err = w.r.Refs().ClearSpecial(ctx, name)
		}
		if err != nil {
			return err
		}
	}

	return gc.ExpireLogs(ctx, w.r, func(_ string, e refs.LogEntry) bool { return !old[e.Old] && !old[e.New] })
}

// writeMap writes a file with a line for each replaced commit: the old ID, a
// space, the new ID. It returns the path of the file below the .kist folder.
func (w *rewriter) writeMap() (string, error) {
	dir := filepath.Join(w.r.Dir(), gc.RewrittenDir)
	if err := errors.Join(disk.MkdirAll(dir, 0o777), disk.SyncDir(w.r.Dir())); err != nil {
		return "", err
	}
	var text strings.Builder
	for _, c := range w.order {
		fmt.Fprintf(&text, "%s %s\n", c.Old, c.New)
	}

	name := w.r.Options().Now().UTC().Format("20060102T150405.000000000Z")
	return gc.RewrittenDir + "/" + name, disk.WriteFile(filepath.Join(dir, name), []byte(text.String()))
}

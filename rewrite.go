package kist

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
)

// rewrittenDir is the folder, in the .kist folder, with the maps of commits that
// were rewritten.
const rewrittenDir = "rewritten"

// RewriteResult tells what [Repository.Rewrite] did.
type RewriteResult struct {
	Commits []RewrittenCommit // parents before their children
	Refs    []refs.Change     // branches and tags that were moved, and "HEAD" if it is detached
	File    string            // with the map of Commits, in the .kist folder; "" if none was written
}

// RewrittenCommit is a commit, and the one in its place.
type RewrittenCommit struct{ Old, New object.ID }

// Rewrite makes the history anew without what a plan would purge, what is kept
// inline included: all commits that HEAD, branches, tags and holds reach, if
// they have it, and those after them, get other IDs. Authors, dates, messages
// and the structure of merges stay. Of paths that were given with AllHistory,
// nothing stays, whatever they held.
//
// Branches and tags are moved, holds and expirations are those of the new
// commits, and log entries and names such as ORIG_HEAD that tell of old ones are
// dropped. The index is that of the new HEAD; the worktree stays as it is, and
// what was removed is untracked. Which commit became which is written to a file.
// No operation may be under way and nothing staged. Killed at any moment, it
// leaves every branch old or new, and can be run again.
//
// The contents are not purged by this: remote-tracking branches, remotes and
// other clones still have the old commits.
func (r *Repository) Rewrite(ctx context.Context, p *PurgePlan, dryRun bool) (*RewriteResult, error) {
	if err := r.noOperation(); err != nil {
		return nil, err
	}
	head, err := r.refs.Head()
	if err != nil {
		return nil, err
	}
	from, err := r.commitTree(ctx, head.ID)
	if err != nil {
		return nil, err
	}
	if err := r.nothingStaged(ctx, from); err != nil {
		return nil, err
	}
	// The trees of old commits are taken to be whole.
	session := r.objects.Begin(volume.SessionOptions{Trusting: true})
	defer session.Close()
	w := &rewriter{r: r, plan: p, rw: session, commits: map[object.ID]object.ID{}, trees: map[object.ID]tree.Info{}}
	if dryRun {
		w.rw = newOverlay(r.objects)
	}
	if w.said, err = r.Said(); err != nil {
		return nil, err
	}
	changes, err := w.changes(ctx, head)
	if err != nil {
		return nil, err
	}
	result := &RewriteResult{Commits: w.order, Refs: changes}
	if dryRun || len(w.order) == 0 {
		return result, nil
	}
	return result, session.Publish(ctx, func(ctx context.Context) (err error) {
		if err := w.unchanged(head); err != nil {
			return err
		}
		if result.File, err = w.writeMap(); err != nil {
			return err
		}
		return w.publish(ctx, head, changes)
	})
}

// rewriter makes history anew.
type rewriter struct {
	r    *Repository
	plan *PurgePlan
	rw   object.ReadWriter
	said *record.View

	listed  []refs.Ref              // branches and tags, as they were
	commits map[object.ID]object.ID // those that were looked at, and what they became
	trees   map[object.ID]tree.Info // the same of trees
	order   []RewrittenCommit       // those that became others
}

// changes rewrites all, and returns how refs move.
func (w *rewriter) changes(ctx context.Context, head refs.Head) ([]refs.Change, error) {
	const reason = "purge: rewrite"
	var changes []refs.Change
	if head.Branch == "" {
		id, err := w.commit(ctx, head.ID)
		if err != nil {
			return nil, err
		}
		if id != head.ID {
			changes = append(changes, refs.Change{Name: "HEAD", Old: head.ID, New: id, Reason: reason})
		}
	}
	var err error
	if w.listed, err = w.r.branchesAndTags(); err != nil {
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
	for _, id := range w.said.Holds() {
		if _, err := w.commit(ctx, id); err != nil {
			return nil, fmt.Errorf("rewrite what is held: %w", err)
		}
	}
	return changes, nil
}

func (r *Repository) branchesAndTags() ([]refs.Ref, error) {
	branches, err := r.refs.List(refs.Heads)
	if err != nil {
		return nil, err
	}
	tags, err := r.refs.List(refs.Tags)
	return append(branches, tags...), err
}

// ref returns what a branch or tag is to be. A tag object is made anew if its
// commit is.
func (w *rewriter) ref(ctx context.Context, ref refs.Ref) (object.ID, error) {
	commit, err := refs.Peel(ctx, w.r.objects, ref.ID)
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
	tag, err := object.ReadTag(ctx, w.r.objects, ref.ID)
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
	for stack := []object.ID{tip}; len(stack) > 0; {
		id := stack[len(stack)-1]
		if _, done := w.commits[id]; done {
			stack = stack[:len(stack)-1]
			continue
		}
		c, err := object.ReadCommit(ctx, w.r.objects, id)
		if err != nil {
			return id, err
		}
		waits := false
		for _, parent := range c.Parents {
			if _, done := w.commits[parent]; !done {
				stack, waits = append(stack, parent), true
			}
		}
		if waits {
			continue
		}
		stack = stack[:len(stack)-1]
		if w.commits[id], err = w.one(ctx, id, c); err != nil {
			return id, err
		}
	}
	return w.commits[tip], nil
}

// one returns what a commit becomes, given its parents have become what they
// are to be.
func (w *rewriter) one(ctx context.Context, id object.ID, c *object.Commit) (object.ID, error) {
	info, err := w.tree(ctx, id, c)
	if err != nil {
		return id, err
	}
	changed := info.ID != c.Tree
	c.Tree, c.Files, c.Bytes = info.ID, info.Files, info.Bytes
	var parents []object.ID
	for _, parent := range c.Parents {
		new := w.commits[parent]
		changed = changed || new != parent
		if !slices.Contains(parents, new) { // two may have become the same
			parents = append(parents, new)
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
	new, err := w.rw.Put(ctx, object.KindCommit, data)
	w.order = append(w.order, RewrittenCommit{id, new})
	return new, err
}

// tree returns a commit's tree without what is to go. If its content has expired
// and is gone, the tree stays what it was: there is nothing in it to be had.
func (w *rewriter) tree(ctx context.Context, id object.ID, c *object.Commit) (tree.Info, error) {
	base := tree.Info{ID: c.Tree, Files: c.Files, Bytes: c.Bytes}
	if info, done := w.trees[c.Tree]; done {
		return info, nil
	}
	if _, expired := w.said.Expired(id); expired && w.r.lacks(ctx, treeOf(c)) {
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

// paths returns what is to go from a tree, in path order.
func (w *rewriter) paths(ctx context.Context, root object.ID) ([]string, error) {
	found := map[string]bool{}
	if err := w.plan.walk.each(ctx, root, "", func(path string) { found[path] = true }); err != nil {
		return nil, err
	}
	for _, at := range w.plan.o.Paths {
		e, err := tree.Find(ctx, w.r.objects, root, at.Path)
		switch {
		case errors.Is(err, tree.ErrNotExist), errors.Is(err, tree.ErrNotDir):
			continue
		case err != nil:
			return nil, err
		case w.plan.o.AllHistory:
			found[at.Path] = true
		case e.Type != object.TypeDir:
			if w.plan.inlines[inlineContent(&e)] {
				found[at.Path] = true
			}
		default:
			if err := tree.Walk(ctx, w.r.objects, e.Content.ID, func(below string, e object.Entry) error {
				if e.Type != object.TypeDir && e.Content.IsZero() && w.plan.inlines[inlineContent(&e)] {
					found[tree.Join(at.Path, below)] = true
				}
				return nil
			}); err != nil {
				return nil, err
			}
		}
	}
	return outermost(slices.Collect(maps.Keys(found))), nil
}

// each calls fn for the paths below a folder's node that have a target as their
// content.
func (w *purgeWalk) each(ctx context.Context, id object.ID, dir string, fn func(path string)) error {
	below, err := w.below(ctx, id)
	if err != nil || !below {
		return err
	}
	t, err := object.ReadTree(ctx, w.r.objects, id)
	if err != nil {
		return err
	}
	for _, c := range t.Children {
		if err := w.each(ctx, c.ID, dir, fn); err != nil {
			return err
		}
	}
	for i := range t.Entries {
		e := &t.Entries[i]
		path := tree.Join(dir, e.Name)
		if e.Type == object.TypeDir {
			if err := w.each(ctx, e.Content.ID, path, fn); err != nil {
				return err
			}
		} else if w.targets[e.Content] != nil {
			fn(path)
		}
	}
	return nil
}

// unchanged makes sure that branches and tags are what they were: a new one
// would keep the old commits. It is called while publishing.
func (w *rewriter) unchanged(head refs.Head) error {
	list, err := w.r.branchesAndTags()
	if err != nil {
		return err
	}
	if now, err := w.r.refs.Head(); err != nil {
		return err
	} else if !slices.Equal(list, w.listed) || now != head {
		return fmt.Errorf("branches were moved while history was rewritten: %w", refs.ErrMoved)
	}
	return nil
}

// writeMap writes down which commit became which: a line for each, the old ID, a
// space, the new one. It returns the file's name in the .kist folder.
func (w *rewriter) writeMap() (string, error) {
	dir := filepath.Join(w.r.dir, rewrittenDir)
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return "", err
	}
	var text strings.Builder
	for _, c := range w.order {
		fmt.Fprintf(&text, "%s %s\n", c.Old, c.New)
	}
	name := w.r.opt.Now().UTC().Format("20060102T150405.000000000Z")
	return rewrittenDir + "/" + name, disk.WriteFile(filepath.Join(dir, name), []byte(text.String()))
}

// rewritten returns the commits that were rewritten, by the maps that tell it.
// Lines that are none do not count.
func (r *Repository) rewritten() (map[object.ID]bool, error) {
	dir := filepath.Join(r.dir, rewrittenDir)
	list, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	old := map[object.ID]bool{}
	for _, f := range list {
		data, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(data)) {
			first, _, _ := strings.Cut(line, " ")
			if id, err := object.ParseID(first); err == nil && !id.IsZero() {
				old[id] = true
			}
		}
	}
	return old, nil
}

// publish puts the new commits in the place of the old ones. The index comes
// first: what was removed must not look as if it had just been staged.
func (w *rewriter) publish(ctx context.Context, head refs.Head, changes []refs.Change) error {
	r := w.r
	if now, ok := w.commits[head.ID]; ok && now != head.ID {
		to, err := r.commitTree(ctx, now)
		if err != nil {
			return err
		}
		err = index.Update(ctx, r.dir, func(idx *index.Index) error { return idx.ReadTree(ctx, r.objects, to) })
		if err != nil {
			return err
		}
	}
	if err := r.refs.Update(ctx, changes, r.who()); err != nil {
		return err
	}
	became := make(map[object.ID]object.ID, len(w.order))
	for _, c := range w.order {
		became[c.Old] = c.New
	}
	for _, change := range changes { // tag objects, too
		became[change.Old] = change.New
	}
	if err := w.forget(ctx, became); err != nil {
		return err
	}
	return r.Records().Update(ctx, func(set *record.Set) error {
		for _, rec := range slices.Collect(set.All()) {
			new, ok := became[rec.Key.ID]
			if !ok || !rec.On || rec.Kind == record.Purge {
				continue
			}
			moved := rec
			moved.Key.ID = new
			set.Switch(moved)
			if rec.Kind == record.Hold {
				rec.On, rec.Time, rec.Who, rec.Host = false, r.opt.Date().UTC(), r.recorder(), r.opt.Host
				set.Switch(rec)
			}
		}
		return nil
	})
}

// forget drops log entries and special names that tell of old commits.
func (w *rewriter) forget(ctx context.Context, became map[object.ID]object.ID) error {
	logs, err := w.r.refs.Logs()
	if err != nil {
		return err
	}
	for _, name := range logs {
		_, err := w.r.refs.ExpireLog(ctx, name, func(e refs.LogEntry) bool {
			return became[e.Old].IsZero() && became[e.New].IsZero()
		})
		if err != nil {
			return err
		}
	}
	for _, name := range []string{refs.OrigHead, refs.FetchHead} {
		id, err := w.r.refs.Special(name)
		if errors.Is(err, refs.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		if !became[id].IsZero() {
			if err := w.r.refs.ClearSpecial(ctx, name); err != nil {
				return err
			}
		}
	}
	return nil
}

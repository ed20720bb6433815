package stash

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/look/compare"
	"github.com/kist-vcs/kist/tree/work/checkout"
	"github.com/kist-vcs/kist/tree/work/operation"
	"github.com/kist-vcs/kist/tree/work/stage"
)

// PushOptions configure [Push].
type PushOptions struct {
	Message   string   // empty: the subject of HEAD's commit
	Paths     []string // undo only the changes at these paths, and stash them and all staged changes; nil: everything
	Untracked bool     // also untracked files
	KeepIndex bool     // keep staged changes in index and worktree

	// Select chooses a part of the changes. It gets the trees of HEAD and of the worktree. It
	// returns the parts to stash, and the parts to change back in the worktree. Nil: all.
	// Select may be called again, with the same trees or others.
	Select func(ctx context.Context, head, worktree compare.Side) (stashed, rest []stage.Chosen, err error)

	// Recording notes changes to make before the stash is added to the list. If Push has to
	// try again, it calls Recording again, with another stash. It may be nil.
	Recording func(tx *kist.Tx, stash object.ID)

	Progress kist.Progress
}

// Push records the changes of index and worktree as a stash, and then undoes them. A kill
// at any moment leaves the changes in the worktree or in a stash. Without changes, Push does
// nothing and returns [ErrNothing]. It returns [ErrNotChosen] if Select chooses none, and a
// [*stage.LocalChangesError] if a change cannot be recorded or undone. If only some paths
// cannot be written, Push returns the stash and a [*worktree.ApplyError].
func Push(ctx context.Context, r *kist.Repository, o PushOptions) (entry Listed, err error) {
	if err := operation.NoOperation(r); err != nil {
		return entry, err
	}
	var p *pusher
	err = r.Update(ctx, func(tx *kist.Tx) error {
		p, err = push(ctx, tx, o)
		return err
	})
	if err != nil {
		return entry, err
	}
	list, err := List(r)
	if i := slices.IndexFunc(list, func(e Listed) bool { return e.New == p.id }); i >= 0 {
		entry = list[i]
	} else if err == nil {
		err = fmt.Errorf("%w: another process dropped it", ErrNone)
	}
	return entry, errors.Join(p.undo.Apply(ctx, r), err)
}

// pusher is one attempt of Push.
type pusher struct {
	PushOptions
	repo    *kist.Repository
	tx      *kist.Tx
	objects object.ReadWriter
	head    refs.Head
	base    *object.Commit
	idx     *index.Index // first as stored; then it has the worktree's state, and is not saved

	staged, worktree tree.Info // the trees of the index and of the worktree
	untracked        []string  // files that only the latter has

	id   object.ID
	undo *checkout.Planned // undoes the changes
}

// push records the stash and plans the rest.
func push(ctx context.Context, tx *kist.Tx, o PushOptions) (*pusher, error) {
	r := tx.Repository()
	p := &pusher{PushOptions: o, repo: r, tx: tx, objects: r.Unpurged(tx)}
	var err error
	if p.head, p.idx, err = tx.ReadTrusted(ctx); err != nil {
		return nil, err
	}
	if p.head.Unborn() {
		return nil, kist.ErrUnborn
	}
	if err := kist.CheckUsable(ctx, r, p.head.ID); err != nil {
		return nil, err
	}
	if p.base, err = object.ReadCommit(ctx, r.Objects(), p.head.ID); err != nil {
		return nil, err
	}
	if err := p.storeTrees(ctx); err != nil {
		return nil, err
	}
	message, err := p.planAndStore(ctx)
	if err != nil {
		return nil, err
	}

	tx.Need(p.head.ID)
	if o.Recording != nil {
		o.Recording(tx, p.id)
	}
	noteListed(tx, p.id, message)
	return p, nil
}

// noteListed notes in tx that a stash becomes the newest of the list.
func noteListed(tx *kist.Tx, id object.ID, message string) {
	r := tx.Repository()
	tx.NoteStep(func(ctx context.Context) error {
		old, err := r.Refs().Get(refs.Stash)
		if err != nil && !errors.Is(err, refs.ErrNotFound) {
			return err
		}
		return r.Refs().Update(ctx, []refs.Change{{Name: refs.Stash, Old: old, New: id, Reason: message}}, r.Who())
	})
}

// StoreDropped adds a stash that was dropped to the list again, with a message.
func StoreDropped(ctx context.Context, r *kist.Repository, id object.ID, message string) (Listed, error) {
	err := r.Publish(ctx, func(tx *kist.Tx) {
		tx.Need(id)
		noteListed(tx, id, message)
	})
	return Listed{0, refs.LogEntry{New: id, Reason: message}}, err
}

// storeTrees stores the trees of the index and of the worktree.
func (p *pusher) storeTrees(ctx context.Context) error {
	var err error
	if p.staged, err = p.idx.WriteTree(ctx, p.tx); err != nil {
		return err
	}
	files, err := stage.Prepare(ctx, p.repo, p.tx, p.idx, stage.AddOptions{Paths: p.Paths, Update: !p.Untracked, Progress: p.Progress})
	if err != nil {
		return err
	}
	var unread []stage.Obstacle
	for _, s := range files.Result.Skipped {
		if s.Reason == index.ErrLeftOut.Error() {
			continue // as an ignored file
		}
		unread = append(unread, stage.Obstacle{Path: s.Path, Reason: s.Reason})
	}
	if !p.Untracked { // files that 'add -N' noted, or in the place of a tracked file
		for path := range files.Result.Added.All() {
			unread = append(unread, stage.Obstacle{Path: path, Reason: "the index does not have its content"})
		}
	}
	if err := stage.ObstacleError(unread); err != nil {
		return err
	}

	p.untracked = files.Result.Added.Paths()
	if err := files.Apply(); err != nil {
		return err
	}
	p.worktree, err = p.idx.WriteTree(ctx, p.tx)
	return err
}

// planAndStore stores the commits of the stash, and plans how to undo the changes. It returns
// the message for the log.
func (p *pusher) planAndStore(ctx context.Context) (message string, err error) {
	indexAfter := tree.Info{ID: p.base.Tree} // worktree and index without the changes
	if p.Paths != nil {
		if indexAfter, err = p.treeWithPathsFrom(ctx, p.staged, p.base.Tree, p.Paths); err != nil {
			return "", err
		}
	}
	same, err := p.areEqual(ctx, indexAfter.ID, p.staged.ID, p.worktree.ID)
	if err == nil && same {
		err = ErrNothing
	}
	if err != nil {
		return "", err
	}

	stashed, err := p.treeWithPathsFrom(ctx, p.worktree, p.staged.ID, p.untracked)
	if err != nil {
		return "", err
	}
	if p.KeepIndex {
		indexAfter = p.staged
	}
	worktreeAfter := indexAfter.ID
	if p.Select != nil {
		if stashed, worktreeAfter, err = p.chosenTrees(ctx); err != nil {
			return "", err
		}
	}
	if err := p.planUndo(ctx, worktreeAfter, indexAfter.ID); err != nil {
		return "", err
	}

	return p.storeCommits(ctx, stashed)
}

// chosenTrees calls Select, and returns the trees that the user chose: to stash, and for the
// worktree.
func (p *pusher) chosenTrees(ctx context.Context) (stashed tree.Info, rest object.ID, err error) {
	of := func(id object.ID) compare.Side { return compare.Side{Tree: id, Objects: p.objects} }
	put, left, err := p.Select(ctx, of(p.base.Tree), of(p.worktree.ID))
	if err == nil && len(put) == 0 {
		err = ErrNotChosen
	}
	if err != nil {
		return stashed, rest, err
	}
	base, err := tree.ReadInfo(ctx, p.objects, p.base.Tree)
	if err != nil {
		return stashed, rest, err
	}
	if stashed, err = p.treeWithChosen(ctx, base, put); err != nil {
		return stashed, rest, err
	}
	after, err := p.treeWithChosen(ctx, p.worktree, left)
	return stashed, after.ID, err
}

// treeWithChosen returns base with the parts of changes that the user chose.
func (p *pusher) treeWithChosen(ctx context.Context, base tree.Info, chosen []stage.Chosen) (tree.Info, error) {
	at := map[string]*object.Entry{}
	onlyIfFilled := map[string]bool{}
	for _, c := range chosen {
		e, err := c.Entry(ctx, p.repo, p.objects)
		if err != nil {
			return tree.Info{}, err
		}
		at[c.Path] = e
		for _, dir := range c.Emptied(ctx, e) {
			at[dir], onlyIfFilled[dir] = nil, true
		}
	}
	return p.editTree(ctx, base, at, onlyIfFilled)
}

// areEqual reports whether trees are equal. A time alone is no difference.
func (p *pusher) areEqual(ctx context.Context, a object.ID, others ...object.ID) (bool, error) {
	for _, b := range others {
		for _, err := range tree.Diff(ctx, p.objects, a, b, tree.DiffOptions{}) {
			return false, err
		}
	}
	return true, nil
}

// treeWithPathsFrom returns base with some paths as they are in another tree. It keeps no folder that
// only these paths needed.
func (p *pusher) treeWithPathsFrom(ctx context.Context, base tree.Info, from object.ID, paths []string) (tree.Info, error) {
	at := map[string]*object.Entry{} // nil: remove the path
	onlyIfFilled := map[string]bool{}
	for _, path := range paths {
		if path == "" {
			return tree.ReadInfo(ctx, p.objects, from)
		}
		e, err := tree.Find(ctx, p.objects, from, path)
		if err == nil {
			at[path] = &e
			continue
		}
		if !errors.Is(err, tree.ErrNotExist) && !errors.Is(err, tree.ErrNotDir) {
			return tree.Info{}, err
		}
		at[path] = nil
		for dir, _ := tree.Split(path); dir != ""; dir, _ = tree.Split(dir) {
			if e, err := tree.Find(ctx, p.objects, from, dir); err == nil && tree.IsDir(&e) {
				break
			}
			onlyIfFilled[dir] = true
		}
	}
	for dir := range onlyIfFilled {
		if _, ok := at[dir]; ok {
			delete(onlyIfFilled, dir)
			continue
		}
		at[dir] = nil
	}
	return p.editTree(ctx, base, at, onlyIfFilled)
}

// editTree returns base with the entries at. A nil entry removes the path. Instead, a folder of
// onlyIfFilled is kept, or made, if something is in it afterwards.
func (p *pusher) editTree(ctx context.Context, base tree.Info, at map[string]*object.Entry, onlyIfFilled map[string]bool) (tree.Info, error) {
	editor := tree.NewEditor(p.objects, base)
	for _, path := range sortedPaths(at) {
		var err error
		switch e := at[path]; {
		case e != nil:
			err = editor.Set(ctx, path, *e)
		case onlyIfFilled[path]:
			err = editor.Offer(ctx, path, object.Entry{Type: object.TypeDir, Mode: 0o755})
		default:
			err = editor.Remove(ctx, path)
		}
		if err != nil {
			return tree.Info{}, err
		}
	}
	return editor.Finish(ctx)
}

// planUndo plans the change of the worktree to the tree rest, and of the index to the tree staged.
func (p *pusher) planUndo(ctx context.Context, worktreeAfter, staged object.ID) error {
	var err error
	p.undo, err = checkout.PlanSwitch(ctx, p.repo, p.idx, p.objects, checkout.Tips{
		From: checkout.Tip{Commit: p.head.ID, Tree: p.worktree.ID}, To: checkout.Tip{Commit: p.head.ID, Tree: worktreeAfter}, Progress: p.Progress,
	})
	if err != nil {
		return err
	}
	p.undo.Needs = []object.ID{p.head.ID}
	var edits []tree.Change
	for _, from := range []object.ID{p.staged.ID, worktreeAfter} {
		for c, err := range tree.Diff(ctx, p.objects, from, staged, tree.DiffOptions{Recursive: true, Paired: true}) {
			if err != nil {
				return err
			}
			edits = append(edits, c)
		}
	}
	edits, p.undo.Staged = stage.SplitChanges(p.idx, p.repo.Config().Cone(), edits)
	p.undo.Edit = func(idx *index.Index) error { return p.stageUndone(idx, edits) }
	return nil
}

// stageUndone stages the new entries of edits, with the stat data of files that need not change.
func (p *pusher) stageUndone(idx *index.Index, edits []tree.Change) error {
	for _, c := range edits {
		var err error
		switch {
		case stage.SameEntry(stage.Indexed(idx, c.Path), c.New):
		case p.idx.Entry(c.Path) != nil && stage.SameEntry(stage.Indexed(p.idx, c.Path), c.New):
			err = idx.Set(c.Path, *p.idx.Entry(c.Path))
		default:
			err = stage.StageChanges(idx, []tree.Change{c})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// storeCommits stores the commits of the stash and returns its message.
func (p *pusher) storeCommits(ctx context.Context, stashed tree.Info) (message string, err error) {
	on := "(no branch)"
	if p.head.Branch != "" {
		on = p.head.Branch
	}
	about := fmt.Sprintf("%s: %s %s", on, p.head.ID.Short(), p.base.Subject())
	parents := []object.ID{p.head.ID}
	put := func(message string, t tree.Info, parents ...object.ID) (object.ID, error) {
		return p.tx.PutCommit(ctx, kist.NewCommit(p.repo, t, message, parents...))
	}

	id, err := put("index on "+about, p.staged, p.head.ID)
	if err != nil {
		return "", err
	}
	parents = append(parents, id)
	if p.Untracked {
		files, err := p.treeOfPaths(ctx, p.untracked)
		if err != nil {
			return "", err
		}
		if id, err = put("untracked files on "+about, files); err != nil {
			return "", err
		}
		parents = append(parents, id)
	}

	message = "WIP on " + about
	if p.Message != "" {
		message = fmt.Sprintf("On %s: %s", on, p.Message)
	}
	p.id, err = put(message, stashed, parents...)
	return message, err
}

// treeOfPaths returns a tree that has only the given paths of the worktree's tree.
func (p *pusher) treeOfPaths(ctx context.Context, paths []string) (tree.Info, error) {
	at := map[string]*object.Entry{}
	for _, path := range paths {
		for ; path != "" && at[path] == nil; path, _ = tree.Split(path) {
			e, err := tree.Find(ctx, p.objects, p.worktree.ID, path)
			if err != nil {
				return tree.Info{}, err
			}
			at[path] = &e
		}
	}
	editor := tree.NewEditor(p.objects, tree.Info{})
	for _, path := range sortedPaths(at) {
		var err error
		if e := at[path]; tree.IsDir(e) {
			err = editor.SetDir(ctx, path, *e)
		} else {
			err = editor.Set(ctx, path, *e)
		}
		if err != nil {
			return tree.Info{}, err
		}
	}
	return editor.Finish(ctx)
}

func sortedPaths(at map[string]*object.Entry) []string {
	return slices.SortedFunc(maps.Keys(at), tree.ComparePaths)
}

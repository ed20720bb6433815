package pending

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/look/compare"
	"github.com/kist-vcs/kist/tree/work/checkout"
	"github.com/kist-vcs/kist/tree/worktree"
)

// Limits of the changes between two checkpoints, and of those in one commit.
const (
	maxMemory  = 32 << 20 // bytes of objects in memory
	maxJournal = 64 << 20 // bytes of the journal
	maxTouched = 100_000  // changed paths
)

// Branch is a branch with its pending changes. It is safe for concurrent use.
type Branch struct {
	changes *Changes
	name    string

	mu      sync.Mutex   // held while the branch changes or is committed; guards the following
	base    checkout.Tip // the commit that the changes apply to
	saved   object.ID    // the commit of the last checkpoint; zero: none
	info    tree.Info    // the tree with all changes
	memory  *object.Memory
	journal *journal // nil: no changes since the last checkpoint
	touched touched
	stopped bool
	doubts

	view atomic.Pointer[compare.Side]
	activity
	timer       *time.Timer
	lastWarning string // the last warning, which is not repeated
}

// doubts are the open questions after a failure.
type doubts struct {
	savedUnsure bool         // the last checkpoint failed: the ref may have another value than ref
	halfMoved   checkout.Tip // the worktree may have parts of this commit, to which the branch did not move; zero: none
}

// activity shows how long a branch has been quiet.
type activity struct {
	busy atomic.Int32 // uploads under way
	last atomic.Int64 // time of the last change, in nanoseconds
}

// touched has the users who changed paths since the last commit.
type touched struct {
	users []refs.Who // the first is the author
	paths map[string]refs.Who
}

// loadBranch returns a branch, with the changes that are on disk.
func (c *Changes) loadBranch(ctx context.Context, name string) (*Branch, error) {
	b := &Branch{changes: c, name: name}
	b.reset(checkout.Tip{}, tree.Info{})
	path := c.journalPath(name)
	startCommit, _, ops, cut, found, err := readJournal(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if b.saved, err = c.repo.Refs().Get(refs.Pending + name); err != nil && !errors.Is(err, refs.ErrNotFound) {
		return nil, err
	}
	if b.saved.IsZero() && !found {
		return b, b.followTip(ctx)
	}

	err = b.loadCheckpoint(ctx, startCommit)
	if errors.Is(err, object.ErrNotFound) && b.saved.IsZero() { // the branch was reset, and gc removed the commit
		if startCommit, err = commitOf(c.repo, name); err == nil {
			err = b.loadCheckpoint(ctx, startCommit)
		}
	}
	if err != nil {
		return nil, err
	}
	if !b.saved.IsZero() && startCommit != b.saved { // a later checkpoint has these changes
		ops, cut = nil, false
	}
	if cut {
		c.options.Warn(fmt.Sprintf("branch %s: the last change was not written completely, and was not confirmed; the journal stays as %s.cut", name, path))
		if err := copyFile(path, path+".cut"); err != nil {
			return nil, err
		}
	}
	if err := putChunks(ctx, b.memory.Over(c.repo.Objects()), ops); err != nil {
		return nil, err
	}
	if err := b.applyOps(ctx, ops); err != nil {
		return nil, err
	}
	for _, o := range ops {
		b.touched.addOp(o)
	}
	if found { // make one checkpoint of all changes, and a new journal
		if err := b.checkpoint(ctx, nil, ""); err != nil {
			return nil, err
		}
		if err := removeFile(path); err != nil {
			return nil, err
		}
	}
	b.updateView()
	return b, nil
}

// loadCheckpoint sets the state to that of the last checkpoint, or of the commit start if there is
// none.
func (b *Branch) loadCheckpoint(ctx context.Context, start object.ID) error {
	at, base := start, start
	if !b.saved.IsZero() {
		c, err := object.ReadCommit(ctx, b.changes.repo.Objects(), b.saved)
		if err != nil {
			return err
		}
		at, base = b.saved, object.ID{}
		if len(c.Parents) > 0 {
			base = c.Parents[0]
		}
		b.touched.users = authorsOf(c)
	}
	var err error
	if b.base, err = b.tipOfCommit(ctx, base); err != nil {
		return err
	}
	now, err := b.tipOfCommit(ctx, at)
	if err != nil {
		return err
	}
	if !b.saved.IsZero() { // a kill may have interrupted the move to it
		b.halfMoved = now
	}
	b.info, err = b.totalsOf(ctx, now.Tree)
	return err
}

// tipOfCommit returns a commit with its tree. Both are zero for a branch without a commit.
func (b *Branch) tipOfCommit(ctx context.Context, commit object.ID) (checkout.Tip, error) {
	if commit.IsZero() {
		return checkout.Tip{}, nil
	}
	c, err := object.ReadCommit(ctx, b.changes.repo.Objects(), commit)
	if err != nil {
		return checkout.Tip{}, err
	}
	return checkout.Tip{Commit: commit, Tree: c.Tree}, nil
}

// totalsOf returns the totals of a tree.
func (b *Branch) totalsOf(ctx context.Context, id object.ID) (tree.Info, error) {
	if id.IsZero() {
		return tree.Info{}, nil
	}
	return tree.ReadInfo(ctx, b.changes.repo.Objects(), id)
}

// reset sets the state of a branch without pending changes.
func (b *Branch) reset(base checkout.Tip, info tree.Info) {
	b.base, b.info = base, info
	b.saved, b.memory, b.journal = object.ID{}, object.NewMemory(), nil
	b.touched = touched{paths: map[string]refs.Who{}}
	b.updateView()
}

// updateView makes the present tree visible to readers.
func (b *Branch) updateView() {
	b.view.Store(&compare.Side{Tree: b.info.ID, Objects: b.memory.Over(b.changes.repo.Contents())})
}

// hasChanges reports whether there are changes. The caller holds b.mu.
func (b *Branch) hasChanges() bool { return !b.saved.IsZero() || b.journal != nil }

// followTip sets the state to the tip of the branch if there are no changes. The caller holds b.mu.
func (b *Branch) followTip(ctx context.Context) error {
	if b.hasChanges() {
		return nil
	}
	tip, err := commitOf(b.changes.repo, b.name)
	if err != nil || tip == b.base.Commit && !(tip.IsZero() && b.info.ID.IsZero()) {
		return err
	}
	base, err := b.tipOfCommit(ctx, tip)
	if err != nil {
		return err
	}
	info, err := b.totalsOf(ctx, base.Tree)
	if err != nil {
		return err
	}
	b.reset(base, info)
	return nil
}

// View returns the tree of the branch with its pending changes. Errors are those of reading the branch.
func (b *Branch) View(ctx context.Context) (compare.Side, error) {
	if b.mu.TryLock() { // otherwise the branch is changing: the last state is good enough
		err := b.followTip(ctx)
		b.mu.Unlock()
		if err != nil {
			return compare.Side{}, err
		}
	}
	return *b.view.Load(), nil
}

// Name returns the short name of the branch.
func (b *Branch) Name() string { return b.name }

// BeginUpload notes that a change is on its way, so that the branch is not committed before it
// arrives. The caller calls the returned function in the end.
func (b *Branch) BeginUpload() func() {
	b.busy.Add(1)
	return func() {
		b.last.Store(b.changes.repo.Options().Now().UnixNano())
		b.busy.Add(-1)
	}
}

// Edit collects the parts of one change. They happen together, or not at all.
type Edit struct {
	Before          compare.Side // the branch before the change
	ops             []op
	needsCheckpoint bool
}

// Set sets the entry at a path: a file, or a folder with everything in it.
func (e *Edit) Set(path string, entry object.Entry) {
	if entry.Type == object.TypeDir && !entry.Content.IsZero() {
		e.needsCheckpoint = true // the journal does not have its nodes
	}
	e.ops = append(e.ops, op{kind: opSet, path: path, entry: entry})
}

// SetFrom is [Edit.Set] for an entry of another branch or commit. Its objects must be in the
// store.
func (e *Edit) SetFrom(path string, entry object.Entry) {
	e.Set(path, entry)
	e.needsCheckpoint = true // the changes must keep its content, even if the other commit goes
}

// SetDir makes a folder, or gives a folder other properties.
func (e *Edit) SetDir(path string, properties object.Entry) {
	empty, _ := object.EmptyTree()
	properties.Type, properties.Inline, properties.Target = object.TypeDir, nil, ""
	properties.Content = object.Key{Kind: object.KindTree, ID: empty}
	properties.Files, properties.Size = 0, 0
	e.ops = append(e.ops, op{kind: opSetDir, path: path, entry: properties})
}

// Remove removes the entry at a path, with everything below it.
func (e *Edit) Remove(path string) { e.ops = append(e.ops, op{kind: opRemove, path: path}) }

// Change makes a change for a user. The function change looks at the present state and collects the
// parts of the change. It may run twice, and its error ends Change. The error is [worktree.ErrGit]
// if a part changes a folder of git. Up may be nil; otherwise the
// change uses its content. When Change returns, the change is on disk.
func (b *Branch) Change(ctx context.Context, who refs.Who, up *Upload, change func(e *Edit) error) error {
	j, pos, err := b.changeUnsynced(ctx, who, up, change)
	if err != nil || j == nil {
		return err
	}
	return j.sync(pos)
}

// changeUnsynced is Change without the wait for the disk. The journal is nil if nothing is left to wait for.
func (b *Branch) changeUnsynced(ctx context.Context, who refs.Who, up *Upload, change func(e *Edit) error) (*journal, int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stopped {
		return nil, 0, ErrClosed
	}
	if err := b.undoMove(ctx); err != nil {
		return nil, 0, err
	}
	e, err := b.collectEdit(ctx, change)
	if err != nil || len(e.ops) == 0 {
		return nil, 0, err
	}
	if b.touched.haveOthersTouched(e.ops, who) || len(b.touched.paths) >= maxTouched {
		// The version of the other user stays in history.
		if _, err := b.commitChanges(ctx); err != nil {
			b.warnOnce(err)
		}
		if e, err = b.collectEdit(ctx, change); err != nil || len(e.ops) == 0 {
			return nil, 0, err
		}
	}
	for i := range e.ops {
		e.ops[i].who = who
		if up != nil && up.data != nil && e.ops[i].entry.Content == up.Entry.Content {
			e.ops[i].data = up.data
		}
	}

	old, oldMem := b.info, b.memory
	if err := putChunks(ctx, b.memory.Over(b.changes.repo.Objects()), e.ops); err != nil {
		return nil, 0, err
	}
	if err := b.applyOps(ctx, e.ops); err != nil {
		b.info = old
		return nil, 0, err
	}
	j, pos, err := b.writeDown(ctx, e, up)
	if err != nil {
		b.info, b.memory = old, oldMem
		return nil, 0, err
	}
	for _, o := range e.ops {
		b.touched.addOp(o)
	}
	b.updateView()
	b.last.Store(b.changes.repo.Options().Now().UnixNano())
	b.commitAfter(b.changes.options.Quiet)
	return j, pos, nil
}

// Checkpoint puts the objects of all pending changes in the store.
func (b *Branch) Checkpoint(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.journal == nil {
		return nil
	}
	return b.checkpoint(ctx, nil, "")
}

// collectEdit returns the parts of a change to the present state.
func (b *Branch) collectEdit(ctx context.Context, change func(e *Edit) error) (*Edit, error) {
	if err := b.followTip(ctx); err != nil {
		return nil, err
	}
	e := &Edit{Before: *b.view.Load()}
	if err := change(e); err != nil {
		return e, err
	}
	for _, o := range e.ops {
		if tree.GitFolder(o.path) != "" {
			return e, worktree.ErrGit
		}
	}
	return e, nil
}

// applyOps makes the changes in the tree in memory.
func (b *Branch) applyOps(ctx context.Context, ops []op) error {
	rw := b.memory.Over(b.changes.repo.Objects())
	for _, o := range ops {
		editor := tree.NewEditor(rw, b.info)
		var err error
		switch o.kind {
		case opSet:
			err = editor.Set(ctx, o.path, o.entry)
		case opSetDir:
			err = editor.SetDir(ctx, o.path, o.entry)
		case opRemove:
			err = editor.Remove(ctx, o.path)
		}
		if err != nil {
			return err
		}
		if b.info, err = editor.Finish(ctx); err != nil {
			return err
		}
	}
	return nil
}

// writeDown makes an applied change durable: in the journal, or by a checkpoint.
func (b *Branch) writeDown(ctx context.Context, e *Edit, up *Upload) (*journal, int64, error) {
	var tx *kist.Tx
	if up != nil {
		tx = up.tx
	}
	small := !b.savedUnsure && !e.needsCheckpoint && tx == nil
	if small && b.memory.Size() < maxMemory && (b.journal == nil || !b.journal.failed() && b.journal.bytes() < maxJournal) {
		if b.journal == nil {
			at := b.base.Commit
			if !b.saved.IsZero() {
				at = b.saved
			}
			j, err := createJournal(b.changes.journalPath(b.name), b.name, at)
			if err != nil {
				return nil, 0, err
			}
			b.journal = j
		}
		pos, err := b.journal.append(e.ops)
		if !errors.Is(err, errTooLong) {
			return b.journal, pos, err
		}
	}

	return nil, 0, b.checkpoint(ctx, tx, "", e.ops...)
}

// addOp notes the change of a path by a user.
func (t *touched) addOp(o op) {
	if !slices.Contains(t.users, o.who) {
		t.users = append(t.users, o.who)
	}
	t.paths[o.path] = o.who
}

// haveOthersTouched reports whether ops change, or remove with a folder, a path that another user changed.
func (t *touched) haveOthersTouched(ops []op, who refs.Who) bool {
	if len(t.users) == 0 || len(t.users) == 1 && t.users[0] == who {
		return false
	}
	for _, o := range ops {
		if by, ok := t.paths[o.path]; ok && by != who {
			return true
		}
		if o.kind == opSetDir {
			continue
		}
		for path, by := range t.paths {
			if by != who && tree.Below(path, o.path) {
				return true
			}
		}
	}
	return false
}

// commitAfter commits the branch after a time.
func (b *Branch) commitAfter(after time.Duration) {
	if b.timer == nil {
		b.timer = time.AfterFunc(after, b.commitIfQuiet)
		return
	}
	b.timer.Reset(after)
}

// commitIfQuiet commits the branch if it was quiet long enough.
func (b *Branch) commitIfQuiet() {
	ctx := context.Background()
	quiet := time.Duration(b.changes.repo.Options().Now().UnixNano() - b.last.Load())
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.stopped || !b.hasChanges():
		return
	case b.busy.Load() > 0:
		b.commitAfter(b.changes.options.Quiet)
		return
	case quiet >= 0 && quiet < b.changes.options.Quiet:
		b.commitAfter(b.changes.options.Quiet - quiet)
		return
	}
	if _, err := b.commitChanges(ctx); err != nil {
		b.warnOnce(err)
		b.commitAfter(max(retryTime, b.changes.options.Quiet))
	}
}

// warnOnce reports the reason why changes could not be committed, once.
func (b *Branch) warnOnce(err error) {
	text := fmt.Sprintf("the changes of branch %s wait: %v", b.name, err)
	if text != b.lastWarning {
		b.changes.options.Warn(text)
	}
	b.lastWarning = text
}

// stopWork ends all work on the branch.
func (b *Branch) stopWork() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stopped = true
	if b.timer != nil {
		b.timer.Stop()
	}
}

// copyFile copies a small file.
func copyFile(from, to string) error {
	data, err := disk.ReadFile(from)
	if err != nil {
		return err
	}
	return disk.WriteFile(to, data)
}

package pending

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object/graph"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/history"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/look/compare"
	"github.com/kist-vcs/kist/tree/work/checkout"
	"github.com/kist-vcs/kist/tree/work/operation"
	"github.com/kist-vcs/kist/tree/work/stage"
)

// coAuthor begins the lines of a message that name further users.
const coAuthor = "Co-authored-by: "

// maxMoves bounds the attempts to commit while other processes move the branch.
const maxMoves = 10

// Commit makes the pending changes a commit of the branch and returns it, zero if there are
// none. If the branch moved meanwhile, the changes are merged. Where both sides changed a file,
// the branch's version stays, and the pending one gets a name with "conflict of".
//
// If the branch is checked out, the worktree follows. The error is a
// [*stage.LocalChangesError] if that would overwrite local changes. After any error, the
// changes stay pending.
func (b *Branch) Commit(ctx context.Context) (object.ID, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.commitChanges(ctx)
}

// commitChanges is Commit for a caller that holds b.mu.
func (b *Branch) commitChanges(ctx context.Context) (object.ID, error) {
	if !b.hasChanges() {
		return object.ID{}, nil
	}
	if err := b.undoMove(ctx); err != nil {
		return object.ID{}, err
	}
	for range maxMoves {
		tip, err := commitOf(b.changes.repo, b.name)
		if errors.Is(err, refs.ErrNotFound) { // the branch was deleted: the commit creates it again
			tip, err = b.base.Commit, nil
		}
		if err != nil {
			return object.ID{}, err
		}
		if tip != b.base.Commit {
			err = b.moveChangesTo(ctx, tip)
		} else {
			err = b.commitOnTip(ctx)
		}
		if err != nil && !errors.Is(err, refs.ErrMoved) {
			return object.ID{}, err
		}
		switch {
		case b.hasChanges():
		case b.base.Commit == tip: // the changes had no effect
			return object.ID{}, nil
		default:
			return b.base.Commit, nil
		}
	}
	return object.ID{}, fmt.Errorf("branch %s was moved by other processes during %d attempts", b.name, maxMoves)
}

// commitOnTip moves the branch to a commit of the changes.
func (b *Branch) commitOnTip(ctx context.Context) error {
	if b.info.ID == b.base.Tree {
		return b.dropChanges(ctx)
	}
	message, err := b.commitMessage(ctx)
	if err != nil {
		return err
	}
	if err := b.checkpoint(ctx, nil, message); err != nil {
		return err
	}
	if b.journal != nil { // it would be applied to later commits, too
		return errJournalStays
	}
	subject, _, _ := strings.Cut(message, "\n")
	if err := b.moveToSaved(ctx, subject); err != nil {
		return err
	}
	b.lastWarning = ""
	b.reset(checkout.Tip{Commit: b.saved, Tree: b.info.ID}, b.info)
	return nil
}

// errJournalStays means that the branch cannot move yet.
var errJournalStays = errors.New("the journal cannot be removed")

// dropChanges forgets changes that have no effect.
func (b *Branch) dropChanges(ctx context.Context) error {
	switch {
	case b.saved.IsZero():
		if err := b.journal.remove(); err != nil {
			return err
		}
	default:
		if b.journal != nil { // it undoes changes of the ref, and must not go before it
			if err := b.checkpoint(ctx, nil, ""); err != nil {
				return err
			}
		}
		if b.journal != nil {
			return errJournalStays
		}
		if err := b.changes.repo.Publish(ctx, kist.Step(b.removeRef)); err != nil {
			b.savedUnsure = true
			return err
		}
	}
	b.reset(b.base, b.info)
	return nil
}

// refChange returns the change of the ref of the last checkpoint; zero removes it. Only this
// process changes the ref. It may have another value than b.ref after an error.
func (b *Branch) refChange(id object.ID) (refs.Change, error) {
	name := refs.Pending + b.name
	have, err := b.changes.repo.Refs().Get(name)
	if errors.Is(err, refs.ErrNotFound) {
		err = nil
	}
	return refs.Change{Name: name, Old: have, New: id}, err
}

// removeRef removes the ref of the last checkpoint.
func (b *Branch) removeRef(ctx context.Context) error {
	change, err := b.refChange(object.ID{})
	if err != nil || change.Old.IsZero() {
		return err
	}
	return b.changes.repo.Refs().Update(ctx, []refs.Change{change}, b.changes.repo.Who())
}

// checkpoint publishes a commit with all changes, so that the journal is not needed any more.
// Tx has the content of large files; nil: there is none. Its message is a note if message is
// empty. More are changes that b.touched does not have yet.
func (b *Branch) checkpoint(ctx context.Context, tx *kist.Tx, message string, more ...op) error {
	if tx == nil {
		tx = b.changes.repo.Begin(volume.SessionOptions{})
		defer tx.Close()
	}
	t := touched{users: slices.Clone(b.touched.users), paths: map[string]refs.Who{}}
	for _, o := range more {
		t.addOp(o)
	}
	if message == "" {
		message = b.changes.options.Label + ": changes in progress"
	}
	id, err := b.publishSaved(ctx, tx, b.draftCommit(b.info, b.base.Commit, message, t.users))
	if err != nil {
		return err
	}
	b.saved, b.memory = id, object.NewMemory()
	if b.journal != nil {
		if err := b.journal.remove(); err != nil {
			b.changes.options.Warn(err.Error())
			return nil // its header names an earlier commit
		}
		b.journal = nil
	}
	b.updateView()
	return nil
}

// publishSaved stores a commit and makes the ref of the branch's changes lead to it.
func (b *Branch) publishSaved(ctx context.Context, tx *kist.Tx, c *object.Commit) (object.ID, error) {
	if err := copyMemory(ctx, tx, b.memory, object.Key{Kind: object.KindTree, ID: c.Tree}); err != nil {
		return object.ID{}, err
	}
	id, err := tx.PutCommit(ctx, c)
	if err != nil {
		return object.ID{}, err
	}
	b.changes.worktreeLock.Lock()
	defer b.changes.worktreeLock.Unlock()
	b.savedUnsure = true
	change, err := b.refChange(id)
	if err == nil {
		tx.Move(change)
		err = tx.Publish(ctx)
	}
	b.savedUnsure = err != nil
	return id, err
}

// draftCommit returns a commit of changes by users.
func (b *Branch) draftCommit(info tree.Info, parent object.ID, message string, users []refs.Who) *object.Commit {
	c := kist.NewCommit(b.changes.repo, info, message, parent)
	if len(users) > 0 {
		c.Author.Name, c.Author.Email = users[0].Name, users[0].Email
	}
	for i, who := range users[min(1, len(users)):] {
		if i == 0 {
			c.Message += "\n"
		}
		c.Message += fmt.Sprintf("\n%s%s <%s>", coAuthor, who.Name, who.Email)
	}
	return c
}

// authorsOf returns the users whose changes a commit of draft has.
func authorsOf(c *object.Commit) []refs.Who {
	list := []refs.Who{{Name: c.Author.Name, Email: c.Author.Email}}
	for line := range strings.Lines(c.Message) {
		rest, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), coAuthor)
		name, mail, has := strings.Cut(rest, " <")
		if ok && has {
			list = append(list, refs.Who{Name: name, Email: strings.TrimSuffix(mail, ">")})
		}
	}
	return list
}

// Limits of a message.
const (
	maxNamed   = 3    // changed paths that it names
	maxCounted = 1000 // changes that it counts
)

// commitMessage returns the message for a commit of the changes.
func (b *Branch) commitMessage(ctx context.Context) (string, error) {
	var names []string
	n, folders := 0, 0
	r := b.memory.Over(b.changes.repo.Objects())
	for c, err := range tree.Diff(ctx, r, b.base.Tree, b.info.ID, tree.DiffOptions{Recursive: true, Paired: true, Exact: true}) {
		if err != nil {
			return "", err
		}
		if tree.IsDir(c.Old) || tree.IsDir(c.New) {
			folders++
			continue
		}
		what := "change"
		switch {
		case c.Old == nil:
			what = "add"
		case c.New == nil:
			what = "remove"
		}
		if n++; n <= maxNamed {
			name := "a file"
			if b.messageMayName(ctx, r, c) {
				name = object.CleanText(path.Base(c.Path), '?')
			}
			names = append(names, what+" "+name)
		}
		if n > maxCounted {
			return fmt.Sprintf("%s: more than %d changes", b.changes.options.Label, maxCounted), nil
		}
	}
	if n == 0 {
		return fmt.Sprintf("%s: %d changes of folders", b.changes.options.Label, folders), nil
	}
	if n > maxNamed {
		return fmt.Sprintf("%s: %d changes", b.changes.options.Label, n), nil
	}
	return b.changes.options.Label + ": " + strings.Join(names, ", "), nil
}

// messageMayName reports whether a message may name the path of a change.
func (b *Branch) messageMayName(ctx context.Context, r object.Reader, c tree.Change) bool {
	if b.changes.options.MayName == nil {
		return true
	}
	if c.Old != nil && !b.changes.options.MayName(ctx, compare.Side{Commit: b.base.Commit, Tree: b.base.Tree, Objects: r}, c.Path) {
		return false
	}
	return c.New == nil || b.changes.options.MayName(ctx, compare.Side{Commit: b.base.Commit, Tree: b.info.ID, Objects: r}, c.Path)
}

// moveToSaved makes the branch lead to the commit of the last checkpoint. If it is checked out, the
// worktree and the index follow.
func (b *Branch) moveToSaved(ctx context.Context, subject string) error {
	r := b.changes.repo
	names := func(tx *kist.Tx) {
		tx.Move(refs.Change{Name: refs.Heads + b.name, Old: b.tipBefore(), New: b.saved, Reason: subject})
		tx.NoteStep(func(ctx context.Context) error {
			if err := b.removeRef(ctx); err != nil { // the next start finds that the branch has it
				b.changes.options.Warn(err.Error())
				b.savedUnsure = true
			}
			return nil
		})
	}

	b.changes.worktreeLock.Lock()
	defer b.changes.worktreeLock.Unlock()
	head, err := r.Refs().Head()
	if err != nil {
		return err
	}
	if r.IsBare() || head.Branch != b.name {
		return r.Publish(ctx, names)
	}
	if err := operation.NoOperation(r); err != nil {
		return err
	}
	err = checkout.SwitchTree(ctx, r, checkout.Tips{
		From: b.base,
		To:   checkout.Tip{Commit: b.saved, Tree: b.info.ID},

		KeepGit: true, // the changes may come from any user of the server
		Names: func(tx *kist.Tx) {
			tx.NoteStep(func(context.Context) error {
				now, err := r.Refs().Head()
				if err == nil && now.Branch != head.Branch {
					err = &refs.MovedError{Name: "HEAD", Want: head.ID, Have: now.ID}
				}
				return err
			})
			names(tx)
		},
	})
	var local *stage.LocalChangesError
	if stage.IsPartial(err) {
		b.changes.options.Warn(err.Error())
		return nil
	}
	if err == nil || errors.As(err, &local) { // all was done, or nothing
		return err
	}
	if tip, terr := commitOf(r, b.name); terr == nil && tip == b.saved {
		b.changes.options.Warn(err.Error())
		return nil
	}
	b.halfMoved = checkout.Tip{Commit: b.saved, Tree: b.info.ID}
	if err := b.undoMoveLocked(ctx); err != nil {
		b.changes.options.Warn(fmt.Sprintf("branch %s: the worktree has a part of its changes: %v", b.name, err))
	}
	return err
}

// undoMove takes back the part of a failed move that is in the worktree. Otherwise it would look
// like a change by the user as soon as the branch has other changes. Until that succeeds, the
// branch takes no changes. The caller holds b.mu.
func (b *Branch) undoMove(ctx context.Context) error {
	if b.halfMoved.Commit.IsZero() {
		return nil
	}
	b.changes.worktreeLock.Lock()
	defer b.changes.worktreeLock.Unlock()
	r := b.changes.repo
	head, err := r.Refs().Head()
	if err != nil {
		return err
	}
	tip, err := commitOf(r, b.name)
	if r.IsBare() || head.Branch != b.name || err != nil || tip != b.base.Commit { // the worktree has another commit
		b.halfMoved = checkout.Tip{}
		return nil
	}
	if err := operation.NoOperation(r); err != nil {
		return err
	}
	return b.undoMoveLocked(ctx)
}

// undoMoveLocked is undoMove for a caller that holds the lock of the worktree. It goes on without the
// client.
func (b *Branch) undoMoveLocked(ctx context.Context) error {
	err := checkout.Undo(context.WithoutCancel(ctx), b.changes.repo, checkout.Tips{
		From: b.base,
		To:   b.halfMoved, KeepGit: true,
	})
	if stage.IsPartial(err) {
		b.changes.options.Warn(err.Error())
		err = nil
	}
	if err == nil {
		b.halfMoved = checkout.Tip{}
	}
	return err
}

// tipBefore returns the commit that the branch must have to be moved. It is zero if the branch
// does not exist.
func (b *Branch) tipBefore() object.ID {
	if _, err := b.changes.repo.Refs().Get(refs.Heads + b.name); errors.Is(err, refs.ErrNotFound) {
		return object.ID{}
	}
	return b.base.Commit
}

// moveChangesTo merges the changes with the commits that moved the branch to tip.
func (b *Branch) moveChangesTo(ctx context.Context, tip object.ID) error {
	r := b.changes.repo
	if err := kist.CheckUsable(ctx, r, tip); err != nil {
		return err
	}
	onto, err := b.tipOfCommit(ctx, tip)
	if err != nil {
		return err
	}
	if !b.saved.IsZero() && b.journal == nil {
		if has, err := history.IsAncestor(ctx, r.Objects(), b.saved, tip); err != nil {
			return err
		} else if has { // a crash came between the move and the removal of the ref
			info, err := b.totalsOf(ctx, onto.Tree)
			if err != nil {
				return err
			}
			b.base, b.info = onto, info
			return nil
		}
	}

	tx := r.Begin(volume.SessionOptions{})
	defer tx.Close()
	if err := b.checkpoint(ctx, tx, ""); err != nil { // its nodes are the merge's input
		return err
	}
	info, err := b.mergeChanges(ctx, tx, onto)
	if err != nil {
		return err
	}
	id, err := b.publishSaved(ctx, tx, b.draftCommit(info, tip, b.changes.options.Label+": changes in progress", b.touched.users))
	if err != nil {
		return err
	}
	b.base, b.saved, b.info = onto, id, info
	b.updateView()
	return nil
}

// mergeChanges returns the tree of a merge of the branch and the changes. Both versions of a file in
// conflict are in it.
func (b *Branch) mergeChanges(ctx context.Context, rw object.ReadWriter, onto checkout.Tip) (tree.Info, error) {
	r := b.changes.repo
	user := "somebody"
	if len(b.touched.users) > 0 && b.touched.users[0].Name != "" {
		user = b.touched.users[0].Name
	}
	label := fmt.Sprintf("conflict of %s %s", strings.ReplaceAll(object.CleanText(user, '?'), "/", "_"), r.Options().Now().Format("2006-01-02"))
	result, err := tree.Merge(ctx, r.Unpurged(rw), tree.Versions{Base: b.base.Tree, Ours: onto.Tree, Theirs: b.info.ID}, tree.MergeOptions{
		Labels: tree.Labels{Ours: b.name, Theirs: label}, Split: r.Chunker().Split,
	})
	if err != nil {
		return tree.Info{}, err
	}
	info := result.Tree
	for _, c := range result.Conflicts {
		if info, err = keepBothVersions(ctx, rw, info, c, label); err != nil {
			return tree.Info{}, err
		}
	}
	return info, nil
}

// keepBothVersions gives both versions of a conflict a name that shows its user. The branch's
// version keeps the path.
func keepBothVersions(ctx context.Context, rw object.ReadWriter, info tree.Info, c tree.Conflict, label string) (tree.Info, error) {
	aside, e := "", c.Theirs
	switch {
	case c.Markers:
	case c.Kind == tree.ConflictRenameRename || c.Kind == tree.ConflictRenameDelete:
		return info, nil
	case c.TheirsPath != "":
		aside = c.TheirsPath
	case c.OursPath != "":
		aside, e = c.OursPath, c.Ours
	default:
		return info, nil
	}
	name, err := freeName(ctx, rw, info, c.Path, label)
	if err != nil {
		return info, err
	}

	set := func(path string, e *object.Entry) {
		if err != nil {
			return
		}
		editor := tree.NewEditor(rw, info)
		if e == nil {
			err = editor.Remove(ctx, path)
		} else {
			err = editor.Set(ctx, path, *e)
		}
		if err == nil {
			info, err = editor.Finish(ctx)
		}
	}
	if c.Markers {
		set(c.Path, c.Ours)
	} else {
		set(aside, nil)
	}
	set(name, e)
	return info, err
}

// freeName returns a path beside another one, with a label before the extension of its name.
func freeName(ctx context.Context, r object.Reader, info tree.Info, at, label string) (string, error) {
	dir, name := tree.Split(at)
	ext := path.Ext(name)
	if len(ext) > 20 || ext == name {
		ext = ""
	}
	stem := strings.TrimSuffix(name, ext)
	for n := 1; ; n++ {
		suffix := fmt.Sprintf(" (%s)%s", label, ext)
		if n > 1 {
			suffix = fmt.Sprintf(" (%s, %d)%s", label, n, ext)
		}
		suffix = suffix[max(0, len(suffix)-object.MaxNameSize/2):]
		free := tree.Join(dir, stem[:min(len(stem), object.MaxNameSize-len(suffix))]+suffix)
		_, err := tree.Find(ctx, r, info.ID, free)
		if errors.Is(err, tree.ErrNotExist) {
			return free, nil
		}
		if err != nil {
			return "", err
		}
	}
}

// copyMemory stores key and everything below it that is only in memory.
func copyMemory(ctx context.Context, w object.Writer, m *object.Memory, key object.Key) error {
	return graph.Walk(ctx, map[object.Key]bool{}, []object.Key{key}, func(key object.Key) ([]object.Key, error) {
		data, found := m.Find(key)
		if !found {
			return nil, nil
		}
		if _, err := w.Put(ctx, key.Kind, data); err != nil {
			return nil, err
		}
		return object.Links(key.Kind, data)
	})
}

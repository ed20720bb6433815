package kist

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/object/graph"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
)

// Tx is a transaction: it stores objects, and then changes the names that lead to them.
//
// An object is stored at once, by [Tx.PutCommit] and the methods of the session. The other
// methods only note a change, and Publish carries out all of them. The caller closes the
// transaction. The methods of the session are safe for concurrent use, and the others are not.
type Tx struct {
	*volume.Session
	r             *Repository
	dryRun        bool
	changed       bool                      // Publish has begun to carry out changes
	parentsOfMade map[object.ID][]object.ID // the parents of the stored commits
	noted
}

// noted has the changes that the next Publish carries out.
type noted struct {
	needs  []object.ID // commits that must be intact
	usable []object.ID // commits that must be intact and not expired
	moves  []refs.Change
	index  func(ctx context.Context) error // nil: no change
	steps  []func(ctx context.Context) error
}

// Begin begins a transaction. A transaction with o.DryRun stores and publishes nothing.
func (r *Repository) Begin(o volume.SessionOptions) *Tx {
	return &Tx{Session: r.objects.Begin(o), r: r, dryRun: o.DryRun, parentsOfMade: map[object.ID][]object.ID{}}
}

// Update runs f in a transaction, and publishes what f noted and did not publish itself. If
// another process removed objects that f relied on, Update runs f again, in a new transaction.
// It does not if f has published changes and then meets a missing object.
func (r *Repository) Update(ctx context.Context, f func(tx *Tx) error) error {
	return r.UpdateWith(ctx, volume.SessionOptions{}, f)
}

// staleTries bounds the attempts of an update.
const staleTries = 10

// UpdateWith is Update with options for the session.
func (r *Repository) UpdateWith(ctx context.Context, o volume.SessionOptions, f func(tx *Tx) error) error {
	for range staleTries {
		err := r.tryUpdate(ctx, o, f)
		if _, stale := errors.AsType[*volume.StaleError](err); !stale {
			return err
		}
	}
	return fmt.Errorf("objects were removed by other processes, time and again: %w", disk.ErrBusy)
}

// tryUpdate is one attempt of UpdateWith. The error is a [*volume.StaleError] if another
// process removed objects meanwhile.
func (r *Repository) tryUpdate(ctx context.Context, o volume.SessionOptions, f func(tx *Tx) error) error {
	tx := r.Begin(o)
	defer tx.Close()

	err := f(tx)
	switch {
	case err == nil && !tx.isEmpty():
		err = tx.Publish(ctx)
	case errors.Is(err, object.ErrNotFound) && !tx.dryRun && !tx.changed:
		// The names that f read may have moved, and gc removed their old objects. Publish
		// finds out. After changes, another attempt would make them twice.
		tx.noted = noted{}
		now := tx.Publish(ctx)
		if _, stale := errors.AsType[*volume.StaleError](now); stale {
			err = now
		}
	}
	return cmp.Or(err, tx.Close())
}

// Publish publishes the changes that note notes, in a transaction without objects. It does not
// repeat them.
func (r *Repository) Publish(ctx context.Context, note func(tx *Tx)) error {
	tx := r.Begin(volume.SessionOptions{})
	defer tx.Close()
	note(tx)
	return tx.Publish(ctx)
}

// Step returns a function that notes one step, for [Repository.Publish].
func Step(step func(ctx context.Context) error) func(tx *Tx) {
	return func(tx *Tx) { tx.NoteStep(step) }
}

// Repository returns the repository of the transaction.
func (tx *Tx) Repository() *Repository { return tx.r }

// ReadTrusted reads HEAD and the index. The transaction then assumes, without checks, that
// HEAD's commit and the trees of the index are intact. It is called before all other methods.
func (tx *Tx) ReadTrusted(ctx context.Context) (head refs.Head, idx *index.Index, err error) {
	err = tx.Trust(ctx, func() error {
		if head, err = tx.r.Refs().Head(); err == nil {
			idx, err = tx.r.Index()
		}
		return err
	})
	return head, idx, err
}

// NewCommit returns a commit that the user makes now. Zero parents do not count.
func NewCommit(r *Repository, t tree.Info, message string, parents ...object.ID) *object.Commit {
	c := &object.Commit{Tree: t.ID, Files: t.Files, Bytes: t.Bytes, Message: message, Host: r.opt.Host, Committer: r.Stamp()}
	c.Author = c.Committer
	c.Parents = slices.DeleteFunc(slices.Clone(parents), object.ID.IsZero)
	return c
}

// PutCommit stores a commit, whose tree the transaction stored or relies on.
func (tx *Tx) PutCommit(ctx context.Context, c *object.Commit) (object.ID, error) {
	id, err := object.PutNode(ctx, tx, object.KindCommit, c)
	if err == nil {
		tx.parentsOfMade[id] = c.Parents
	}
	return id, err
}

// Need notes commits that must be intact when names change. If gc removed one, the error of
// Publish is a [*volume.StaleError]. If its content is incomplete, for example because a fetch
// was stopped, the error is a [*GoneError]. Zero IDs do not count.
func (tx *Tx) Need(commits ...object.ID) { tx.needs = append(tx.needs, commits...) }

// NeedUsable is Need for commits whose content must also not have expired and been removed.
// The error of Publish is then an [*object.AbsentError].
func (tx *Tx) NeedUsable(commits ...object.ID) { tx.usable = append(tx.usable, commits...) }

// Move notes changes of refs: either all are made, or none. The commits that they lead to
// must be intact, as for Need. Of a commit that the transaction stored, the parents must be.
func (tx *Tx) Move(changes ...refs.Change) {
	if len(changes) == 0 {
		return
	}
	tx.moves = append(tx.moves, changes...)
	tx.NoteStep(func(ctx context.Context) error { return tx.r.Refs().Update(ctx, changes, tx.r.Who()) })
}

// MoveHead notes a move of HEAD's branch, or of HEAD itself if it is detached.
func (tx *Tx) MoveHead(head refs.Head, id object.ID, reason string) {
	change := refs.Change{Name: "HEAD", Old: head.ID, New: id, Reason: reason}
	if head.Branch != "" {
		change.Name = refs.Heads + head.Branch
	}
	tx.Move(change)
}

// SetHead notes that HEAD goes to a branch or a commit, see [refs.Store.SetHead]. The caller
// notes what that needs.
func (tx *Tx) SetHead(head refs.Head, reason string) {
	tx.NoteStep(func(ctx context.Context) error { return tx.r.Refs().SetHead(ctx, head, tx.r.Who(), reason) })
}

// SetSpecial notes that a name such as ORIG_HEAD gets a commit.
func (tx *Tx) SetSpecial(name string, id object.ID) {
	tx.NoteStep(func(ctx context.Context) error { return tx.r.Refs().SetSpecial(ctx, name, id) })
}

// EditIndex notes the change of the index, one for each Publish. It comes before all names,
// so that a kill never leaves a new HEAD with an old index. The caller read from earlier, and
// must not use it afterwards. If from is nil or stale, edit gets the index as it is then.
func (tx *Tx) EditIndex(from *index.Index, edit func(idx *index.Index) error) {
	tx.index = func(ctx context.Context) error {
		return index.UpdateWith(ctx, tx.r.dir, index.Options{From: from}, edit)
	}
}

// NoteStep notes a step that changes other names. Publish runs it.
func (tx *Tx) NoteStep(step func(ctx context.Context) error) { tx.steps = append(tx.steps, step) }

// isEmpty reports whether there is nothing to publish.
func (n *noted) isEmpty() bool {
	return len(n.needs)+len(n.usable)+len(n.steps) == 0 && n.index == nil
}

// Publish makes the stored objects durable, and checks that all objects and commits that
// the transaction relies on are there. Then it carries out the noted changes: first that of
// the index, then the others in the order in which they were noted. No gc removes objects
// meanwhile. After the first error, it does not carry out the rest.
//
// If objects are gone, it changes nothing, and the error is a [*volume.StaleError]. Publish
// may be called any number of times. Afterwards, nothing is noted.
func (tx *Tx) Publish(ctx context.Context) error {
	now := tx.noted
	tx.noted = noted{}
	if tx.dryRun {
		return nil
	}

	return tx.Session.Publish(ctx, func(ctx context.Context) error {
		if err := tx.checkCommits(ctx, &now); err != nil {
			return err
		}
		tx.changed = tx.changed || !now.isEmpty()
		if now.index != nil {
			if err := now.index(ctx); err != nil {
				return err
			}
		}
		for _, step := range now.steps {
			if err := step(ctx); err != nil {
				return err
			}
		}
		return nil
	})
}

// checkCommits returns an error if a commit is not intact that the changes need.
func (tx *Tx) checkCommits(ctx context.Context, now *noted) error {
	needs, err := tx.commitsToCheck(ctx, now.moves)
	if err != nil {
		return err
	}
	if err := checkIntact(ctx, tx.r, slices.Concat(now.needs, now.usable, needs)); err != nil {
		return err
	}
	return checkPublishable(ctx, tx.r, now.usable)
}

// commitsToCheck returns the commits that moves lead to. In place of a commit that the transaction stored,
// it returns the nearest ancestors that it did not store. It leaves out HEAD's commit, which has
// a name.
func (tx *Tx) commitsToCheck(ctx context.Context, moves []refs.Change) (ends []object.ID, err error) {
	var ids []object.ID
	for _, change := range moves {
		id := change.New
		if strings.HasPrefix(change.Name, refs.Tags) && !id.IsZero() {
			if id, err = refs.Peel(ctx, tx.r.objects, id); err != nil {
				return nil, err
			}
		}
		if id != change.Old && !id.IsZero() {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}

	head, _ := tx.r.refs.Head()
	seen := map[object.ID]bool{head.ID: true}
	err = graph.Walk(ctx, seen, ids, func(id object.ID) ([]object.ID, error) {
		parents, made := tx.parentsOfMade[id]
		if !made {
			ends = append(ends, id)
		}
		return parents, nil
	})
	return ends, err
}

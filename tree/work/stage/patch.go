package stage

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/graph"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/look/compare"
	"github.com/kist-vcs/kist/tree/worktree"
)

// ChosenPart is the part of a changed content that a user chose.
type ChosenPart uint8

const (
	PartNone ChosenPart = iota // the content stays
	PartSome                   // some of the changed lines
	PartAll                    // the content becomes that of [Chosen.To]
)

// Chosen is the part of a change of one path that a user chose.
type Chosen struct {
	Path         string
	From, To     *object.Entry // before the change, as shown to the user, and after the full change; nil: no entry
	All          compare.Side  // the tree with To
	Properties   bool          // permission bits and metadata become those of To
	Content      ChosenPart
	Before, Text []byte // the content of From, and the chosen one
}

// Patch changes paths of the worktree and of the index as the user chose, in one step. It
// changes nothing if the state of a path is no longer From: the error is a
// [*LocalChangesError] for the worktree, and matches [ErrChanged] for the index. Errors of
// writing are as for [ApplyOps].
func Patch(ctx context.Context, r *kist.Repository, inWorktree, inIndex []Chosen) error {
	return r.Update(ctx, func(tx *kist.Tx) error { return patch(ctx, tx, inWorktree, inIndex) })
}

// patch is one attempt of Patch.
func patch(ctx context.Context, tx *kist.Tx, inWorktree, inIndex []Chosen) error {
	r := tx.Repository()
	idx, err := r.Index()
	if err != nil {
		return err
	}
	purges, err := r.Purges().View()
	if err != nil {
		return err
	}

	var ops []worktree.Op
	for _, c := range inWorktree {
		e, err := c.storeEntry(ctx, r, storage{tx, purges})
		if err != nil {
			return err
		}
		op := worktree.Op{Path: c.Path, New: e}
		if c.From != nil {
			seen := index.NewEntry(*c.From, index.Stat{})
			op.Old = &seen
		}
		ops = append(ops, op)
		for _, dir := range c.Emptied(ctx, e) {
			ops = append(ops, worktree.Op{Path: dir})
		}
	}

	staged, leftOut, err := splitChosen(ctx, tx, idx, inIndex, storage{tx, purges})
	if err != nil {
		return err
	}
	if err := CheckOps(ctx, r, idx, ops, nil); err != nil {
		return err
	}

	edit := func(idx *index.Index) error {
		if now, err := r.Purges().View(); err != nil || now != purges {
			return errors.Join(err, ErrChanged)
		}
		for _, s := range staged {
			if err := s.stageEntry(ctx, idx, s.entry); err != nil {
				return err
			}
		}
		return nil
	}
	return ApplyOps(ctx, r, idx, ops, ApplyOptions{Tx: tx, Stage: StageStat, Staged: leftOut, Edit: edit})
}

// chosenEntry is a choice with its result.
type chosenEntry struct {
	Chosen
	entry *object.Entry
}

// splitChosen stores the chosen states of paths of idx. It returns those to stage one by one, and the changes in folders that are
// left out. The error matches [ErrChanged] if idx has another state than From.
func splitChosen(ctx context.Context, tx *kist.Tx, idx *index.Index, chosen []Chosen, s storage) (staged []chosenEntry, leftOut []tree.Change, err error) {
	r := tx.Repository()
	for _, c := range chosen {
		have, err := IndexedIn(ctx, r.Objects(), idx, c.Path)
		if err == nil && !SameEntry(have, c.From) {
			err = fmt.Errorf("path %q: %w", c.Path, ErrChanged)
		}
		if err != nil {
			return nil, nil, err
		}
		e, err := c.storeEntry(ctx, r, s)
		if err != nil {
			return nil, nil, err
		}
		changes := []tree.Change{{Path: c.Path, New: e}}
		for _, dir := range c.Emptied(ctx, e) {
			changes = append(changes, tree.Change{Path: dir})
		}
		if _, out := SplitChanges(idx, r.Config().Cone(), changes); len(out) > 0 {
			leftOut = append(leftOut, out...)
		} else {
			staged = append(staged, chosenEntry{c, e})
		}
	}
	return staged, leftOut, nil
}

// Entry returns the chosen state of the path, nil if it is to be removed. It stores a new
// content in rw.
func (c *Chosen) Entry(ctx context.Context, r *kist.Repository, rw object.ReadWriter) (*object.Entry, error) {
	purges, err := r.Purges().View()
	if err != nil {
		return nil, err
	}
	return c.storeEntry(ctx, r, storage{rw, purges})
}

// storeEntry is Entry, with purges that were read before.
func (c *Chosen) storeEntry(ctx context.Context, r *kist.Repository, s storage) (*object.Entry, error) {
	if c.To == nil && c.Content == PartAll {
		return nil, nil
	}
	e := object.Entry{}
	if c.From != nil {
		e = *c.From
	} else {
		e = *c.To
	}
	if c.Properties {
		e.Mode, e.Meta, e.Attrs = c.To.Mode, c.To.Meta, c.To.Attrs
		if e.Content == c.To.Content && e.Target == c.To.Target && bytes.Equal(e.Inline, c.To.Inline) {
			e.MTime = c.To.MTime
		}
	}

	return c.withContent(ctx, r, s, e)
}

// storage is the place for new contents.
type storage struct {
	object.ReadWriter
	purges *record.Effects // purged content is not stored
}

// withContent returns e with the chosen content, which it stores if it is new.
func (c *Chosen) withContent(ctx context.Context, r *kist.Repository, s storage, e object.Entry) (*object.Entry, error) {
	text := c.Text
	switch c.Content {
	case PartNone:
		text = c.Before
	case PartAll:
		e.Size, e.Inline, e.Content, e.Target, e.MTime = c.To.Size, c.To.Inline, c.To.Content, c.To.Target, c.To.MTime
	case PartSome:
		if c.To != nil && c.To.MTime.Compare(e.MTime) > 0 {
			e.MTime = c.To.MTime
		}
		if e.Meta != nil && e.Meta.HardLink != 0 { // the other names have another content
			meta := *e.Meta
			meta.HardLink = 0
			e.Meta = &meta
		}
		if e.Type == object.TypeSymlink {
			e.Target = string(text)
		}
	}
	if e.Type == object.TypeSymlink || c.Content != PartSome && e.Content.IsZero() {
		return &e, nil
	}
	if c.Content != PartSome {
		if err := graph.CheckPresent(ctx, s, e.Content); !errors.Is(err, object.ErrNotFound) {
			return &e, err
		}
	}

	stored, err := r.Worktree().StoreStream(ctx, s, bytes.NewReader(text), nil)
	if err != nil {
		return nil, err
	}
	e.Size, e.Inline, e.Content = stored.Entry.Size, stored.Entry.Inline, stored.Entry.Content
	why, err := r.PurgedIn(ctx, s.purges, s, &e)
	if err == nil && why != nil {
		err = fmt.Errorf("path %q: %s", c.Path, why)
	}
	return &e, err
}

// stageEntry stages e at the path, which must have the state From.
func (c *Chosen) stageEntry(ctx context.Context, idx *index.Index, e *object.Entry) error {
	if _, conflict := idx.Conflict(c.Path); conflict || !SameEntry(Indexed(idx, c.Path), c.From) {
		return fmt.Errorf("path %q: %w", c.Path, ErrChanged)
	}
	if e != nil {
		return idx.Set(c.Path, index.NewEntry(*e, index.Stat{}))
	}
	idx.Remove(c.Path)
	for _, dir := range c.Emptied(ctx, e) {
		if d := idx.Dir(dir); d != nil && d.Len()+len(d.Subdirs()) == 0 {
			idx.Remove(dir)
		}
	}
	return nil
}

// Emptied returns the folders above the path that the full change removes, the innermost
// first. There are none unless e, the chosen state, is nil.
func (c *Chosen) Emptied(ctx context.Context, e *object.Entry) (dirs []string) {
	if e != nil {
		return nil
	}
	for dir, _ := tree.Split(c.Path); dir != ""; dir, _ = tree.Split(dir) {
		if _, err := c.All.Find(ctx, dir); !errors.Is(err, tree.ErrNotExist) && !errors.Is(err, tree.ErrNotDir) {
			break
		}
		dirs = append(dirs, dir)
	}
	return dirs
}

// InIndex returns the choice for the staged version of the path, which may differ from
// From. The error matches [tree.ErrHunkMismatch] if the chosen changes do not fit that
// version.
func (c Chosen) InIndex(ctx context.Context, r *kist.Repository) (Chosen, error) {
	idx, err := r.Index()
	if err != nil {
		return c, err
	}
	now, err := IndexedIn(ctx, r.Objects(), idx, c.Path)
	if err != nil {
		return c, err
	}
	switch {
	case SameEntry(now, c.From):
		return c, nil
	case SameEntry(now, c.To):
		c.From, c.Content = now, PartAll
		return c, nil
	case now == nil || c.From == nil || c.To == nil || now.Type != object.TypeFile || c.From.Type != object.TypeFile || now.Size > tree.MaxText:
		return c, tree.ErrHunkMismatch
	}

	staged, err := compare.Side{Objects: r.Contents()}.ReadContent(ctx, r, c.Path, *now, tree.MaxText)
	if err != nil {
		return c, err
	}
	merged, conflicts := tree.MergeText(c.Before, c.Text, staged, tree.Labels{})
	if conflicts {
		return c, tree.ErrHunkMismatch
	}
	c.From, c.Before, c.Text = now, staged, merged
	if c.Content != PartNone {
		c.Content = PartSome
	}
	return c, nil
}

// HasContent reports whether text is the content of e, a file that was read in the
// worktree and need not be stored. Nil has no content.
func HasContent(ctx context.Context, r *kist.Repository, e *object.Entry, text []byte) (bool, error) {
	if e == nil || e.Content.IsZero() {
		return e == nil || e.Type != object.TypeFile || bytes.Equal(e.Inline, text), nil
	}
	now, err := r.Worktree().StoreStream(ctx, object.Discard, bytes.NewReader(text), nil)
	if err != nil || now.Entry.Content == e.Content {
		return err == nil, err
	}
	// A stored content was read by its ID. It may have been cut in another way.
	err = graph.CheckPresent(ctx, r.Objects(), e.Content)
	if errors.Is(err, object.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

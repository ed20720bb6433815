package compare

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
)

// Comparison compares two views of a repository.
type Comparison struct {
	Repo     *kist.Repository
	Old, New Side
	Renames  bool             // find files that were renamed
	Text     tree.TextOptions // which lines count as different

	// Losses, if not nil, is called when a comparison begins. It returns a function that
	// reports whether a path is in a folder whose loss was accepted.
	Losses func() func(path string) bool

	lost map[*object.Entry]bool // entries of lost content
}

// Change is a change of one path. With a conflict about the path, Old and New may be nil.
type Change struct {
	tree.Change
	Unmerged bool // there is a conflict
}

// Source returns the path in the old view.
func (c *Change) Source() string { return cmp.Or(c.From, c.Path) }

// Status returns git's letter for the change, U for a conflict.
func (c *Change) Status() string {
	if c.Unmerged {
		return "U"
	}
	return string(c.Letter())
}

// Selection selects paths.
type Selection interface {
	IsPlain() bool            // it selects Paths, and everything below them
	Paths() []string          // each selected path is one of them or below; nil for all
	Selects(path string) bool // whether a path is selected
}

// Changes returns the changes of paths from the old view to the new one; nil means all paths.
func (c *Comparison) Changes(ctx context.Context, paths []string) ([]Change, error) {
	list, err := c.diffLenient(ctx, paths, c.Renames)
	if err != nil {
		return nil, err
	}
	changes := make([]Change, len(list))
	for i, change := range list {
		changes[i].Change = change
	}
	return changes, nil
}

// diffLenient is [Diff] without files that only one view has in a folder that is lost in the other.
func (c *Comparison) diffLenient(ctx context.Context, paths []string, renames bool) ([]tree.Change, error) {
	if c.Losses == nil {
		return Diff(ctx, c.Old, c.New, paths, renames)
	}
	isLost := c.Losses()
	list, err := Diff(ctx, c.Old, c.New, paths, renames)
	return slices.DeleteFunc(list, func(change tree.Change) bool {
		return (change.Old == nil || change.New == nil) && isLost(change.Path)
	}), err
}

// Selected returns the changes of the selected paths.
func (c *Comparison) Selected(ctx context.Context, selection Selection) ([]Change, error) {
	if selection.IsPlain() {
		return c.Changes(ctx, selection.Paths())
	}
	changes, err := c.diffLenient(ctx, selection.Paths(), false)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, change := range changes {
		if selection.Selects(change.Path) {
			paths = append(paths, change.Path)
		}
	}
	if len(paths) == 0 {
		return nil, nil
	}
	return c.Changes(ctx, paths)
}

// Followed returns the change of one path, with its former path if it was renamed. It compares
// other files only if the path is new.
func (c *Comparison) Followed(ctx context.Context, path string) ([]Change, error) {
	changes, err := c.Changes(ctx, []string{path})
	if err != nil || len(changes) != 1 || changes[0].Old != nil || !c.Renames {
		return changes, err
	}
	all, err := c.Changes(ctx, nil)
	for _, change := range all {
		if change.Path == path {
			return []Change{change}, err
		}
	}
	return changes, err
}

// AddConflict marks the change of a path with a conflict, or adds it. The worktree is compared
// with our side of the conflict instead of the index if withOurs is true. The index is not
// compared with anything.
func (c *Comparison) AddConflict(ctx context.Context, changes []Change, conflict index.Conflict, withOurs bool) ([]Change, error) {
	at, found := slices.BinarySearchFunc(changes, conflict.Path, func(c Change, path string) int {
		return tree.ComparePaths(c.Path, path)
	})
	if !found {
		changes = slices.Insert(changes, at, Change{Change: tree.Change{Path: conflict.Path}})
	}

	change := &changes[at]
	change.Unmerged = true
	switch {
	case !c.New.Worktree:
		*change = Change{Change: tree.Change{Path: conflict.Path}, Unmerged: true}
	case withOurs:
		change.Old, change.New = conflict.Ours, nil
		entry, err := tree.Find(ctx, c.New.Objects, c.New.Tree, conflict.Path)
		if err == nil {
			change.New = &entry
		} else if !errors.Is(err, tree.ErrNotExist) && !errors.Is(err, tree.ErrNotDir) {
			return nil, err
		}
	}
	return changes, nil
}

// Differing returns the changes without files that differ only in ignored white space.
func (c *Comparison) Differing(ctx context.Context, changes []Change) ([]Change, error) {
	if c.Text.Space == tree.ExactSpace && !c.Text.Blank {
		return changes, nil
	}
	var list []Change
	for change, err := range c.Near(ctx, changes) {
		if err != nil {
			return nil, err
		}
		same := !change.Unmerged && change.Letter() == 'M' && change.Old.Mode == change.New.Mode && !HaveSameData(change.Old, change.New)
		if same {
			t, isText, err := c.Texts(ctx, change)
			if err != nil {
				return nil, fmt.Errorf("compare %q: %w", change.Path, err)
			}
			added, removed := 0, 0
			if isText {
				added, removed = tree.CountLines(t.Old, t.New, c.Text)
			}
			same = isText && added+removed == 0
		}
		if !same {
			list = append(list, change)
		}
	}
	return list, nil
}

// Texts are the contents of both sides of a change, for a comparison by lines.
type Texts struct{ Old, New []byte }

// Texts reads both sides of a change. It reports false if one of them is not text, or was purged
// or lost.
func (c *Comparison) Texts(ctx context.Context, change Change) (t Texts, ok bool, err error) {
	if HaveSameData(change.Old, change.New) {
		return t, true, nil
	}
	if t.Old, ok, err = c.textOf(ctx, c.Old, change.Source(), change.Old); err != nil || !ok {
		return Texts{}, false, err
	}
	if t.New, ok, err = c.textOf(ctx, c.New, change.Path, change.New); err != nil || !ok {
		return Texts{}, false, err
	}
	return t, true, nil
}

// Near yields changes. Before a change, it brings the content that Texts reads near, together with that of the next ones: see [object.Ahead].
func (c *Comparison) Near(ctx context.Context, changes []Change) iter.Seq2[Change, error] {
	near := object.Ahead(ctx, layeredReader{c.New.Objects, c.Old.Objects}, Each(changes), func(change Change) ([]object.Entry, error) {
		return c.Contents(change), nil
	})
	return func(yield func(Change, error) bool) {
		for change, err := range near {
			if !yield(change, object.NotePlaces(err, func() []object.Place { return c.findPlaces(changes) })) {
				return
			}
		}
	}
}

// findPlaces returns a folder, or a file, of each commit that has the content of changes.
func (c *Comparison) findPlaces(changes []Change) (places []object.Place) {
	var old, new []string
	for _, change := range changes {
		if change.Old != nil {
			old = append(old, change.Source())
		}
		if change.New != nil {
			new = append(new, change.Path)
		}
	}
	for _, side := range []struct {
		Side
		paths []string
	}{{c.Old, old}, {c.New, new}} {
		if !side.Commit.IsZero() && len(side.paths) > 0 {
			places = append(places, object.Place{Commit: side.Commit, Path: tree.CommonFolder(side.paths)})
		}
	}
	return places
}

// Each yields changes without an error.
func Each(changes []Change) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		for _, change := range changes {
			if !yield(change, nil) {
				return
			}
		}
	}
}

// Contents returns the entries whose content Texts reads in a store.
func (c *Comparison) Contents(change Change) (list []object.Entry) {
	if HaveSameData(change.Old, change.New) {
		return nil
	}
	for _, side := range []struct {
		Side
		e *object.Entry
	}{{c.Old, change.Old}, {c.New, change.New}} {
		if side.e != nil && side.e.Type == object.TypeFile && side.e.Size <= tree.MaxText && !side.Worktree {
			list = append(list, *side.e)
		}
	}
	return list
}

// textOf is Texts for one side.
func (c *Comparison) textOf(ctx context.Context, v Side, path string, e *object.Entry) ([]byte, bool, error) {
	switch {
	case e == nil:
		return nil, true, nil
	case e.Type == object.TypeSymlink:
		return []byte(e.Target), true, nil
	case e.Type != object.TypeFile:
		return nil, true, nil
	case e.Size > tree.MaxText:
		return nil, false, nil
	}

	data, err := v.ReadContent(ctx, c.Repo, path, *e, tree.MaxText+1)
	if errors.Is(err, object.ErrPurged) {
		return nil, false, nil
	}
	if object.PassOver(v.Objects, path, e.Content, err) {
		if c.lost == nil {
			c.lost = map[*object.Entry]bool{}
		}
		c.lost[e] = true
		return nil, false, nil
	}
	return data, err == nil && tree.IsText(data), err
}

// IsLost reports whether Texts found that the content of an entry is lost.
func (c *Comparison) IsLost(e *object.Entry) bool { return c.lost[e] }

// HaveSameData reports whether two entries have the same content.
func HaveSameData(a, b *object.Entry) bool {
	return a != nil && b != nil && a.Type == b.Type && a.Size == b.Size && a.Content == b.Content &&
		string(a.Inline) == string(b.Inline) && a.Target == b.Target
}

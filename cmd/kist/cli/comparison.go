package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/look/compare"
	"github.com/kist-vcs/kist/tree/look/log"
	"github.com/kist-vcs/kist/tree/pathspec"
)

// comparison shows how two versions of all files differ.
type comparison struct {
	env      *Env
	repo     *kist.Repository
	old, new compare.View
	form     *changeForm
	note     string                 // a remark, if the old version is not the parent
	lost     map[*object.Entry]bool // entries of lost content
	lines    []log.LineChange       // with -L
}

// fileChange is a change of one path, and whether the path has a conflict.
type fileChange struct {
	tree.Change
	unmerged bool // there is a conflict about the path; Old and New may be nil
}

// changes returns the changes from the old version to the new one.
func (c *comparison) changes(ctx context.Context, paths []string) ([]fileChange, error) {
	list, err := c.diff(ctx, paths, c.form.renames)
	if err != nil {
		return nil, err
	}
	out := make([]fileChange, len(list))
	for i, change := range list {
		out[i].Change = change
	}
	return out, nil
}

// diff is [compare.Diff] without files that only one version has in a folder that is
// lost in the other.
func (c *comparison) diff(ctx context.Context, paths []string, renames bool) ([]tree.Change, error) {
	c.env.repo.lost.begin("")
	list, err := compare.Diff(ctx, c.old, c.new, paths, renames)
	return slices.DeleteFunc(list, func(change tree.Change) bool {
		return (change.Old == nil || change.New == nil) && c.env.repo.lost.has(change.Path)
	}), err
}

// filtered returns the changes that --diff-filter, -S and -G select among those of [selected].
func (c *comparison) filtered(ctx context.Context, list pathspec.List) ([]fileChange, error) {
	changes, err := c.selected(ctx, list)
	if err != nil {
		return nil, err
	}
	return c.sift(ctx, changes)
}

// selected returns the changes of the paths that pathspecs select.
func (c *comparison) selected(ctx context.Context, list pathspec.List) ([]fileChange, error) {
	if list.IsPlain() {
		return c.changes(ctx, list.Paths())
	}
	changes, err := c.diff(ctx, list.Paths(), false)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, change := range changes {
		if list.Selects(change.Path) {
			paths = append(paths, change.Path)
		}
	}
	if len(paths) == 0 {
		return nil, nil
	}
	return c.changes(ctx, paths)
}

// show prints changes in the forms of the options.
func (c *comparison) show(ctx context.Context, changes []fileChange) error {
	if c.env.global.json {
		return c.showJSON(ctx, changes)
	}
	f := c.form
	all := changes
	changes, err := c.differing(ctx, all)
	if err != nil {
		return err
	}
	if f.nameOnly || f.nameStatus {
		for _, change := range all {
			c.showName(change)
		}
	}
	if f.stat || f.shortStat || f.numStat {
		if err := c.showStat(ctx, changes); err != nil {
			return err
		}
		if f.patch && len(all) > 0 {
			c.env.printf("%s", f.end())
		}
	}
	if !f.patch {
		return nil
	}

	for _, change := range changes {
		if err := c.showPatch(ctx, change); err != nil {
			return err
		}
	}
	return nil
}

// differing returns the changes without files that differ only in ignored white space.
func (c *comparison) differing(ctx context.Context, changes []fileChange) ([]fileChange, error) {
	o := c.form.text()
	if o.Space == tree.ExactSpace && !o.Blank {
		return changes, nil
	}
	var list []fileChange
	for _, change := range changes {
		same := !change.unmerged && change.letter() == "M" && change.Old.Mode == change.New.Mode && !sameData(change.Old, change.New)
		if same {
			t, isText, err := c.texts(ctx, change)
			if err != nil {
				return nil, fmt.Errorf("compare %s: %w", quoteArg(change.Path), err)
			}
			added, removed := 0, 0
			if isText {
				added, removed = tree.CountLines(t.old, t.new, o)
			}
			same = isText && added+removed == 0
		}
		if !same {
			list = append(list, change)
		}
	}
	return list, nil
}

// showName prints a line of --name-only or --name-status.
func (c *comparison) showName(change fileChange) {
	fields := []string{c.quoted(change.path())}
	if c.form.nameStatus {
		letter := change.letter()
		if change.From != "" {
			letter += fmt.Sprintf("%03d", change.Similarity)
			fields = append([]string{c.quoted(change.From)}, fields...)
		}
		fields = append([]string{letter}, fields...)
	}
	if c.form.nul {
		c.env.printf("%s\x00", strings.Join(fields, "\x00"))
	} else {
		c.env.printf("%s\n", strings.Join(fields, "\t"))
	}
}

// quoted returns a path in quotes if it needs them, and unchanged with -z.
func (c *comparison) quoted(path string) string {
	if c.form.nul {
		return path
	}
	return quotePath(path)
}

// path returns the path. A folder's path ends with a slash.
func (c *fileChange) path() string { return folded(c.Path, ofFolder(c.Change)) }

// source returns the path in the old version.
func (c *fileChange) source() string { return cmp.Or(c.From, c.Path) }

// letter returns git's letter for the change, U for a conflict.
func (c *fileChange) letter() string {
	if c.unmerged {
		return "U"
	}
	return string(c.Letter())
}

// texts are the contents of both sides of a change, for a comparison by lines.
type texts struct{ old, new []byte }

// texts reads both sides of a change. It reports false if one of them is not
// text, or was purged or lost.
func (c *comparison) texts(ctx context.Context, change fileChange) (t texts, ok bool, err error) {
	if sameData(change.Old, change.New) {
		return t, true, nil
	}
	if t.old, ok, err = c.text(ctx, c.old, change.source(), change.Old); err != nil || !ok {
		return texts{}, false, err
	}
	if t.new, ok, err = c.text(ctx, c.new, change.Path, change.New); err != nil || !ok {
		return texts{}, false, err
	}
	return t, true, nil
}

func (c *comparison) text(ctx context.Context, v compare.View, path string, e *object.Entry) ([]byte, bool, error) {
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

	data, err := v.ReadContent(ctx, c.repo, path, *e, tree.MaxText+1)
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

// sameData reports whether two entries have the same content.
func sameData(a, b *object.Entry) bool {
	return a != nil && b != nil && a.Type == b.Type && a.Size == b.Size && a.Content == b.Content &&
		string(a.Inline) == string(b.Inline) && a.Target == b.Target
}

// unmerged marks the change of a path with a conflict, or adds it. The worktree is
// compared with our side of the conflict instead of the index. The index is not
// compared with anything.
func (c *comparison) unmerged(ctx context.Context, changes []fileChange, conflict index.Conflict, withOurs bool) ([]fileChange, error) {
	at, found := slices.BinarySearchFunc(changes, conflict.Path, func(c fileChange, path string) int {
		return tree.ComparePaths(c.Path, path)
	})
	if !found {
		changes = slices.Insert(changes, at, fileChange{Change: tree.Change{Path: conflict.Path}})
	}

	change := &changes[at]
	change.unmerged = true
	switch {
	case !c.new.Worktree:
		*change = fileChange{Change: tree.Change{Path: conflict.Path}, unmerged: true}
	case withOurs:
		change.Old, change.New = conflict.Ours, nil
		entry, err := tree.Find(ctx, c.new.Objects, c.new.Tree, conflict.Path)
		if err == nil {
			change.New = &entry
		} else if !errors.Is(err, tree.ErrNotExist) && !errors.Is(err, tree.ErrNotDir) {
			return nil, err
		}
	}
	return changes, nil
}

package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/view"
)

// comparison shows how two versions of all files differ.
type comparison struct {
	env      *Env
	repo     *kist.Repository
	old, new view.View
	form     *changeForm
	note     string                 // on the changes, if they are not those since the parent
	lost     map[*object.Entry]bool // entries of lost content
}

// fileChange is a change of one path, as it is shown.
type fileChange struct {
	tree.Change
	unmerged bool // there is a conflict about the path; Old and New may be nil
}

// changes returns what leads from the old version to the new one.
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

// diff is [view.Diff] without files that only one version has in a folder that is
// lost in the other.
func (c *comparison) diff(ctx context.Context, paths []string, renames bool) ([]tree.Change, error) {
	c.env.repo.lost.begin("")
	list, err := view.Diff(ctx, c.old, c.new, paths, renames)
	return slices.DeleteFunc(list, func(change tree.Change) bool {
		return (change.Old == nil || change.New == nil) && c.env.repo.lost.has(change.Path)
	}), err
}

// selected returns those changes that are of paths that pathspecs select.
func (c *comparison) selected(ctx context.Context, list pathspecs) ([]fileChange, error) {
	if list.plain() {
		return c.changes(ctx, list.paths())
	}
	changes, err := c.diff(ctx, list.paths(), false)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, change := range changes {
		if list.selects(change.Path) {
			paths = append(paths, change.Path)
		}
	}
	if len(paths) == 0 {
		return nil, nil
	}
	return c.changes(ctx, paths)
}

// show prints changes in the forms that are wanted.
func (c *comparison) show(ctx context.Context, changes []fileChange) error {
	if c.env.global.json {
		return c.showJSON(ctx, changes)
	}
	f := c.form
	if f.nameOnly || f.nameStatus {
		for _, change := range changes {
			c.showName(change)
		}
	}
	if f.stat || f.shortStat || f.numStat {
		if err := c.showStat(ctx, changes); err != nil {
			return err
		}
		if f.patch && len(changes) > 0 {
			c.env.printf("\n")
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

// quoted returns a path as the form wants it.
func (c *comparison) quoted(path string) string {
	if c.form.nul {
		return path
	}
	return quotePath(path)
}

// path returns the path, with a slash after that of a folder.
func (c *fileChange) path() string {
	if e := c.entry(); e != nil && e.Type == object.TypeDir {
		return c.Path + "/"
	}
	return c.Path
}

// entry returns the new entry, or the old one if there is no new one.
func (c *fileChange) entry() *object.Entry {
	if c.New != nil {
		return c.New
	}
	return c.Old
}

// letter returns git's letter for what happened.
func (c *fileChange) letter() string {
	if c.unmerged {
		return "U"
	}
	return string(changeLetter(c.Change))
}

// texts are the contents of both sides of a change, to be compared by lines.
type texts struct{ old, new []byte }

// texts reads both sides of a change. It reports false if one of them is not
// text, or was purged or lost.
func (c *comparison) texts(ctx context.Context, change fileChange) (t texts, ok bool, err error) {
	if sameData(change.Old, change.New) {
		return t, true, nil
	}
	from := change.From
	if from == "" {
		from = change.Path
	}
	if t.old, ok, err = c.text(ctx, c.old, from, change.Old); err != nil || !ok {
		return texts{}, false, err
	}
	if t.new, ok, err = c.text(ctx, c.new, change.Path, change.New); err != nil || !ok {
		return texts{}, false, err
	}
	return t, true, nil
}

func (c *comparison) text(ctx context.Context, v view.View, path string, e *object.Entry) ([]byte, bool, error) {
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

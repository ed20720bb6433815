package grep

import (
	"context"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/look/compare"
)

// Pickaxe selects changes by the text that they add or remove. Commits share a Pickaxe, so that
// each content is read once.
type Pickaxe struct {
	Pattern *Pattern
	Lines   bool   // an added or removed line matches; else the number of matches in the file changed
	Text    string // what Pattern finds, letter by letter; "": something else

	counts map[object.ID]int // how often contents match
}

// Sift returns the changes that the pickaxe selects.
func (x *Pickaxe) Sift(ctx context.Context, c *compare.Comparison, changes []compare.Change) ([]compare.Change, error) {
	var selected []compare.Change
	for change, err := range c.Near(ctx, changes) {
		if err != nil {
			return nil, err
		}
		ok, err := x.selectsChange(ctx, c, change)
		if err != nil {
			return nil, err
		}
		if ok {
			selected = append(selected, change)
		}
	}
	return selected, nil
}

// selectsChange reports whether a change is selected. As in git, only contents count, and only those
// of files and symlinks.
func (x *Pickaxe) selectsChange(ctx context.Context, c *compare.Comparison, change compare.Change) (bool, error) {
	if compare.HaveSameData(change.Old, change.New) || change.IsFolder() {
		return false, nil
	}
	if !x.Lines {
		before, err := x.countMatches(ctx, c, c.Old, change.Source(), change.Old)
		if err != nil {
			return false, err
		}
		after, err := x.countMatches(ctx, c, c.New, change.Path, change.New)
		return before != after, err
	}
	t, ok, err := c.Texts(ctx, change)
	if err != nil || !ok {
		return false, err
	}
	return x.Pattern.Changed(tree.SplitLines(t.Old), tree.SplitLines(t.New)), nil
}

// countMatches returns how often a content matches. Purged and lost contents do not.
func (x *Pickaxe) countMatches(ctx context.Context, c *compare.Comparison, v compare.Side, path string, e *object.Entry) (int, error) {
	if e == nil || e.Type != object.TypeFile && e.Type != object.TypeSymlink {
		return 0, nil
	}
	id := tree.ContentID(e)
	if n, known := x.counts[id]; known {
		return n, nil
	}
	n, err := 0, error(nil)
	if e.Type == object.TypeSymlink {
		n = x.Pattern.Count([]byte(e.Target))
	} else {
		n, err = x.countFile(ctx, c, v, path, e)
	}
	if object.PassOverContent(v.Objects, path, e.Content, err) {
		n, err = 0, nil
	}
	if err == nil {
		if x.counts == nil {
			x.counts = map[object.ID]int{}
		}
		x.counts[id] = n
	}
	return n, err
}

// countFile is count for a file. Only a text is counted in files above [tree.MaxText].
func (x *Pickaxe) countFile(ctx context.Context, c *compare.Comparison, v compare.Side, path string, e *object.Entry) (int, error) {
	if e.Size > tree.MaxText && !v.Worktree && x.Text != "" {
		return CountText(object.NewContentReader(ctx, v.Objects, *e), x.Text)
	}
	data, err := v.ReadContent(ctx, c.Repo, path, *e, tree.MaxText+1)
	if err != nil || len(data) > tree.MaxText {
		return 0, err
	}
	return x.Pattern.Count(data), nil
}

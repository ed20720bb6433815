package cli

import (
	"context"
	"errors"
	"regexp/syntax"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/look/compare"
	"github.com/kist-vcs/kist/tree/look/grep"
)

// pickaxe selects changes by the text in them, as git's -S and -G do. The zero pickaxe selects
// all.
type pickaxe struct {
	text, lines string // of -S and -G
	regexp      bool   // text is a regular expression
	fold        bool   // case does not count

	pattern *grep.Pattern
	counts  map[object.ID]int // how often contents have text
}

// register adds the options to a command.
func (x *pickaxe) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVarP(&x.text, "pickaxe", "S", "", "show only changes of the number of times that a file has `TEXT`")
	flags.StringVarP(&x.lines, "pickaxe-grep", "G", "", "show only changes with an added or removed line that matches `RE`")
	flags.BoolVar(&x.regexp, "pickaxe-regex", false, "take the TEXT of -S as a regular expression")
	cmd.MarkFlagsMutuallyExclusive("pickaxe", "pickaxe-grep")
}

// compile compiles the options.
func (x *pickaxe) compile() (err error) {
	pattern := x.lines + x.text
	if pattern == "" {
		return nil
	}
	x.counts = map[object.ID]int{}
	x.pattern, err = grep.Compile([]string{pattern}, grep.PatternOptions{Fixed: x.lines == "" && !x.regexp, IgnoreCase: x.fold})
	var bad *syntax.Error
	if errors.As(err, &bad) {
		return usagef("pattern %s: %s", quoteArg(bad.Expr), bad.Code)
	}
	return err
}

// sift returns the changes that the filters select.
func (c *comparison) sift(ctx context.Context, changes []fileChange) ([]fileChange, error) {
	x := &c.form.filter.pickaxe
	if x.pattern == nil {
		return c.form.filter.of(changes), nil
	}
	var selected []fileChange
	for _, change := range changes {
		ok, err := x.selects(ctx, c, change)
		if err != nil {
			return nil, err
		}
		if ok {
			selected = append(selected, change)
		}
	}
	return c.form.filter.of(selected), nil
}

// selects reports whether a change has the text.
func (x *pickaxe) selects(ctx context.Context, c *comparison, change fileChange) (bool, error) {
	if sameData(change.Old, change.New) || ofFolder(change.Change) {
		return false, nil
	}
	if x.lines == "" {
		before, err := x.count(ctx, c, c.old, change.source(), change.Old)
		if err != nil {
			return false, err
		}
		after, err := x.count(ctx, c, c.new, change.Path, change.New)
		return before != after, err
	}
	t, ok, err := c.texts(ctx, change)
	if err != nil || !ok {
		return false, err
	}
	return x.pattern.Changed(tree.SplitLines(t.old), tree.SplitLines(t.new)), nil
}

// count returns how often an entry has the text. Content that is purged, lost, or too large for
// a regular expression does not have it.
func (x *pickaxe) count(ctx context.Context, c *comparison, v compare.View, path string, e *object.Entry) (int, error) {
	if e == nil || e.Type != object.TypeFile && e.Type != object.TypeSymlink {
		return 0, nil
	}
	id := tree.ContentID(e)
	if n, known := x.counts[id]; known {
		return n, nil
	}
	n, err := 0, error(nil)
	if e.Type == object.TypeSymlink {
		n = x.pattern.Count([]byte(e.Target))
	} else {
		n, err = x.countFile(ctx, c, v, path, e)
	}
	if errors.Is(err, object.ErrPurged) || object.PassOver(v.Objects, path, e.Content, err) {
		n, err = 0, nil
	}
	if err == nil {
		x.counts[id] = n
	}
	return n, err
}

func (x *pickaxe) countFile(ctx context.Context, c *comparison, v compare.View, path string, e *object.Entry) (int, error) {
	if e.Size > tree.MaxText && !v.Worktree && !x.regexp && !x.fold {
		return grep.CountText(object.NewContentReader(ctx, v.Objects, *e), x.text)
	}
	data, err := v.ReadContent(ctx, c.repo, path, *e, tree.MaxText+1)
	if err != nil || len(data) > tree.MaxText {
		return 0, err
	}
	return x.pattern.Count(data), nil
}

package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/view"
)

// printRanges prints which bytes of a file that is not text differ.
func (c *comparison) printRanges(ctx context.Context, change fileChange) error {
	ranges, err := c.ranges(ctx, change)
	if err != nil {
		return err
	}
	for _, r := range ranges {
		what := formatSize(r.NewLen) + " changed"
		color := cyan
		switch {
		case r.OldLen == 0:
			what, color = formatSize(r.NewLen)+" added", green
		case r.NewLen == 0:
			what, color = formatSize(r.OldLen)+" removed", red
		case r.OldLen != r.NewLen:
			what = formatSize(r.OldLen) + " became " + formatSize(r.NewLen)
		}
		c.env.printf("%s\n", c.env.paint(color, fmt.Sprintf("bytes %d..%d -> %d..%d  %s",
			r.OldOff, r.OldOff+r.OldLen, r.NewOff, r.NewOff+r.NewLen, what)))
	}
	return nil
}

// ranges returns which bytes of a file differ, to whole chunks; none if the
// list of the chunks was purged or lost.
func (c *comparison) ranges(ctx context.Context, change fileChange) ([]tree.Range, error) {
	side := func(e *object.Entry) object.Entry {
		if e == nil {
			return object.Entry{}
		}
		return *e
	}
	ranges, err := view.ChangedRanges(ctx, c.old, c.new, side(change.Old), side(change.New))
	if errors.Is(err, object.ErrPurged) || object.PassOver(c.new.Objects, change.Path, object.Key{}, err) {
		return nil, nil // the caller shows that
	}
	if err != nil {
		return nil, fmt.Errorf("compare %s: %w", quoteArg(change.Path), err)
	}
	return ranges, nil
}

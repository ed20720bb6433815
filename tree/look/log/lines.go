package log

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs/history"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/look/blame"
	"github.com/kist-vcs/kist/tree/look/compare"
)

// FileLines are lines of a file.
type FileLines struct {
	Path   string
	Ranges []blame.Lines // sorted; none touches another
}

// LineChange is what a commit changed in some lines of a file.
type LineChange struct {
	FileLines
	From     string // the path in the parent; "": the commit brought the file
	Old, New []string
	Touched  []blame.LineEdit
}

// ErrManyStarts is the error for lines whose log would begin at several commits.
var ErrManyStarts = errors.New("the lines need exactly one commit to start from")

// OneStart returns the only commit from which the revisions start.
func OneStart(ctx context.Context, r *kist.Repository, revs []string) (object.ID, error) {
	b, err := boundsOf(ctx, r, revs)
	if err != nil {
		return object.ID{}, err
	}
	if starts := slices.Compact(b.starts); len(starts) == 1 {
		return starts[0], nil
	}
	return object.ID{}, ErrManyStarts
}

// lineTracer follows lines from a commit to its parents.
type lineTracer struct {
	*commitSelector
	pending map[object.ID][]FileLines
	changes map[object.ID][]LineChange // by shown commit
}

// traceLines selects the commits of a walk that changed Options.Lines. It ends when no line is
// left.
func (l *commitSelector) traceLines(ctx context.Context, start object.ID, walk iter.Seq2[history.Commit, error]) iter.Seq2[history.Commit, error] {
	t := &lineTracer{l, map[object.ID][]FileLines{start: l.o.Lines}, map[object.ID][]LineChange{}}
	l.same, l.next, l.changed = map[object.ID]bool{}, map[object.ID]object.ID{}, t.changes
	return func(yield func(history.Commit, error) bool) {
		for c, err := range walk {
			if len(t.pending) == 0 {
				return
			}
			if err == nil {
				err = t.passLines(ctx, c)
			}
			if !yield(c, err) || err != nil {
				return
			}
		}
	}
}

// passLines gives the lines of a commit to its parents, and notes what the commit changed. As in
// git, a merge that has them unchanged from a parent gives them to that parent alone. Another
// merge counts as a change without lines of its own.
func (t *lineTracer) passLines(ctx context.Context, c history.Commit) error {
	lines := t.pending[c.ID]
	delete(t.pending, c.ID)
	if t.same[c.ID] = len(lines) == 0; len(lines) == 0 {
		return nil
	}
	if _, expired := t.records.Expired(c.ID); expired {
		t.past[c.ID] = true
		t.addLines(c.Commit.FirstParent(), lines)
		return nil
	}

	parents := c.Parents
	if t.o.FirstParent && len(parents) > 1 {
		parents = parents[:1]
	}
	now := compare.Side{Commit: c.ID, Tree: c.Tree, Objects: t.r.Contents()}
	before := make([][]FileLines, max(len(parents), 1))
	for i := range before {
		var parent object.ID
		if i < len(parents) {
			parent = parents[i]
		}
		old, err := Before(ctx, t.r, t.records, parent)
		if err != nil {
			return err
		}
		changes, err := t.compareLines(ctx, old, now, lines, &before[i])
		switch {
		case err != nil:
			return fmt.Errorf("commit %s: %w", c.ID.Short(), err)
		case len(changes) == 0:
			t.same[c.ID], t.next[c.ID] = true, parent
			t.addLines(parent, before[i])
			return nil
		case len(c.Parents) < 2:
			t.changes[c.ID] = changes
		}
	}
	if len(c.Parents) > 1 {
		t.changes[c.ID] = []LineChange{}
	}
	for i, parent := range parents {
		t.addLines(parent, before[i])
	}
	return nil
}

// addLines adds lines to those of a commit.
func (t *lineTracer) addLines(id object.ID, lines []FileLines) {
	have := t.pending[id]
	for _, f := range lines {
		i := slices.IndexFunc(have, func(h FileLines) bool { return h.Path == f.Path })
		switch {
		case id.IsZero() || len(f.Ranges) == 0:
		case i < 0:
			have = append(have, f)
		default:
			have[i].Ranges = blame.JoinLines(slices.Concat(have[i].Ranges, f.Ranges))
		}
	}
	if len(have) > 0 {
		t.pending[id] = have
	}
}

// compareLines returns what changed in lines between two commits, and adds their places in the old
// one to before.
func (t *lineTracer) compareLines(ctx context.Context, old, new compare.Side, lines []FileLines, before *[]FileLines) (changes []LineChange, err error) {
	for _, f := range lines {
		change := LineChange{FileLines: f}
		now, err := new.Find(ctx, f.Path)
		if err != nil {
			return nil, err
		}
		var was object.Entry
		if !old.Tree.IsZero() {
			if change.From, err = blame.FormerPath(ctx, old, new, f.Path); err == nil && change.From != "" {
				was, err = old.Find(ctx, change.From)
			}
		}
		if err != nil {
			return nil, err
		}
		if change.From != "" && tree.ContentID(&was) == tree.ContentID(&now) {
			*before = append(*before, FileLines{change.From, f.Ranges})
			continue
		}
		if change.New, err = t.readLines(ctx, new, f.Path, now); err != nil {
			return nil, err
		}
		if change.From != "" {
			if change.Old, err = t.readLines(ctx, old, change.From, was); err != nil {
				return nil, err
			}
		}
		var ranges []blame.Lines
		if ranges, change.Touched = blame.Trace(change.Old, change.New, f.Ranges); len(change.Touched) > 0 {
			changes = append(changes, change)
		}
		*before = append(*before, FileLines{change.From, ranges})
	}
	return changes, nil
}

// readLines returns the lines of an entry. Content that is purged, lost or too large has none.
func (t *lineTracer) readLines(ctx context.Context, v compare.Side, path string, e object.Entry) ([]string, error) {
	if e.Type != object.TypeFile || e.Size > tree.MaxText {
		return nil, nil
	}
	data, err := v.ReadContent(ctx, t.r, path, e, tree.MaxText+1)
	if object.PassOverContent(v.Objects, path, e.Content, err) {
		return nil, nil
	}
	return tree.SplitLines(data), err
}

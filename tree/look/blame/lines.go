package blame

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
)

// Lines are the lines from Lo up to Hi of a text, counted from 0.
type Lines struct{ Lo, Hi int }

// Hunk is a run of lines with one origin.
type Hunk struct {
	Lines
	At     int // the first line in the origin
	Origin *Origin
}

// lineSpan is a run of lines of the blamed text that a version has.
type lineSpan struct {
	line, n int // in the blamed text
	at      int // the first line in the version
}

// ErrTooLarge is the error for a file that is too large to be compared by lines.
var ErrTooLarge = errors.New("too large to compare lines")

// Text returns the lines of the file, at most [tree.MaxText] bytes.
func (f *File) Text(ctx context.Context, r *kist.Repository) ([]string, error) {
	data, err := f.View.ReadContent(ctx, r, f.Path, f.Entry, tree.MaxText+1)
	if err == nil && len(data) > tree.MaxText {
		err = ErrTooLarge
	}
	return tree.SplitLines(data), err
}

// ByLines returns the origins of the lines of f in their order. Text has all lines of f.
// A version that is lost, purged or larger than [tree.MaxText] ends the history of
// the lines.
func ByLines(ctx context.Context, r *kist.Repository, f *File, text []string, o Options) ([]Hunk, error) {
	h := newHistory(r, f, &o)
	ranges := o.Lines
	if len(ranges) == 0 {
		ranges = []Lines{{0, len(text)}}
	}
	first := h.startNode()
	if first == nil {
		return nil, &tree.PathError{Path: f.Path, Err: tree.ErrNotExist}
	}
	h.near = newNearVersions(ctx, h)
	defer h.near.stop()
	first.lines, first.read = tree.TextOptions{Space: o.Space}.Keys(text), true
	for _, r := range ranges {
		first.spans = append(first.spans, lineSpan{r.Lo, r.Hi - r.Lo, r.Lo})
	}

	var hunks []Hunk
	for n := h.nextNode(); n != nil; n = h.nextNode() {
		if len(n.spans) > 0 {
			if err := h.passLines(ctx, n); err != nil {
				return nil, err
			}
		}
		for _, s := range n.spans {
			hunks = append(hunks, Hunk{Lines{s.line, s.line + s.n}, s.at, &n.Origin})
		}
		n.spans, n.lines = nil, nil
	}
	return joinHunks(hunks), nil
}

// passLines gives the pending lines of n to the versions before it that have them.
func (h *lineage) passLines(ctx context.Context, n *node) error {
	before, err := h.earlierNodes(ctx, n)
	if err != nil {
		return err
	}
	for _, b := range before {
		if h.sameContent(n, b) {
			b.spans, n.spans = append(b.spans, n.spans...), nil
			if !b.read {
				b.lines, b.read = n.lines, n.read
			}
			return nil
		}
	}
	if len(before) == 0 {
		return nil
	}

	if err := h.readLines(ctx, n); err != nil || n.lines == nil {
		return err
	}
	for _, b := range before {
		if len(n.spans) == 0 {
			break
		}
		if err := h.readLines(ctx, b); err != nil {
			return err
		}
		if b.lines == nil {
			continue
		}
		kept, rest := splitSpans(n.spans, unchangedRuns(b.lines, n.lines))
		b.spans, n.spans = append(b.spans, kept...), rest
	}
	return nil
}

// commonRun is a run of n lines that two texts have in common.
type commonRun struct{ a, b, n int }

// unchangedRuns returns the lines of a that are still in b, in order.
func unchangedRuns(a, b []string) (runs []commonRun) {
	aAt, bAt := 0, 0
	tree.EachEdit(a, b, func(aLo, aHi, bLo, bHi int) {
		if bLo > bAt {
			runs = append(runs, commonRun{aAt, bAt, bLo - bAt})
		}
		aAt, bAt = aHi, bHi
	})
	if bAt < len(b) {
		runs = append(runs, commonRun{aAt, bAt, len(b) - bAt})
	}
	return runs
}

// splitSpans splits spans of text b into the parts that are in text a, with their places there, and
// the rest.
func splitSpans(spans []lineSpan, runs []commonRun) (kept, rest []lineSpan) {
	for _, s := range spans {
		i, _ := slices.BinarySearchFunc(runs, s.at, func(r commonRun, at int) int { return cmp.Compare(r.b+r.n, at+1) })
		for ; s.n > 0 && i < len(runs) && runs[i].b < s.at+s.n; i++ {
			r := runs[i]
			if gap := r.b - s.at; gap > 0 {
				rest = append(rest, lineSpan{s.line, gap, s.at})
				s = lineSpan{s.line + gap, s.n - gap, r.b}
			}
			n := min(s.n, r.b+r.n-s.at)
			kept = append(kept, lineSpan{s.line, n, r.a + s.at - r.b})
			s = lineSpan{s.line + n, s.n - n, s.at + n}
		}
		if s.n > 0 {
			rest = append(rest, s)
		}
	}
	return kept, rest
}

// readLines reads the content of a version, unless it is lost, purged or too large.
func (h *lineage) readLines(ctx context.Context, n *node) error {
	if n.read {
		return nil
	}
	n.read = true
	if err := h.near.bringVersion(n); err != nil {
		return &tree.PathError{Path: n.Path, Err: err}
	}
	e, v, err := h.entryOf(ctx, n)
	if err == nil && e.Size > tree.MaxText {
		return nil
	}
	var data []byte
	if err == nil {
		data, err = v.ReadContent(ctx, h.r, n.Path, e, tree.MaxText+1)
	}
	if object.PassOverContent(v.Objects, n.Path, e.Content, err) {
		return nil
	}
	if err != nil {
		return &tree.PathError{Path: n.Path, Err: err}
	}
	n.lines = tree.TextOptions{Space: h.opt.Space}.Keys(tree.SplitLines(data))
	return nil
}

// joinHunks sorts hunks by line, and joins neighbours that were neighbours in their origin.
func joinHunks(hunks []Hunk) []Hunk {
	slices.SortFunc(hunks, func(a, b Hunk) int { return cmp.Compare(a.Lo, b.Lo) })
	out := hunks[:0]
	for _, h := range hunks {
		if n := len(out); n > 0 && out[n-1].Origin == h.Origin && out[n-1].Hi == h.Lo && out[n-1].At+out[n-1].Hi-out[n-1].Lo == h.At {
			out[n-1].Hi = h.Hi
			continue
		}
		out = append(out, h)
	}
	return out
}

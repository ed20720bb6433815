package tree

import (
	"context"
	"fmt"

	"github.com/kist-vcs/kist/object"
)

// Range is a stretch of a file whose bytes changed. Offsets and lengths are in
// bytes. A length of 0 means that bytes were only added, or only removed.
type Range struct {
	OldOff, OldLen uint64
	NewOff, NewLen uint64
}

// ChangedRanges returns the ranges in which the content of two file entries
// differs, in order and in whole chunks. It compares chunk lists. It reads
// neither chunks nor common parts of the lists. Anything but a file has no
// content. Ranges do not overlap or touch. After more than two million pieces,
// it reports the rest in larger ranges.
func ChangedRanges(ctx context.Context, r object.Reader, old, new object.Entry) ([]Range, error) {
	c := rangeDiff{r: r}
	a, err := c.content(ctx, old)
	if err != nil {
		return nil, err
	}

	b, err := c.content(ctx, new)
	if err != nil {
		return nil, err
	}
	if err := c.compare(ctx, a, b); err != nil {
		return nil, err
	}

	return c.out, nil
}

// piece is a stretch of a file: a chunk (height 0), or a manifest node of
// level height-1.
type piece struct {
	id        object.ID
	off, size uint64
}

// pieces is a longer stretch. All of its pieces have the same height.
type pieces struct {
	list     []piece
	height   int
	off, end uint64
}

type rangeDiff struct {
	r   object.Reader
	out []Range

	read int // pieces that were read
}

// maxPieces bounds the pieces of chunk lists that a comparison reads.
const maxPieces = 2 << 20

// content returns the content of an entry as one piece.
func (c *rangeDiff) content(ctx context.Context, e object.Entry) (pieces, error) {
	p := pieces{end: e.Size}
	switch {
	case e.Type != object.TypeFile || e.Size == 0:
		return pieces{}, nil
	case e.Content.IsZero():
		p.list = []piece{{object.Sum(e.Inline), 0, e.Size}}
		return p, nil
	case e.Content.Kind == object.KindManifest:
		m, err := object.ReadManifest(ctx, c.r, e.Content.ID)
		if err != nil {
			return pieces{}, err
		}
		p.height = int(m.Level) + 1
	}

	p.list = []piece{{e.Content.ID, 0, e.Size}}
	return p, nil
}

// compare reports the differences of two stretches.
func (c *rangeDiff) compare(ctx context.Context, a, b pieces) error {
	ok := true
	for a.height != b.height && ok {
		var err error
		if a.height > b.height {
			a, ok, err = c.expand(ctx, a)
		} else {
			b, ok, err = c.expand(ctx, b)
		}
		if err != nil {
			return err
		}
	}

	if !ok || len(a.list) == 0 || len(b.list) == 0 {
		c.report(a, b)
		return nil
	}

	numbers := make(map[object.ID]int32)
	for _, r := range diffSeq(number(numbers, a.list), number(numbers, b.list), len(numbers)) {
		if err := c.differ(ctx, a.part(r.aLo, r.aHi), b.part(r.bLo, r.bHi)); err != nil {
			return err
		}
	}

	return nil
}

// differ reports the differences of two stretches of the same height that have
// no piece in common.
func (c *rangeDiff) differ(ctx context.Context, a, b pieces) error {
	if a.height == 0 || len(a.list) == 0 || len(b.list) == 0 {
		c.report(a, b)
		return nil
	}

	ea, ok, err := c.expand(ctx, a)
	if err != nil {
		return err
	}
	if ok {
		var eb pieces
		if eb, ok, err = c.expand(ctx, b); err != nil {
			return err
		} else if ok {
			return c.compare(ctx, ea, eb)
		}
	}

	c.report(a, b)
	return nil
}

func number(numbers map[object.ID]int32, list []piece) []int32 {
	ids := make([]int32, len(list))
	for i, p := range list {
		n, ok := numbers[p.id]
		if !ok {
			n = int32(len(numbers))
			numbers[p.id] = n
		}
		ids[i] = n
	}
	return ids
}

// part returns the pieces from lo up to hi.
func (p pieces) part(lo, hi int) pieces {
	part := pieces{list: p.list[lo:hi], height: p.height, off: p.end, end: p.end}
	if lo < len(p.list) {
		part.off = p.list[lo].off
	}
	if part.end = part.off; lo < hi {
		part.end = p.list[hi-1].off + p.list[hi-1].size
	}
	return part
}

// expand reads the nodes of a stretch. After too many pieces, it reports false
// and returns p unchanged.
func (c *rangeDiff) expand(ctx context.Context, p pieces) (pieces, bool, error) {
	out := pieces{height: p.height - 1, off: p.off, end: p.end}
	for _, at := range p.list {
		if c.read > maxPieces {
			return p, false, nil
		}
		m, err := object.ReadManifest(ctx, c.r, at.id)
		if err != nil {
			return p, false, err
		}
		if int(m.Level) != p.height-1 || m.Size() != at.size {
			key := object.Key{Kind: object.KindManifest, ID: at.id}
			return p, false, fmt.Errorf("read %s: %w", key, &object.FormatError{
				Kind: object.KindManifest, Reason: object.ReasonChild,
				Err: fmt.Errorf("level %d and %d bytes, want %d and %d", m.Level, m.Size(), p.height-1, at.size),
			})
		}
		c.read += len(m.Chunks) + len(m.Children)
		off := at.off
		for _, chunk := range m.Chunks {
			out.list = append(out.list, piece{chunk.ID, off, uint64(chunk.Size)})
			off += uint64(chunk.Size)
		}
		for _, child := range m.Children {
			end := at.off + child.End
			out.list = append(out.list, piece{child.ID, off, end - off})
			off = end
		}
	}

	return out, true, nil
}

// report adds a difference.
func (c *rangeDiff) report(a, b pieces) {
	if a.off == a.end && b.off == b.end {
		return
	}
	if n := len(c.out); n > 0 {
		last := &c.out[n-1]
		if last.OldOff+last.OldLen == a.off && last.NewOff+last.NewLen == b.off {
			last.OldLen, last.NewLen = a.end-last.OldOff, b.end-last.NewOff
			return
		}
	}
	c.out = append(c.out, Range{a.off, a.end - a.off, b.off, b.end - b.off})
}

package tree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/kist-vcs/kist/object"
)

// SplitFunc cuts content into chunks and calls emit for each, in order. A
// chunk is valid only during the call. The method Split of a chunker is a
// SplitFunc.
type SplitFunc func(r io.Reader, emit func(chunk []byte) error) error

// storeContent stores data as the content of a file entry.
func storeContent(ctx context.Context, w object.Writer, split SplitFunc, data []byte, e *object.Entry) error {
	e.Size, e.Inline, e.Content = uint64(len(data)), nil, object.Key{}
	if len(data) <= object.MaxInline {
		e.Inline = append(e.Inline, data...)
		return nil
	}

	list := object.NewManifestWriter(w)
	err := split(bytes.NewReader(data), func(chunk []byte) error {
		id, err := w.Put(ctx, object.KindChunk, chunk)
		if err != nil {
			return err
		}
		return list.Add(ctx, object.ChunkRef{ID: id, Size: uint32(len(chunk))})
	})
	if err != nil {
		return err
	}

	e.Content, _, err = list.Finish(ctx)
	return err
}

// ContentID returns the ID of an entry's content. For a small file, it is the hash of the
// bytes, even if the entry holds them. For a file of several chunks, it is the ID of their
// list. For a symlink, it is the hash of the target.
func ContentID(e *object.Entry) object.ID {
	switch {
	case e == nil:
		return object.ID{}
	case !e.Content.IsZero():
		return e.Content.ID
	case e.Type == object.TypeSymlink:
		return object.Sum([]byte(e.Target))
	}
	return object.Sum(e.Inline)
}

// readContent returns the content of a file entry. The caller has bounded its
// size.
func readContent(ctx context.Context, r object.Reader, e *object.Entry) ([]byte, error) {
	data := make([]byte, e.Size)
	_, err := io.ReadFull(object.NewContentReader(ctx, r, *e), data)
	return data, err
}

// readText returns the content of a file entry, and whether it is text. Nil
// entries and other types have no content and count as text. Purged content
// does not: it cannot be read.
func readText(ctx context.Context, r object.Reader, e *object.Entry) (data []byte, ok bool, err error) {
	switch {
	case e == nil || e.Type != object.TypeFile:
		return nil, true, nil
	case e.Size > MaxText:
		return nil, false, nil
	}

	data, err = readContent(ctx, r, e)
	switch {
	case errors.Is(err, object.ErrPurged):
		return nil, false, nil
	case err != nil:
		return nil, false, err
	}

	return data, IsText(data), nil
}

// Range is a stretch of a file whose bytes changed. Offsets and lengths are in
// bytes. A length of 0 means that bytes were only added, or only removed.
type Range struct {
	OldOff uint64 `json:"old_offset" doc:"the offset in the file before"`
	OldLen uint64 `json:"old_size" doc:"the number of bytes there"`
	NewOff uint64 `json:"new_offset" doc:"the offset in the file now"`
	NewLen uint64 `json:"new_size" doc:"the number of bytes there"`
}

// ChangedRanges returns the ranges in which the content of two file entries
// differs, in order and in whole chunks. It compares chunk lists. It reads
// neither chunks nor common parts of the lists. Anything but a file has no
// content. Ranges do not overlap or touch. After more than two million pieces,
// it reports the rest in larger ranges.
func ChangedRanges(ctx context.Context, r object.Reader, old, new object.Entry) ([]Range, error) {
	c := rangeDiff{r: r}
	a, err := c.contentPieces(ctx, old)
	if err != nil {
		return nil, err
	}

	b, err := c.contentPieces(ctx, new)
	if err != nil {
		return nil, err
	}
	if err := c.compareStretches(ctx, a, b); err != nil {
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

// pieceRun is a longer stretch. All of its pieces have the same height.
type pieceRun struct {
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

// contentPieces returns the content of an entry as one piece.
func (c *rangeDiff) contentPieces(ctx context.Context, e object.Entry) (pieceRun, error) {
	p := pieceRun{end: e.Size}
	switch {
	case e.Type != object.TypeFile || e.Size == 0:
		return pieceRun{}, nil
	case e.Content.IsZero():
		p.list = []piece{{object.Sum(e.Inline), 0, e.Size}}
		return p, nil
	case e.Content.Kind == object.KindManifest:
		m, err := object.ReadManifest(ctx, c.r, e.Content.ID)
		if err != nil {
			return pieceRun{}, err
		}
		p.height = int(m.Level) + 1
	}

	p.list = []piece{{e.Content.ID, 0, e.Size}}
	return p, nil
}

// compareStretches reports the differences of two stretches.
func (c *rangeDiff) compareStretches(ctx context.Context, a, b pieceRun) error {
	ok := true
	for a.height != b.height && ok {
		var err error
		if a.height > b.height {
			a, ok, err = c.readChildren(ctx, a)
		} else {
			b, ok, err = c.readChildren(ctx, b)
		}
		if err != nil {
			return err
		}
	}

	if !ok || len(a.list) == 0 || len(b.list) == 0 {
		c.addRange(a, b)
		return nil
	}

	numbers := symbols[object.ID]{}
	id := func(p piece) object.ID { return p.id }
	for _, r := range diffSeq(numberItems(numbers, a.list, id), numberItems(numbers, b.list, id), len(numbers)) {
		if err := c.compareUnshared(ctx, a.subrange(r.aLo, r.aHi), b.subrange(r.bLo, r.bHi)); err != nil {
			return err
		}
	}

	return nil
}

// compareUnshared reports the differences of two stretches of the same height that have
// no piece in common.
func (c *rangeDiff) compareUnshared(ctx context.Context, a, b pieceRun) error {
	if a.height == 0 || len(a.list) == 0 || len(b.list) == 0 {
		c.addRange(a, b)
		return nil
	}

	ea, ok, err := c.readChildren(ctx, a)
	if err != nil {
		return err
	}
	if ok {
		var eb pieceRun
		if eb, ok, err = c.readChildren(ctx, b); err != nil {
			return err
		} else if ok {
			return c.compareStretches(ctx, ea, eb)
		}
	}

	c.addRange(a, b)
	return nil
}

// subrange returns the pieces from lo up to hi.
func (p pieceRun) subrange(lo, hi int) pieceRun {
	part := pieceRun{list: p.list[lo:hi], height: p.height, off: p.end, end: p.end}
	if lo < len(p.list) {
		part.off = p.list[lo].off
	}
	if part.end = part.off; lo < hi {
		part.end = p.list[hi-1].off + p.list[hi-1].size
	}
	return part
}

// readChildren reads the nodes of a stretch. After too many pieces, it reports false
// and returns p unchanged.
func (c *rangeDiff) readChildren(ctx context.Context, p pieceRun) (pieceRun, bool, error) {
	out := pieceRun{height: p.height - 1, off: p.off, end: p.end}
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

// addRange adds a difference.
func (c *rangeDiff) addRange(a, b pieceRun) {
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

// cursor walks a directory's list in order. It stands on an entry
// (height 0) or on a whole node that has not been read (height 1 and up).
// [cursor.next] steps over a node, [cursor.enterChild] reads it. The cursor checks
// that the nodes it reads fit together. If the reader is [object.Lenient], it
// skips nodes that the reader may leave out.
type cursor struct {
	r     object.Reader
	path  string      // of the directory
	stack []nodePlace // from the root node down; no place is past the end of its node
}

type nodePlace struct {
	node  *object.Tree
	at    int
	after string // all names in the node are greater than this one
}

// newCursor returns a cursor on the first item of the directory at path with
// the given root node. The zero ID means a directory that does not exist; its
// list is empty.
func newCursor(ctx context.Context, r object.Reader, path string, root object.ID) (*cursor, error) {
	c := &cursor{r: r, path: path}
	if root.IsZero() {
		return c, nil
	}

	node, err := object.ReadTree(ctx, r, root)
	if object.PassOver(r, path, treeKey(root), err) {
		return c, nil
	}
	if err != nil {
		return nil, err
	}
	if node.Level > 0 && len(node.Children) < 2 {
		return nil, misfitError(root, object.ReasonRoot, "an only child below level %d", node.Level)
	}
	if countItems(node) > 0 {
		c.stack = append(c.stack, nodePlace{node: node})
	}

	return c, nil
}

// isPastEnd reports whether the cursor has passed the last item.
func (c *cursor) isPastEnd() bool { return len(c.stack) == 0 }

// height returns how many levels of nodes lie between the item and its
// entries: 0 for an entry, -1 at the end.
func (c *cursor) height() int {
	if c.isPastEnd() {
		return -1
	}
	return int(c.topPlace().node.Level)
}

// entry returns the entry that the cursor stands on; the height must be 0. The
// entry belongs to the node, so callers copy it to keep it.
func (c *cursor) entry() *object.Entry { return &c.topPlace().node.Entries[c.topPlace().at] }

// child returns the unread node that the cursor stands on; the height must not be 0.
func (c *cursor) child() object.TreeChild { return c.topPlace().node.Children[c.topPlace().at] }

// isRightmost reports whether the item is the last of its level in the whole
// list.
func (c *cursor) isRightmost() bool {
	for _, p := range c.stack {
		if p.at < countItems(p.node)-1 {
			return false
		}
	}
	return true
}

// next steps over the item.
func (c *cursor) next() {
	for len(c.stack) > 0 {
		p := c.topPlace()
		if p.at++; p.at < countItems(p.node) {
			return
		}
		c.stack = c.stack[:len(c.stack)-1]
	}
}

// enterChild reads the node that the cursor stands on and moves to its first item.
// If the reader leaves the node out, it moves to the next item.
func (c *cursor) enterChild(ctx context.Context) error {
	p, want := c.topPlace(), c.child()
	after := p.after
	if p.at > 0 {
		after = p.node.Children[p.at-1].Last
	}

	node, err := object.ReadTree(ctx, c.r, want.ID)
	if object.PassOver(c.r, c.path, treeKey(want.ID), err) {
		c.next()
		return nil
	}
	if err != nil {
		return err
	}
	first, last := node.Bounds()
	if err := checkFits(p.node.Level, want, after, treeFacts{first: first, last: last, level: int8(node.Level)}); err != nil {
		return misfitError(want.ID, object.ReasonChild, "%w", err)
	}

	c.stack = append(c.stack, nodePlace{node: node, after: after})
	return nil
}

func (c *cursor) topPlace() *nodePlace { return &c.stack[len(c.stack)-1] }

// countItems returns the number of entries or children of a node.
func countItems(t *object.Tree) int { return len(t.Entries) + len(t.Children) }

// checkFits checks that a node matches child, its description in a parent of the given level.
// The names in the node must be greater than after.
func checkFits(level uint8, child object.TreeChild, after string, node treeFacts) error {
	switch {
	case int(node.level) != int(level)-1:
		return fmt.Errorf("level %d below level %d", node.level, level)
	case node.last != child.Last:
		return fmt.Errorf("last name %q, want %q as in its parent", node.last, child.Last)
	case node.first != "" && node.first <= after:
		return fmt.Errorf("first name %q after %q", node.first, after)
	}
	return nil
}

func misfitError(id object.ID, reason object.Reason, format string, args ...any) error {
	key := object.Key{Kind: object.KindTree, ID: id}
	return fmt.Errorf("read %s: %w", key, &object.FormatError{Kind: object.KindTree, Reason: reason, Err: fmt.Errorf(format, args...)})
}

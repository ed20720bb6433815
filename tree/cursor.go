package tree

import (
	"context"
	"fmt"

	"github.com/kist-vcs/kist/object"
)

// cursor goes through a directory's list in order. It stands on an entry
// (height 0) or on a whole node that has not been read (height 1 and up).
// [cursor.next] steps over a node, [cursor.expand] reads it. The cursor checks
// that the nodes it reads fit together. If the reader is [object.Lenient], it
// skips nodes that the reader may leave out.
type cursor struct {
	r     object.Reader
	path  string  // of the directory
	stack []place // from the root node down; no place is past the end of its node
}

type place struct {
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
		return nil, misfit(root, object.ReasonRoot, "an only child below level %d", node.Level)
	}
	if items(node) > 0 {
		c.stack = append(c.stack, place{node: node})
	}

	return c, nil
}

// done reports whether the cursor has passed the last item.
func (c *cursor) done() bool { return len(c.stack) == 0 }

// height returns how many levels of nodes lie between the item and its
// entries: 0 for an entry, -1 at the end.
func (c *cursor) height() int {
	if c.done() {
		return -1
	}
	return int(c.top().node.Level)
}

// entry returns the entry that the cursor stands on; the height must be 0. The
// entry belongs to the node, so callers copy it to keep it.
func (c *cursor) entry() *object.Entry { return &c.top().node.Entries[c.top().at] }

// child returns the unread node that the cursor stands on; the height must not be 0.
func (c *cursor) child() object.TreeChild { return c.top().node.Children[c.top().at] }

// rightmost reports whether the item is the last of its level in the whole
// list.
func (c *cursor) rightmost() bool {
	for _, p := range c.stack {
		if p.at < items(p.node)-1 {
			return false
		}
	}
	return true
}

// next steps over the item.
func (c *cursor) next() {
	for len(c.stack) > 0 {
		p := c.top()
		if p.at++; p.at < items(p.node) {
			return
		}
		c.stack = c.stack[:len(c.stack)-1]
	}
}

// expand reads the node that the cursor stands on and moves to its first item.
// If the reader leaves the node out, it moves to the next item.
func (c *cursor) expand(ctx context.Context) error {
	p, want := c.top(), c.child()
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
	if err := fits(p.node, want, after, node); err != nil {
		return err
	}

	c.stack = append(c.stack, place{node: node, after: after})
	return nil
}

func (c *cursor) top() *place { return &c.stack[len(c.stack)-1] }

// items returns the number of entries or children of a node.
func items(t *object.Tree) int { return len(t.Entries) + len(t.Children) }

// fits checks that node matches the description in its parent, and that its
// names come after those of the nodes before it.
func fits(parent *object.Tree, child object.TreeChild, after string, node *object.Tree) error {
	first, last := bounds(node)
	switch {
	case node.Level != parent.Level-1:
		return misfit(child.ID, object.ReasonChild, "level %d below level %d", node.Level, parent.Level)
	case last != child.Last:
		return misfit(child.ID, object.ReasonChild, "last name %q, parent says %q", last, child.Last)
	case first <= after:
		return misfit(child.ID, object.ReasonChild, "first name %q after %q", first, after)
	}
	return nil
}

// bounds returns the last names of a node's first and last items, or "".
func bounds(t *object.Tree) (first, last string) {
	switch {
	case len(t.Entries) > 0:
		return t.Entries[0].Name, t.Entries[len(t.Entries)-1].Name
	case len(t.Children) > 0:
		return t.Children[0].Last, t.Children[len(t.Children)-1].Last
	}
	return "", ""
}

func misfit(id object.ID, reason object.Reason, format string, args ...any) error {
	key := object.Key{Kind: object.KindTree, ID: id}
	return fmt.Errorf("read %s: %w", key, &object.FormatError{Kind: object.KindTree, Reason: reason, Err: fmt.Errorf(format, args...)})
}

package object

import (
	"context"
	"fmt"
	"iter"
	"sort"
	"sync"
)

// Encode returns the node's canonical encoding (docs/format/objects.md). It returns an
// [*InvalidError] for a node that decoders would reject.
func (t *Tree) Encode() ([]byte, error) {
	return encodeList(KindTree, t.Level, t.encode)
}

func (t *Tree) encode(n *listNode) error {
	switch {
	case t.Level >= MaxLevel:
		return faultf(ReasonLevel, "level %d", t.Level)
	case t.Level == 0 && len(t.Children) > 0, t.Level > 0 && len(t.Entries) > 0:
		return faultf(ReasonLevel, "entries in an inner node, or children in a leaf")
	case t.Level > 0 && len(t.Children) == 0:
		return faultf(ReasonItems, "inner node without children")
	}
	for i := range t.Entries {
		e := &t.Entries[i]
		if err := n.mustAdd(listItem{name: e.Name, link: e.Content, entry: e}); err != nil {
			return err
		}
	}
	for _, c := range t.Children {
		if err := n.mustAdd(listItem{name: c.Last, link: Key{KindTree, c.ID}}); err != nil {
			return err
		}
	}
	return nil
}

// DecodeTree decodes a tree node. It accepts exactly the encodings that [Tree.Encode]
// returns. Errors are [*FormatError]. The node does not refer to data.
func DecodeTree(data []byte) (*Tree, error) {
	t := new(Tree)
	err := decodeList(KindTree, data, t.encode, func(h *header, level uint8, items []byte) (err error) {
		if t.Level = level; level == 0 {
			t.Entries, err = decodeEntries(h, items)
			return err
		}
		t.Children, err = decodeItems(items, func(b *treeChildBody) (TreeChild, error) {
			id, err := h.useKind(b.Link, KindTree)
			return TreeChild{Last: b.Last, ID: id}, err
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	return t, nil
}

var entryBodies = sync.Pool{New: func() any { return new([]entryBody) }}

func decodeEntries(h *header, items []byte) ([]Entry, error) {
	pooled := entryBodies.Get().(*[]entryBody)
	defer func() {
		clear(*pooled)
		*pooled = (*pooled)[:0]
		entryBodies.Put(pooled)
	}()
	if err := listCodec.unmarshal(items, pooled); err != nil {
		return nil, err
	}
	entries := make([]Entry, len(*pooled))
	for i := range *pooled {
		b, e := &(*pooled)[i], &entries[i]
		link, err := h.useLink(b.Link)
		if err != nil {
			return nil, err
		}
		*e = Entry{
			Name: b.Name, Type: EntryType(b.Type), Mode: b.Mode,
			Size: b.Size, Files: b.Files, MTime: Time{b.Sec, b.Nsec},
			Inline: b.Inline, Content: link, Target: b.Target,
		}
		b.Meta.copyTo(e)
	}
	return entries, nil
}

// EmptyTree returns the node of an empty directory and its ID.
func EmptyTree() (ID, []byte) {
	data, err := new(Tree).Encode()
	if err != nil {
		panic(err) // impossible: an empty tree breaks no rule
	}
	return Sum(data), data
}

// Entries yields the entries of the directory with the given root node, in the order of
// their names. It reads nodes as it goes, and checks that they fit together: levels, order,
// and the last names in parents. It yields an error once, with a zero Entry, as the last
// value.
func Entries(ctx context.Context, r Reader, root ID) iter.Seq2[Entry, error] {
	return EntriesFrom(ctx, r, root, "")
}

// EntriesFrom is [Entries] without the names before from. It does not read nodes that have
// only such names.
func EntriesFrom(ctx context.Context, r Reader, root ID, from string) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		t, err := readTreeRoot(ctx, r, root)
		if err != nil {
			yield(Entry{}, err)
			return
		}

		stack := []treePosition{{tree: t, next: t.firstFrom(from)}}
		for len(stack) > 0 {
			p := &stack[len(stack)-1]
			for _, e := range p.tree.Entries[min(p.next, len(p.tree.Entries)):] {
				if !yield(e, nil) {
					return
				}
			}
			if p.next >= len(p.tree.Children) { // a leaf, or all children done
				stack = stack[:len(stack)-1]
				continue
			}

			child, err := p.readChild(ctx, r)
			if err != nil {
				yield(Entry{}, err)
				return
			}
			child.next = child.tree.firstFrom(from)
			p.next++
			stack = append(stack, child)
		}
	}
}

// Lookup returns the entry of one name in the directory with the given root node. It reads
// one node for each level. If there is no such name, the error matches [ErrNoEntry].
func Lookup(ctx context.Context, r Reader, root ID, name string) (Entry, error) {
	t, err := readTreeRoot(ctx, r, root)
	if err != nil {
		return Entry{}, err
	}
	p := treePosition{tree: t, next: t.firstFrom(name)}
	for p.tree.Level > 0 && p.next < len(p.tree.Children) {
		if p, err = p.readChild(ctx, r); err != nil {
			return Entry{}, err
		}
		p.next = p.tree.firstFrom(name)
	}
	if p.next < len(p.tree.Entries) && p.tree.Entries[p.next].Name == name {
		return p.tree.Entries[p.next], nil
	}
	return Entry{}, fmt.Errorf("%q: %w", name, ErrNoEntry)
}

// firstFrom returns the position of the first item that can have name or a later name.
func (t *Tree) firstFrom(name string) int {
	if t.Level == 0 {
		return sort.Search(len(t.Entries), func(i int) bool { return t.Entries[i].Name >= name })
	}
	return sort.Search(len(t.Children), func(i int) bool { return t.Children[i].Last >= name })
}

// treePosition is a place in a node on the way down a list.
type treePosition struct {
	tree  *Tree
	next  int    // number of the next item
	after string // every name in the node comes after this one
}

// readChild reads the node at the position, and checks it against its parent.
func (p *treePosition) readChild(ctx context.Context, r Reader) (treePosition, error) {
	want, after := p.tree.Children[p.next], p.after
	if p.next > 0 {
		after = p.tree.Children[p.next-1].Last
	}
	t, err := ReadTree(ctx, r, want.ID)
	if err != nil {
		return treePosition{}, err
	}
	first, last := t.Bounds()
	switch {
	case t.Level != p.tree.Level-1:
		err = fmt.Errorf("level %d below level %d", t.Level, p.tree.Level)
	case last != want.Last:
		err = fmt.Errorf("last name %q, want %q", last, want.Last)
	case first <= after:
		err = fmt.Errorf("first name %q after %q", first, after)
	default:
		return treePosition{tree: t, after: after}, nil
	}
	return treePosition{}, readError(Key{KindTree, want.ID}, &FormatError{KindTree, ReasonChild, err})
}

// Bounds returns the names of the first and last items, or "". The name of a child is its Last.
func (t *Tree) Bounds() (first, last string) {
	switch {
	case len(t.Entries) > 0:
		return t.Entries[0].Name, t.Entries[len(t.Entries)-1].Name
	case len(t.Children) > 0:
		return t.Children[0].Last, t.Children[len(t.Children)-1].Last
	}
	return "", ""
}

// readTreeRoot reads a node that a directory's entry links to.
func readTreeRoot(ctx context.Context, r Reader, id ID) (*Tree, error) {
	t, err := ReadTree(ctx, r, id)
	if err == nil && t.Level > 0 && len(t.Children) < 2 {
		return nil, readError(Key{KindTree, id}, &FormatError{KindTree, ReasonRoot, nil})
	}
	return t, err
}

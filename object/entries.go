package object

import (
	"context"
	"fmt"
	"iter"
	"sort"
)

// Entries iterates over the entries of the directory with the given root node,
// in the order of their names. It reads nodes as it goes, and checks that they
// fit together: levels, order, and the last names that parents give. An error
// is yielded once, with a zero Entry, and ends the iteration.
func Entries(ctx context.Context, r Reader, root ID) iter.Seq2[Entry, error] {
	return EntriesFrom(ctx, r, root, "")
}

// EntriesFrom is [Entries] from the first name that is not before from; nodes
// in front of it are not read.
func EntriesFrom(ctx context.Context, r Reader, root ID, from string) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		t, err := readTreeRoot(ctx, r, root)
		if err != nil {
			yield(Entry{}, err)
			return
		}
		stack := []treePosition{{tree: t, next: t.search(from)}}
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
			child, err := p.child(ctx, r)
			if err != nil {
				yield(Entry{}, err)
				return
			}
			child.next = child.tree.search(from)
			p.next++
			stack = append(stack, child)
		}
	}
}

// Lookup returns the entry of one name in the directory with the given root
// node, reading one node per level. A name that is not there gives
// [ErrNoEntry].
func Lookup(ctx context.Context, r Reader, root ID, name string) (Entry, error) {
	t, err := readTreeRoot(ctx, r, root)
	if err != nil {
		return Entry{}, err
	}
	p := treePosition{tree: t, next: t.search(name)}
	for p.tree.Level > 0 && p.next < len(p.tree.Children) {
		if p, err = p.child(ctx, r); err != nil {
			return Entry{}, err
		}
		p.next = p.tree.search(name)
	}
	if p.next < len(p.tree.Entries) && p.tree.Entries[p.next].Name == name {
		return p.tree.Entries[p.next], nil
	}
	return Entry{}, fmt.Errorf("%q: %w", name, ErrNoEntry)
}

// search returns the position of the first item that can hold name or what
// comes after it.
func (t *Tree) search(name string) int {
	if t.Level == 0 {
		return sort.Search(len(t.Entries), func(i int) bool { return t.Entries[i].Name >= name })
	}
	return sort.Search(len(t.Children), func(i int) bool { return t.Children[i].Last >= name })
}

// treePosition is a place in a node on the way down a list.
type treePosition struct {
	tree  *Tree
	next  int    // item to go on with
	after string // every name in the node comes after this one
}

// child reads the node at the position, and checks that it is what p says.
func (p *treePosition) child(ctx context.Context, r Reader) (treePosition, error) {
	want, after := p.tree.Children[p.next], p.after
	if p.next > 0 {
		after = p.tree.Children[p.next-1].Last
	}
	t, err := ReadTree(ctx, r, want.ID)
	if err != nil {
		return treePosition{}, err
	}
	first, last := t.bounds()
	switch {
	case t.Level != p.tree.Level-1:
		err = fmt.Errorf("level %d below level %d", t.Level, p.tree.Level)
	case last != want.Last:
		err = fmt.Errorf("last name %q, parent says %q", last, want.Last)
	case first <= after:
		err = fmt.Errorf("first name %q after %q", first, after)
	default:
		return treePosition{tree: t, after: after}, nil
	}
	return treePosition{}, readError(Key{KindTree, want.ID}, &FormatError{KindTree, ReasonChild, err})
}

// bounds returns the names of the node's first and last items, or empty ones.
func (t *Tree) bounds() (first, last string) {
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

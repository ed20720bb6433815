package object

import (
	"context"
	"fmt"
	"iter"
	"math"
	"sort"
	"strings"
	"unicode/utf8"
)

// MaxFileSize is the largest size of a file: offsets are int64.
const MaxFileSize = math.MaxInt64

// checkEntry checks everything about an entry by itself, except its encoded
// size.
func checkEntry(e *Entry) error {
	if err := CheckName(e.Name); err != nil {
		return &fault{ReasonName, err}
	}
	var wrong string
	switch e.Type {
	case TypeFile:
		wrong = checkFile(e)
	case TypeDir:
		switch {
		case e.Content.Kind != KindTree || e.Content.ID.IsZero():
			wrong = "directory without a tree"
		case len(e.Inline) > 0 || e.Target != "":
			wrong = "directory with content or a target"
		}
	case TypeSymlink:
		switch {
		case e.Target == "" || len(e.Target) > MaxTargetSize || strings.IndexByte(e.Target, 0) >= 0:
			wrong = "symlink with a target that is empty, too long or has a NUL byte"
		case hasContent(e):
			wrong = "symlink with content"
		}
	case TypeFIFO, TypeCharDevice, TypeBlockDevice, TypeSocket:
		if hasContent(e) || e.Target != "" {
			wrong = "special file with content or a target"
		}
	default:
		wrong = "unknown type"
	}
	switch {
	case wrong != "":
	case e.Mode > 0o7777:
		wrong = "more than permission bits"
	case e.MTime.Nsec >= 1e9:
		wrong = "more than 999999999 nanoseconds"
	case e.Meta != nil:
		return checkMetadata(e)
	default:
		return nil
	}
	return faultf(ReasonEntry, "%q: %s", e.Name, wrong)
}

func checkFile(e *Entry) string {
	switch {
	case e.Target != "" || e.Files != 0:
		return "file with a target or a count of files"
	case e.Size > MaxFileSize:
		return "file too large"
	case e.Size <= MaxInline:
		if uint64(len(e.Inline)) != e.Size || !e.Content.IsZero() {
			return "small file without its bytes"
		}
	case len(e.Inline) > 0 || e.Content.ID.IsZero():
		return "file without content"
	case e.Content.Kind == KindChunk:
		if e.Size > MaxChunkSize {
			return "file larger than its one chunk can be"
		}
	case e.Content.Kind != KindManifest:
		return "content that is neither chunk nor manifest"
	}
	return ""
}

func hasContent(e *Entry) bool {
	return e.Size != 0 || e.Files != 0 || len(e.Inline) > 0 || !e.Content.IsZero()
}

func checkMetadata(e *Entry) error {
	m := e.Meta
	var wrong string
	switch {
	case len(m.Owner) > MaxNameSize || len(m.Group) > MaxNameSize:
		wrong = "name of owner or group too long"
	case len(m.Xattrs) > MaxListItems || len(m.Attrs) > MaxListItems:
		wrong = "too many attributes"
	case m.Device != 0 && e.Type != TypeCharDevice && e.Type != TypeBlockDevice:
		wrong = "device number, but no device"
	case m.HardLink != 0 && e.Type == TypeDir:
		wrong = "directory in a hard-link group"
	}
	for name := range m.Xattrs {
		if name == "" || len(name) > MaxNameSize || strings.IndexByte(name, 0) >= 0 {
			wrong = "extended attribute with a name that is empty, too long or has a NUL byte"
		}
	}
	for key, value := range m.Attrs {
		if key == "" || len(key) > MaxNameSize || !utf8.ValidString(key) || !utf8.ValidString(value) {
			wrong = "attribute with an empty or too long key, or not UTF-8"
		}
	}
	if wrong != "" {
		return faultf(ReasonMetadata, "%q: %s", e.Name, wrong)
	}
	return nil
}

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
	first, last := t.Bounds()
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

// Bounds returns the last names of the node's first and last items, or "".
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

package object

import (
	"bytes"
	"sync"
)

// Encode returns the node's canonical encoding (docs/format/objects.md). A
// node that decoders would reject gives an [*InvalidError].
func (t *Tree) Encode() ([]byte, error) {
	n := getListNode(KindTree, t.Level)
	defer n.free()
	if err := t.encode(n); err != nil {
		return nil, encodeError(KindTree, err)
	}
	return n.append(make([]byte, 0, n.size())), nil
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

// DecodeTree decodes a tree node. It accepts exactly what [Tree.Encode]
// returns; errors are [*FormatError]. The node does not refer to data.
func DecodeTree(data []byte) (*Tree, error) {
	t, err := decodeTree(data)
	if err != nil {
		return nil, decodeError(KindTree, err)
	}
	return t, nil
}

var entryBodies = sync.Pool{New: func() any { return new([]entryBody) }}

func decodeTree(data []byte) (*Tree, error) {
	h, err := parseListHeader(KindTree, data)
	if err != nil {
		return nil, err
	}
	t := new(Tree)
	level, items, err := listLevel(h)
	if err != nil {
		return nil, err
	}
	if t.Level = level; level == 0 {
		t.Entries, err = decodeEntries(h, items)
	} else {
		t.Children, err = decodeTreeChildren(h, items)
	}
	if err != nil {
		return nil, err
	}
	return t, recode(h, KindTree, level, t.encode)
}

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
		link, err := h.use(b.Link)
		if err != nil {
			return nil, err
		}
		*e = Entry{
			Name: b.Name, Type: EntryType(b.Type), Mode: b.Mode,
			Size: b.Size, Files: b.Files, MTime: Time{b.Sec, b.Nsec},
			Inline: b.Inline, Content: link, Target: b.Target, Meta: (*Metadata)(b.Meta),
		}
	}
	return entries, nil
}

func decodeTreeChildren(h *header, items []byte) ([]TreeChild, error) {
	var bodies []treeChildBody
	if err := listCodec.unmarshal(items, &bodies); err != nil {
		return nil, err
	}
	children := make([]TreeChild, len(bodies))
	for i, b := range bodies {
		link, err := h.use(b.Link)
		if err != nil {
			return nil, err
		}
		if link.Kind != KindTree {
			return nil, faultf(ReasonLinkKind, "child %q is a %s", b.Last, link.Kind)
		}
		children[i] = TreeChild{Last: b.Last, ID: link.ID}
	}
	return children, nil
}

// parseListHeader is parseHeader with the size limit of list nodes.
func parseListHeader(kind Kind, data []byte) (*header, error) {
	if len(data) > MaxListSize {
		return nil, faultf(ReasonTooBig, "%d bytes", len(data))
	}
	return parseHeader(kind, data)
}

// recode checks that all links are used, and that encoding a decoded list node
// again gives the same bytes; encoding checks all the other rules.
func recode(h *header, kind Kind, level uint8, encode func(*listNode) error) error {
	n := getListNode(kind, level)
	defer n.free()
	if err := encode(n); err != nil {
		return err
	}
	if err := h.done(); err != nil {
		return err
	}
	// What else there is in front of the items was checked before.
	head := appendHead(make([]byte, 0, 9), cborArray, uint64(n.count))
	items, ok := bytes.CutPrefix(h.body[2:], head)
	if !ok || !bytes.Equal(items, n.items) || !bytes.Equal(h.links, n.links.raw) {
		return &fault{reason: ReasonCanonical}
	}
	return nil
}

// EmptyTree returns the node of an empty directory and its ID.
func EmptyTree() (ID, []byte) {
	data, err := new(Tree).Encode()
	if err != nil {
		panic(err) // cannot be: it breaks no rule
	}
	return Sum(data), data
}

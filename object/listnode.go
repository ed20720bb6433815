package object

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
)

// listItem is one item of a list node of any kind and level.
type listItem struct {
	name  string // tree: the entry's name, or the last one in the child
	link  Key    // what the item links to; zero: nothing
	size  uint64 // manifest: bytes of the file in the chunk or child
	entry *Entry // leaf of a tree: the entry
}

// listNode encodes a node of a chunked list, item by item. It checks every rule about the
// items of a node, also for decoders.
type listNode struct {
	kind  Kind
	level uint8

	links linkSet
	items []byte // encoded
	count int
	last  string // tree: the last item's name
	sum   uint64 // manifest: sum of the items' sizes
}

var listNodes = sync.Pool{New: func() any { return new(listNode) }}

// getListNode returns an empty node. The caller frees it.
func getListNode(kind Kind, level uint8) *listNode {
	n := listNodes.Get().(*listNode)
	n.kind, n.level = kind, level
	return n
}

func (n *listNode) free() {
	n.reset()
	n.last = ""
	listNodes.Put(n)
}

// reset empties the node for the next items of the list. It keeps last, because the next
// name must come after it.
func (n *listNode) reset() {
	n.links.reset()
	n.items = n.items[:0]
	n.count, n.sum = 0, 0
}

// addItem encodes an item as the last one of the node. If the item does not fit, addItem reports
// false and leaves the node unchanged.
func (n *listNode) addItem(it listItem) (bool, error) {
	if n.count == MaxListItems {
		return false, nil
	}
	if err := n.checkItem(it); err != nil {
		return false, err
	}

	links, start := n.links.len(), len(n.items)
	pos := uint16(0)
	if !it.link.IsZero() {
		pos = n.links.addLink(it.link)
	}
	if err := n.appendItem(it, pos); err != nil {
		return false, err
	}
	if size := len(n.items) - start; size > MaxEntrySize {
		return false, faultf(ReasonEntrySize, "%q: %d bytes", it.name, size)
	}

	n.count++
	if n.encodedSize() > MaxListSize {
		n.count--
		n.items = n.items[:start]
		if n.links.len() > links {
			n.links.dropLast()
		}
		return false, nil
	}
	n.last = it.name
	n.sum += it.size
	return true, nil
}

func (n *listNode) checkItem(it listItem) error {
	switch {
	case n.kind == KindManifest && n.level == 0:
		if it.size == 0 || it.size > MaxChunkSize {
			return faultf(ReasonChunk, "chunk of %d bytes", it.size)
		}
	case n.kind == KindManifest:
		if it.size == 0 || it.size > MaxFileSize || n.sum+it.size > MaxFileSize {
			return faultf(ReasonOrder, "child from %d with %d bytes", n.sum, it.size)
		}
	case n.level == 0:
		if err := checkEntry(it.entry); err != nil {
			return err
		}
	default:
		if err := CheckName(it.name); err != nil {
			return &fault{ReasonName, err}
		}
	}

	if n.kind == KindTree && n.last != "" && it.name <= n.last {
		return faultf(ReasonOrder, "%q after %q", it.name, n.last)
	}
	if it.link.ID.IsZero() && (n.kind == KindManifest || n.level > 0) {
		return faultf(ReasonLinkID, "item without a link")
	}
	return nil
}

func (n *listNode) appendItem(it listItem, pos uint16) (err error) {
	switch {
	case n.kind == KindManifest && n.level == 0:
		n.items = appendPair(n.items, pos, it.size)
	case n.kind == KindManifest:
		n.items = appendPair(n.items, pos, n.sum+it.size)
	case n.level > 0:
		n.items = appendTreeChild(n.items, it.name, pos)
	default:
		n.items, err = appendEntry(n.items, it.entry, pos)
	}
	return err
}

// encodedSize returns the number of bytes of the node's encoding.
func (n *listNode) encodedSize() int {
	links := n.links.len()
	return prefixSize + uvarintSize(uint64(links)) + links*linkSize + 2 + headSize(n.count) + len(n.items)
}

// appendTo appends the node's encoding to dst. The body is an array of the level and the array
// of items.
func (n *listNode) appendTo(dst []byte) []byte {
	dst = appendHeader(dst, n.kind, plainVersion, &n.links)
	dst = append(dst, cborArray|2)
	dst = append(dst, n.level) // below 24: its own encoding
	dst = appendHead(dst, cborArray, uint64(n.count))
	return append(dst, n.items...)
}

// mustAdd is addItem for complete nodes: it returns an error if the item does not fit.
func (n *listNode) mustAdd(it listItem) error {
	fits, err := n.addItem(it)
	if err == nil && !fits {
		return faultf(ReasonItems, "more than %d items or %d bytes", MaxListItems, MaxListSize)
	}
	return err
}

// encodeList encodes a list node. Encode adds its items.
func encodeList(kind Kind, level uint8, encode func(*listNode) error) ([]byte, error) {
	n := getListNode(kind, level)
	defer n.free()
	if err := encode(n); err != nil {
		return nil, encodeError(kind, err)
	}
	return n.appendTo(make([]byte, 0, n.encodedSize())), nil
}

// decodeList decodes a list node: it calls decode with the level and the encoded items, and
// then encode to check the result. Errors are [*FormatError].
func decodeList(kind Kind, data []byte, encode func(*listNode) error, decode func(h *header, level uint8, items []byte) error) error {
	if len(data) > MaxListSize {
		return decodeError(kind, faultf(ReasonTooBig, "%d bytes", len(data)))
	}
	var level uint8
	var items []byte
	h, err := parseHeader(kind, data)
	if err == nil {
		level, items, err = listLevel(h)
	}
	if err == nil {
		err = decode(h, level, items)
	}
	if err == nil {
		err = recode(h, kind, level, encode)
	}
	return decodeError(kind, err)
}

// decodeItems decodes the items of a list node from bodies of type B.
func decodeItems[B, T any](items []byte, item func(*B) (T, error)) ([]T, error) {
	var bodies []B
	if err := listCodec.unmarshal(items, &bodies); err != nil {
		return nil, err
	}
	list := make([]T, len(bodies))
	for i := range bodies {
		var err error
		if list[i], err = item(&bodies[i]); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// recode checks that all links are used, and that encoding a decoded list node again gives
// the same bytes. The encoding checks all other rules.
func recode(h *header, kind Kind, level uint8, encode func(*listNode) error) error {
	n := getListNode(kind, level)
	defer n.free()
	if err := encode(n); err != nil {
		return err
	}
	if err := h.checkAllUsed(); err != nil {
		return err
	}
	// parseHeader and listLevel have checked the bytes before the items.
	head := appendHead(make([]byte, 0, 9), cborArray, uint64(n.count))
	items, ok := bytes.CutPrefix(h.body[2:], head)
	if !ok || !bytes.Equal(items, n.items) || !bytes.Equal(h.links, n.links.raw) {
		return &fault{reason: ReasonCanonical}
	}
	return nil
}

// listLevel returns the level of a list node's body, and its encoded items.
func listLevel(h *header) (level uint8, items []byte, err error) {
	if len(h.body) < 3 || h.body[0] != cborArray|2 {
		return 0, nil, faultf(ReasonBody, "not an array of level and items")
	}
	if level = h.body[1]; level >= MaxLevel {
		return 0, nil, faultf(ReasonLevel, "level 0x%02x", level)
	}
	items = h.body[2:]
	count := int(items[0]) - cborArray
	switch {
	case items[0]&(7<<5) != cborArray:
		return 0, nil, faultf(ReasonBody, "items are no array")
	case count == 24 && len(items) > 1:
		count = int(items[1])
	case count == 25 && len(items) > 2:
		count = int(items[1])<<8 | int(items[2])
	}
	if count > MaxListItems || count > len(items) || items[0] > cborArray|25 {
		return 0, nil, faultf(ReasonItems, "more than %d items, or more items than bytes", MaxListItems)
	}
	return level, items, nil
}

// listWriter writes a chunked list, of a tree or a manifest: see docs/format/objects.md,
// "Chunked lists". Items come in at level 0. Full nodes go to the writer, and each becomes an
// item one level up.
type listWriter struct {
	w      Writer
	kind   Kind
	levels []*splitLevel
}

type splitLevel struct {
	node *listNode // being filled
	done int       // nodes written
	last ID        // of the node written last
}

// addItem adds an item at a level.
func (s *listWriter) addItem(ctx context.Context, level int, it listItem) error {
	if level == len(s.levels) {
		if level == MaxLevel {
			return faultf(ReasonLevel, "more than %d levels", MaxLevel)
		}
		s.levels = append(s.levels, &splitLevel{node: getListNode(s.kind, uint8(level))})
	}
	node := s.levels[level].node
	fits, err := node.addItem(it)
	if err != nil {
		return err
	}
	if !fits {
		if err := s.flushLevel(ctx, level); err != nil {
			return err
		}
		if err := node.mustAdd(it); err != nil {
			return err
		}
	}
	if node.count == MaxListItems || node.count >= MinListItems && isBoundary(s.kind, uint8(level), it.name, it.link.ID) {
		return s.flushLevel(ctx, level)
	}
	return nil
}

// flushLevel writes the node of a level and adds it to the level above.
func (s *listWriter) flushLevel(ctx context.Context, level int) error {
	l := s.levels[level]
	id, err := s.w.Put(ctx, s.kind, l.node.appendTo(make([]byte, 0, l.node.encodedSize())))
	if err != nil {
		return err
	}
	parent := listItem{name: l.node.last, link: Key{s.kind, id}, size: l.node.sum}
	l.done++
	l.last = id
	l.node.reset()
	return s.addItem(ctx, level+1, parent)
}

// writeRoot writes the remaining items and returns the root, the only node of the highest
// level. An empty list has no root.
func (s *listWriter) writeRoot(ctx context.Context) (root ID, err error) {
	for level := 0; level < len(s.levels); level++ {
		l := s.levels[level]
		if l.node.count > 0 {
			if err := s.flushLevel(ctx, level); err != nil {
				return ID{}, err
			}
		}
		if l.done == 1 {
			root = l.last
			break
		}
	}
	for _, l := range s.levels {
		l.node.free()
	}
	s.levels = nil
	return root, nil
}

// isBoundary reports whether a node may end after an item. That depends on the name in a tree,
// and on the ID in a manifest, which do not change with their neighbours.
func isBoundary(kind Kind, level uint8, name string, id ID) bool {
	var buf [1 + MaxNameSize]byte
	buf[0] = level
	n := 1
	if kind == KindTree {
		n += copy(buf[1:], name)
	} else {
		n += copy(buf[1:], id[:])
	}
	sum := sha256.Sum256(buf[:n])
	return sum[0]%128 == 0
}

// Check decodes an object of any kind, and checks every rule that needs no other object.
// Unlike the decoders, it also checks that a list node ends at the first boundary. It
// checks the size of a chunk. Errors are [*FormatError].
func Check(kind Kind, data []byte) error {
	switch kind {
	case KindChunk:
		if len(data) == 0 || len(data) > MaxChunkSize {
			return &FormatError{kind, ReasonChunk, fmt.Errorf("%d bytes", len(data))}
		}
		return nil
	case KindManifest:
		m, err := DecodeManifest(data)
		if err != nil {
			return err
		}
		return checkSplit(kind, m.Level, len(m.Chunks)+len(m.Children), func(i int) (string, ID) {
			if m.Level == 0 {
				return "", m.Chunks[i].ID
			}
			return "", m.Children[i].ID
		})
	case KindTree:
		t, err := DecodeTree(data)
		if err != nil {
			return err
		}
		return checkSplit(kind, t.Level, len(t.Entries)+len(t.Children), func(i int) (string, ID) {
			if t.Level == 0 {
				return t.Entries[i].Name, ID{}
			}
			return t.Children[i].Last, ID{}
		})
	case KindCommit:
		_, err := DecodeCommit(data)
		return err
	case KindTag:
		_, err := DecodeTag(data)
		return err
	}
	return &FormatError{kind, ReasonKind, nil}
}

// checkSplit checks that no item of a list node but the last is at a boundary.
func checkSplit(kind Kind, level uint8, count int, item func(int) (name string, id ID)) error {
	for i := MinListItems - 1; i < count-1; i++ {
		if name, id := item(i); isBoundary(kind, level, name, id) {
			return &FormatError{kind, ReasonSplit, fmt.Errorf("after item %d", i)}
		}
	}
	return nil
}

// addNode adds an item above level 0, if the splitter would have written the same node.
func (s *listWriter) addNode(ctx context.Context, level int, it listItem) (bool, error) {
	if level < 1 || level >= MaxLevel || !isBoundary(s.kind, uint8(level-1), it.name, it.link.ID) {
		return false, nil
	}
	for _, l := range s.levels[:min(level, len(s.levels))] {
		if l.node.count > 0 {
			return false, nil
		}
	}

	for len(s.levels) < level {
		s.levels = append(s.levels, &splitLevel{node: getListNode(s.kind, uint8(len(s.levels)))})
	}

	for i, l := range s.levels[:level] {
		if s.kind == KindTree && it.name <= l.node.last {
			return false, faultf(ReasonOrder, "%q after %q", it.name, l.node.last)
		}
		l.node.last = it.name
		l.done += MinListItems // levels below the node: more than one, so that finish goes on
		if i == level-1 {
			l.done -= MinListItems - 1
			l.last = it.link.ID
		}
	}
	return true, s.addItem(ctx, level, it)
}

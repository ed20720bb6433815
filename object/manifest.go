package object

import (
	"context"
	"fmt"
	"iter"
	"sort"
)

// Encode returns the node's canonical encoding (docs/format/objects.md). A
// node that decoders would reject gives an [*InvalidError].
func (m *Manifest) Encode() ([]byte, error) {
	n := getListNode(KindManifest, m.Level)
	defer n.free()
	if err := m.encode(n); err != nil {
		return nil, encodeError(KindManifest, err)
	}
	return n.append(make([]byte, 0, n.size())), nil
}

func (m *Manifest) encode(n *listNode) error {
	switch {
	case m.Level >= MaxLevel:
		return faultf(ReasonLevel, "level %d", m.Level)
	case m.Level == 0 && len(m.Children) > 0, m.Level > 0 && len(m.Chunks) > 0:
		return faultf(ReasonLevel, "chunks in an inner node, or children in a leaf")
	case len(m.Chunks)+len(m.Children) == 0:
		return faultf(ReasonItems, "node without items")
	}
	for _, c := range m.Chunks {
		if err := n.mustAdd(listItem{link: Key{KindChunk, c.ID}, size: uint64(c.Size)}); err != nil {
			return err
		}
	}
	for _, c := range m.Children {
		// An end that is not after the one before gives a size that is 0 or
		// beyond MaxFileSize.
		if err := n.mustAdd(listItem{link: Key{KindManifest, c.ID}, size: c.End - n.sum}); err != nil {
			return err
		}
	}
	return nil
}

// Size returns how many bytes of the file the node stands for.
func (m *Manifest) Size() uint64 {
	if n := len(m.Children); n > 0 {
		return m.Children[n-1].End
	}
	var size uint64
	for _, c := range m.Chunks {
		size += uint64(c.Size)
	}
	return size
}

// DecodeManifest decodes a manifest node. It accepts exactly what
// [Manifest.Encode] returns; errors are [*FormatError]. The node does not
// refer to data.
func DecodeManifest(data []byte) (*Manifest, error) {
	m, err := decodeManifest(data)
	if err != nil {
		return nil, decodeError(KindManifest, err)
	}
	return m, nil
}

func decodeManifest(data []byte) (*Manifest, error) {
	h, err := parseListHeader(KindManifest, data)
	if err != nil {
		return nil, err
	}
	m := new(Manifest)
	level, items, err := listLevel(h)
	if err != nil {
		return nil, err
	}
	if m.Level = level; level == 0 {
		m.Chunks, err = decodeChunkRefs(h, items)
	} else {
		m.Children, err = decodeManifestChildren(h, items)
	}
	if err != nil {
		return nil, err
	}
	return m, recode(h, KindManifest, level, m.encode)
}

func decodeChunkRefs(h *header, items []byte) ([]ChunkRef, error) {
	var bodies []chunkBody
	if err := listCodec.unmarshal(items, &bodies); err != nil {
		return nil, err
	}
	refs := make([]ChunkRef, len(bodies))
	for i, b := range bodies {
		link, err := h.use(b.Link)
		if err != nil {
			return nil, err
		}
		if link.Kind != KindChunk {
			return nil, faultf(ReasonLinkKind, "item %d of a leaf is a %s", i, link.Kind)
		}
		refs[i] = ChunkRef{ID: link.ID, Size: b.Size}
	}
	return refs, nil
}

func decodeManifestChildren(h *header, items []byte) ([]ManifestChild, error) {
	var bodies []manifestChildBody
	if err := listCodec.unmarshal(items, &bodies); err != nil {
		return nil, err
	}
	children := make([]ManifestChild, len(bodies))
	for i, b := range bodies {
		link, err := h.use(b.Link)
		if err != nil {
			return nil, err
		}
		if link.Kind != KindManifest {
			return nil, faultf(ReasonLinkKind, "child %d is a %s", i, link.Kind)
		}
		children[i] = ManifestChild{ID: link.ID, End: b.End}
	}
	return children, nil
}

// AddNode adds all entries of a whole node of another directory, without
// reading it: child is an item of an inner node of the given level, and its
// names come after all that were added. It reports false, and adds nothing, if
// the writer is not at the beginning of a node or child does not end at a
// boundary; the caller then adds the content of child.
//
// Adding a node gives the same list as adding its entries, unless the node is
// one of fewer than [MinListItems] items, which needs entries of more than
// [MaxListSize] / [MinListItems] bytes, or the last of its level; such a node
// still gives a valid list.
func (t *TreeWriter) AddNode(ctx context.Context, level uint8, child TreeChild) (bool, error) {
	ok, err := t.list.addNode(ctx, int(level), listItem{name: child.Last, link: Key{KindTree, child.ID}})
	return ok, encodeError(KindTree, err)
}

// addNode adds an item above level 0, if its node is one that the splitter
// would have written itself.
func (s *splitter) addNode(ctx context.Context, level int, it listItem) (bool, error) {
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
		l.done += MinListItems // the levels below the node have more than one
		if i == level-1 {
			l.done -= MinListItems - 1
			l.last = it.link.ID
		}
	}
	return true, s.add(ctx, level, it)
}

// ChunkAt is a chunk and where in the file it begins.
type ChunkAt struct {
	ChunkRef
	Offset uint64
}

// Chunks iterates over the chunks of a file of the given content and size, in
// their order, from the one that holds the byte at off. It reads manifest nodes
// as it goes, and checks that they fit together and that the chunks' sizes add
// up to size; it does not read the chunks. An off at or after the end gives no
// chunks. An error is yielded once, with a zero ChunkAt, and ends the iteration.
// content is an entry's Content: a file without chunks has none.
func Chunks(ctx context.Context, r Reader, content Key, size, off uint64) iter.Seq2[ChunkAt, error] {
	return func(yield func(ChunkAt, error) bool) {
		if content.IsZero() {
			if size > MaxInline {
				yield(ChunkAt{}, &FormatError{KindTree, ReasonSize, fmt.Errorf("%d bytes without content", size)})
			}
			return
		}
		f := chunkFinder{r: r, content: content, size: size}
		for off < size {
			c, err := f.at(ctx, off)
			if err != nil {
				yield(ChunkAt{}, err)
				return
			}
			if !yield(c, nil) {
				return
			}
			off = c.Offset + uint64(c.Size)
		}
	}
}

// chunkFinder finds the chunks of a file. It keeps the nodes on the way to the
// chunk found last.
type chunkFinder struct {
	r       Reader
	content Key
	size    uint64
	path    []manifestPosition // root first
}

// manifestPosition is a node on the way down a list.
type manifestPosition struct {
	node *Manifest
	ends []uint64 // offsets in the file where the items end
	id   ID
	base uint64 // offset in the file where the node begins
}

// at returns the chunk that holds the byte at off, which is below the size.
func (f *chunkFinder) at(ctx context.Context, off uint64) (ChunkAt, error) {
	if f.content.Kind == KindChunk {
		if f.size > MaxChunkSize {
			return ChunkAt{}, &FormatError{KindTree, ReasonSize, fmt.Errorf("%s cannot have %d bytes", f.content, f.size)}
		}
		return ChunkAt{ChunkRef: ChunkRef{ID: f.content.ID, Size: uint32(f.size)}}, nil
	}
	id, base, end := f.content.ID, uint64(0), f.size
	for depth := 0; ; depth++ {
		if depth == len(f.path) || f.path[depth].id != id || f.path[depth].base != base {
			p, err := f.read(ctx, depth, id, base, end)
			if err != nil {
				return ChunkAt{}, err
			}
			f.path = append(f.path[:depth], p)
		}
		p := &f.path[depth]
		i := sort.Search(len(p.ends), func(i int) bool { return p.ends[i] > off })
		if i > 0 {
			base = p.ends[i-1]
		}
		if p.node.Level == 0 {
			return ChunkAt{p.node.Chunks[i], base}, nil
		}
		id, end = p.node.Children[i].ID, p.ends[i]
	}
}

// read reads the node at a depth, and checks that it is what its parent says.
func (f *chunkFinder) read(ctx context.Context, depth int, id ID, base, end uint64) (manifestPosition, error) {
	m, err := ReadManifest(ctx, f.r, id)
	if err != nil {
		return manifestPosition{}, err
	}
	reason := ReasonChild
	switch {
	case depth == 0 && len(m.Chunks)+len(m.Children) < 2:
		reason, err = ReasonRoot, fmt.Errorf("one item")
	case depth > 0 && m.Level != f.path[depth-1].node.Level-1:
		err = fmt.Errorf("level %d below level %d", m.Level, f.path[depth-1].node.Level)
	case m.Size() != end-base:
		reason, err = ReasonSize, fmt.Errorf("%d bytes, want %d", m.Size(), end-base)
	}
	if err != nil {
		return manifestPosition{}, readError(Key{KindManifest, id}, &FormatError{KindManifest, reason, err})
	}
	p := manifestPosition{node: m, id: id, base: base}
	for _, c := range m.Chunks {
		base += uint64(c.Size)
		p.ends = append(p.ends, base)
	}
	for _, c := range m.Children {
		p.ends = append(p.ends, p.base+c.End)
	}
	return p, nil
}

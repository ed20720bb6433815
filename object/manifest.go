package object

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

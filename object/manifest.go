package object

// Encode returns the node's canonical encoding (docs/format/objects.md). It returns an
// [*InvalidError] for a node that decoders would reject.
func (m *Manifest) Encode() ([]byte, error) {
	return encodeList(KindManifest, m.Level, m.encode)
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
		// If the end is not after the previous one, the size is 0 or beyond MaxFileSize.
		if err := n.mustAdd(listItem{link: Key{KindManifest, c.ID}, size: c.End - n.sum}); err != nil {
			return err
		}
	}
	return nil
}

// Size returns the number of bytes of the file below the node.
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

// DecodeManifest decodes a manifest node. It accepts exactly the encodings that
// [Manifest.Encode] returns. Errors are [*FormatError]. The node does not refer to data.
func DecodeManifest(data []byte) (*Manifest, error) {
	m := new(Manifest)
	err := decodeList(KindManifest, data, m.encode, func(h *header, level uint8, items []byte) (err error) {
		if m.Level = level; level == 0 {
			m.Chunks, err = decodeItems(items, func(b *chunkBody) (ChunkRef, error) {
				id, err := h.useKind(b.Link, KindChunk)
				return ChunkRef{ID: id, Size: b.Size}, err
			})
			return err
		}
		m.Children, err = decodeItems(items, func(b *manifestChildBody) (ManifestChild, error) {
			id, err := h.useKind(b.Link, KindManifest)
			return ManifestChild{ID: id, End: b.End}, err
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}

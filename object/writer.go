package object

import "context"

// TreeWriter writes a directory, entry by entry, as a chunked list of tree
// nodes. It holds one node per level in memory. It is not safe for concurrent
// use.
type TreeWriter struct {
	list  listWriter
	entry Entry // the entry being added; a field, so that Add does not allocate
}

// NewTreeWriter returns a TreeWriter that stores nodes in w.
func NewTreeWriter(w Writer) *TreeWriter {
	return &TreeWriter{list: listWriter{w: w, kind: KindTree}}
}

// Add adds an entry. Names must strictly ascend in the order of their bytes. If the entry or
// the order breaks a rule, the error is an [*InvalidError]. After an error the writer cannot
// be used. The caller may change the slices and maps of e afterwards.
func (t *TreeWriter) Add(ctx context.Context, e Entry) error {
	t.entry = e
	err := t.list.addItem(ctx, 0, listItem{name: e.Name, link: e.Content, entry: &t.entry})
	return encodeError(KindTree, err)
}

// Finish writes the last nodes and returns the directory's root node. The writer cannot be
// used afterwards.
func (t *TreeWriter) Finish(ctx context.Context) (ID, error) {
	root, err := t.list.writeRoot(ctx)
	if err != nil {
		return ID{}, encodeError(KindTree, err)
	}
	if root.IsZero() {
		_, data := EmptyTree()
		return t.list.w.Put(ctx, KindTree, data)
	}
	return root, nil
}

// ManifestWriter writes the list of a file's chunks as a chunked list of
// manifest nodes. It holds one node per level in memory. It is not safe for
// concurrent use.
type ManifestWriter struct {
	list  listWriter
	first ChunkRef
	count int
	size  uint64
}

// NewManifestWriter returns a ManifestWriter that stores nodes in w.
func NewManifestWriter(w Writer) *ManifestWriter {
	return &ManifestWriter{list: listWriter{w: w, kind: KindManifest}}
}

// Add adds the file's next chunk, which the caller has stored. If the chunk breaks a limit,
// the error is an [*InvalidError]. After an error the writer cannot be used.
func (m *ManifestWriter) Add(ctx context.Context, c ChunkRef) error {
	if m.count == 0 {
		m.first = c
	}
	m.count++
	m.size += uint64(c.Size)
	err := m.list.addItem(ctx, 0, listItem{link: Key{KindChunk, c.ID}, size: uint64(c.Size)})
	return encodeError(KindManifest, err)
}

// Finish writes the last nodes. It returns the content for the file's entry, and the file's
// size. A file of one chunk has no node: its content is the chunk. An empty file has no
// content. The writer cannot be used afterwards.
func (m *ManifestWriter) Finish(ctx context.Context) (Key, uint64, error) {
	switch m.count {
	case 0:
		return Key{}, 0, nil
	case 1:
		return Key{KindChunk, m.first.ID}, m.size, nil
	}
	root, err := m.list.writeRoot(ctx)
	if err != nil {
		return Key{}, 0, encodeError(KindManifest, err)
	}
	return Key{KindManifest, root}, m.size, nil
}

// AddNode adds all entries of a node of another directory without reading it. Child is an
// item of an inner node of the given level. Its names must come after all names added so
// far. AddNode reports false and adds nothing if the writer is not at the beginning of a
// node, or child does not end at a boundary. The caller then adds the content of child.
//
// The list is the one that Add would make of the entries, with two exceptions: child is the
// last node of its level, or has fewer than [MinListItems] items. The latter needs entries of
// more than [MaxListSize] / [MinListItems] bytes. The list is valid in both cases.
func (t *TreeWriter) AddNode(ctx context.Context, level uint8, child TreeChild) (bool, error) {
	ok, err := t.list.addNode(ctx, int(level), listItem{name: child.Last, link: Key{KindTree, child.ID}})
	return ok, encodeError(KindTree, err)
}

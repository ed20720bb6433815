package object

import "context"

// TreeWriter writes a directory, entry by entry, as a chunked list of tree
// nodes. It holds one node per level in memory. It is not safe for concurrent
// use.
type TreeWriter struct {
	list  splitter
	entry Entry // the one being added; here so that adding does not allocate
}

// NewTreeWriter returns a TreeWriter that stores nodes in w.
func NewTreeWriter(w Writer) *TreeWriter {
	return &TreeWriter{list: splitter{w: w, kind: KindTree}}
}

// Add adds an entry. Names come in strictly ascending order of their bytes. An
// entry or order that breaks a rule gives an [*InvalidError]; the writer is not
// used after an error. Nothing of e is kept.
func (t *TreeWriter) Add(ctx context.Context, e Entry) error {
	t.entry = e
	err := t.list.add(ctx, 0, listItem{name: e.Name, link: e.Content, entry: &t.entry})
	return encodeError(KindTree, err)
}

// Finish writes the last nodes and returns the directory's root node. With no
// entries it writes that of an empty directory. The writer is not used after it.
func (t *TreeWriter) Finish(ctx context.Context) (ID, error) {
	root, err := t.list.finish(ctx)
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
	list  splitter
	first ChunkRef
	count int
	size  uint64
}

// NewManifestWriter returns a ManifestWriter that stores nodes in w.
func NewManifestWriter(w Writer) *ManifestWriter {
	return &ManifestWriter{list: splitter{w: w, kind: KindManifest}}
}

// Add adds the file's next chunk, which the caller has stored. A chunk that
// breaks a limit gives an [*InvalidError]; the writer is not used after an error.
func (m *ManifestWriter) Add(ctx context.Context, c ChunkRef) error {
	if m.count == 0 {
		m.first = c
	}
	m.count++
	m.size += uint64(c.Size)
	err := m.list.add(ctx, 0, listItem{link: Key{KindChunk, c.ID}, size: uint64(c.Size)})
	return encodeError(KindManifest, err)
}

// Finish writes the last nodes and returns what the file's entry links to, and
// the file's size. A file of one chunk links to the chunk, and no node is
// written; an empty file links to nothing. The writer is not used after it.
func (m *ManifestWriter) Finish(ctx context.Context) (Key, uint64, error) {
	switch m.count {
	case 0:
		return Key{}, 0, nil
	case 1:
		return Key{KindChunk, m.first.ID}, m.size, nil
	}
	root, err := m.list.finish(ctx)
	if err != nil {
		return Key{}, 0, encodeError(KindManifest, err)
	}
	return Key{KindManifest, root}, m.size, nil
}

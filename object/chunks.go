package object

import (
	"context"
	"fmt"
	"iter"
	"sort"
)

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

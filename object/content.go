package object

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"sort"
	"sync"
)

// ContentReader reads the content of a file entry: inline, in one chunk or in many. It
// implements [io.Reader], [io.Seeker] and [io.ReaderAt]. ReadAt is safe for concurrent
// use; Read and Seek are not. It keeps one chunk in memory, and one manifest node for each
// level. Errors are those of [Reader.Get] and [Chunks].
type ContentReader struct {
	ctx   context.Context
	entry Entry
	pos   int64

	mu     sync.Mutex // guards the rest
	finder chunkFinder
	chunk  ChunkAt // the chunk read last
	data   []byte  // its bytes, or nil
	ahead  uint64  // the end of the chunks that were prefetched
	step   int64   // bytes to prefetch next
}

// NewContentReader returns a reader of e's content. All reads use ctx. A decoder must have
// accepted e.
func NewContentReader(ctx context.Context, r Reader, e Entry) *ContentReader {
	return &ContentReader{ctx: ctx, entry: e, finder: chunkFinder{r: r, content: e.Content, size: e.Size}}
}

// Size returns the file's size in bytes.
func (c *ContentReader) Size() int64 { return int64(c.entry.Size) }

// Read implements [io.Reader].
func (c *ContentReader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	n, err := c.readSome(p, c.pos)
	c.pos += int64(n)
	return n, err
}

// Seek implements [io.Seeker].
func (c *ContentReader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		offset += c.pos
	case io.SeekEnd:
		offset += c.Size()
	default:
		return 0, fmt.Errorf("seek: unknown whence %d", whence)
	}
	if offset < 0 {
		return 0, errors.New("seek: before the start of the file")
	}
	c.pos = offset
	return offset, nil
}

// ReadAt implements [io.ReaderAt].
func (c *ContentReader) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, errors.New("read: before the start of the file")
	}
	done := 0
	for done < len(p) {
		n, err := c.readSome(p[done:], off+int64(done))
		done += n
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

// Start returns the content, at most limit bytes of it. It reads a file of one chunk without
// a copy.
func (c *ContentReader) Start(limit int64) ([]byte, error) {
	if c.entry.Content.Kind == KindChunk && c.entry.Size <= MaxChunkSize {
		chunk := ChunkAt{ChunkRef: ChunkRef{c.entry.Content.ID, uint32(c.entry.Size)}}
		c.prefetch(chunk)
		data, err := c.readChunk(chunk)
		return data[:min(int64(len(data)), limit)], err
	}
	buf := bytes.NewBuffer(make([]byte, 0, min(c.Size(), limit)+bytes.MinRead)) // does not grow
	_, err := buf.ReadFrom(io.LimitReader(c, limit))
	return buf.Bytes(), err
}

// readSome reads at least one byte at off, up to the end of the chunk there.
func (c *ContentReader) readSome(p []byte, off int64) (int, error) {
	if off >= c.Size() {
		return 0, io.EOF
	}
	if c.entry.Content.IsZero() {
		if len(c.entry.Inline) != int(c.entry.Size) {
			return 0, &FormatError{KindTree, ReasonSize, fmt.Errorf("%d bytes inline, want %d", len(c.entry.Inline), c.entry.Size)}
		}
		return copy(p, c.entry.Inline[off:]), nil
	}
	chunk, data, err := c.chunkAt(uint64(off))
	if err != nil {
		return 0, err
	}
	if data == nil {
		c.prefetch(chunk)
		if data, err = c.readChunk(chunk); err != nil {
			return 0, err
		}
		c.mu.Lock()
		c.chunk, c.data = chunk, data
		c.mu.Unlock()
	}
	return copy(p, data[uint64(off)-chunk.Offset:]), nil
}

// chunkAt returns the chunk at off, with its bytes if it was the last one read.
func (c *ContentReader) chunkAt(off uint64) (ChunkAt, []byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.data != nil && off >= c.chunk.Offset && off-c.chunk.Offset < uint64(c.chunk.Size) {
		return c.chunk, c.data, nil
	}
	chunk, err := c.finder.findChunk(c.ctx, off)
	return chunk, nil, err
}

// The numbers of bytes that a [ContentReader] prefetches. They double, up to the size of a large request.
const (
	firstPrefetch = 1 << 20
	mostPrefetch  = 8 << 20
)

// prefetch prefetches a chunk and the next ones, if they are far away and were not prefetched.
func (c *ContentReader) prefetch(chunk ChunkAt) {
	if !HasFar(c.finder.r) {
		return
	}
	c.mu.Lock()
	if end := chunk.Offset + uint64(chunk.Size); chunk.Offset != c.ahead { // it was prefetched, or is read out of order
		if end > c.ahead || chunk.Offset == 0 {
			c.ahead, c.step = end, 0
		}
		c.mu.Unlock()
		return
	}
	c.step = min(max(2*c.step, firstPrefetch), mostPrefetch)
	var keys []Key
	for left := c.step; c.ahead < c.entry.Size; {
		next, err := c.finder.findChunk(c.ctx, c.ahead)
		if err != nil || len(keys) > 0 && int64(next.Size) > left { // a read of the chunk finds the error
			break
		}
		keys = append(keys, Key{KindChunk, next.ID})
		c.ahead += uint64(next.Size)
		left -= int64(next.Size)
	}
	c.mu.Unlock()
	Prefetch(c.ctx, c.finder.r, keys)
}

func (c *ContentReader) readChunk(chunk ChunkAt) ([]byte, error) {
	key := Key{KindChunk, chunk.ID}
	data, err := c.finder.r.Get(c.ctx, key)
	if err == nil && len(data) != int(chunk.Size) {
		err = &FormatError{KindChunk, ReasonSize, fmt.Errorf("%d bytes, want %d", len(data), chunk.Size)}
	}
	if err != nil {
		return nil, readError(key, err)
	}
	return data, nil
}

// MinLentFile is the size in bytes of the smallest files of a worktree that are the only local copy of their content. Smaller files
// take little space, and commands often need their content.
const MinLentFile = 1 << 20

// BringLists prefetches the lists of chunks of files, if r may have to fetch them: the nodes at the top, and those below.
func BringLists(ctx context.Context, r Reader, files []Key) {
	if !HasFarNodes(r) {
		return
	}
	for level := files; len(level) > 0; {
		var next []Key
		for batch := range slices.Chunk(level, listBatch) {
			batch = slices.DeleteFunc(slices.Clone(batch), func(key Key) bool { return key.Kind != KindManifest })
			Prefetch(ctx, r, batch)
			for _, key := range batch {
				m, err := ReadManifest(ctx, r, key.ID)
				if err != nil {
					continue // a read of the file finds the error
				}
				for _, c := range m.Children {
					next = append(next, Key{KindManifest, c.ID})
				}
			}
		}
		level = next
	}
}

// listBatch is the number of nodes that BringLists prefetches at once.
const listBatch = 1024

// FileBatch collects the content of files that are read one after the other, to prefetch it together.
type FileBatch struct {
	// PassFrom is the size in bytes of the smallest files whose content is read as [Passing] has it. 0: there are none.
	PassFrom uint64

	r          Reader
	keys, pass []Key
	left       int64
}

// NewFileBatch returns an empty batch. R reads the files.
func NewFileBatch(r Reader) *FileBatch { return &FileBatch{r: r, left: MaxPrefetch} }

// Add adds the chunks of a file, or the first ones if there is no room for all. It reports whether
// there is room for more.
func (b *FileBatch) Add(ctx context.Context, e Entry) bool {
	if e.Type != TypeFile {
		return true
	}
	for c, err := range Chunks(ctx, b.r, e.Content, e.Size, 0) {
		if err != nil || int64(c.Size) > b.left { // a read of the file finds the error
			return err != nil
		}
		if key := (Key{KindChunk, c.ID}); b.PassFrom > 0 && e.Size >= b.PassFrom {
			b.pass = append(b.pass, key)
		} else {
			b.keys = append(b.keys, key)
		}
		b.left -= int64(c.Size)
	}
	return b.left > 0
}

// Prefetch prefetches the chunks of the batch, and empties it.
func (b *FileBatch) Prefetch(ctx context.Context) {
	Prefetch(ctx, b.r, b.keys)
	Prefetch(Passing(ctx), b.r, b.pass)
	b.keys, b.pass, b.left = nil, nil, MaxPrefetch
}

// ChunkAt is a chunk and the offset in the file where it begins.
type ChunkAt struct {
	ChunkRef
	Offset uint64
}

// Chunks yields the chunks of a file in their order, from the one with the byte at off.
// Content and size are those of the file's entry. An off at or after the end yields no
// chunks. Chunks reads manifest nodes as it goes, and checks that they fit together and
// that the sizes of the chunks add up to size. It does not read the chunks. It yields an
// error once, with a zero ChunkAt, as the last value.
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
			c, err := f.findChunk(ctx, off)
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

// chunkFinder finds the chunks of a file. It keeps the nodes above the last found chunk.
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

// findChunk returns the chunk with the byte at off, which is below the size.
func (f *chunkFinder) findChunk(ctx context.Context, off uint64) (ChunkAt, error) {
	if f.content.Kind == KindChunk {
		if f.size > MaxChunkSize {
			return ChunkAt{}, &FormatError{KindTree, ReasonSize, fmt.Errorf("%s cannot have %d bytes", f.content, f.size)}
		}
		return ChunkAt{ChunkRef: ChunkRef{ID: f.content.ID, Size: uint32(f.size)}}, nil
	}

	id, base, end := f.content.ID, uint64(0), f.size
	for depth := 0; ; depth++ {
		if depth == len(f.path) || f.path[depth].id != id || f.path[depth].base != base {
			p, err := f.readNode(ctx, depth, id, base, end)
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

// readNode reads the node at a depth, and checks that it agrees with its parent.
func (f *chunkFinder) readNode(ctx context.Context, depth int, id ID, base, end uint64) (manifestPosition, error) {
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

package object

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
)

// ContentReader reads the content of a file entry, wherever it is kept. It
// implements [io.Reader], [io.Seeker] and [io.ReaderAt]. ReadAt is safe for
// concurrent use; Read and Seek are not. It holds one chunk in memory, and one
// manifest node per level. Errors are those of [Reader.Get] and [Chunks].
type ContentReader struct {
	ctx   context.Context
	entry Entry
	pos   int64

	mu     sync.Mutex // guards the rest
	finder chunkFinder
	chunk  ChunkAt // the chunk read last
	data   []byte  // its bytes, or nil
}

// NewContentReader returns a reader of e's content. ctx is for all that it
// reads; e is an entry as decoders give it.
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
	chunk, data, err := c.find(uint64(off))
	if err != nil {
		return 0, err
	}
	if data == nil {
		if data, err = c.read(chunk); err != nil {
			return 0, err
		}
		c.mu.Lock()
		c.chunk, c.data = chunk, data
		c.mu.Unlock()
	}
	return copy(p, data[uint64(off)-chunk.Offset:]), nil
}

// find returns the chunk at off, with its bytes if it was the last one read.
func (c *ContentReader) find(off uint64) (ChunkAt, []byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.data != nil && off >= c.chunk.Offset && off-c.chunk.Offset < uint64(c.chunk.Size) {
		return c.chunk, c.data, nil
	}
	chunk, err := c.finder.at(c.ctx, off)
	return chunk, nil, err
}

func (c *ContentReader) read(chunk ChunkAt) ([]byte, error) {
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

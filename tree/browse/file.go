package browse

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sort"
	"sync"

	"github.com/kist-vcs/kist/object"
)

// File is an open file. It reads only the chunks that are needed. If they are read in their
// order, it reads the next ones ahead. It need not be closed, and is safe for concurrent use.
type File struct {
	r     reader
	entry object.Entry

	mu     sync.Mutex       // guards the following
	places []object.ChunkAt // consecutive chunks of the file
	next   int64            // the end of the last read
	streak int64            // bytes that were read in their order before it
}

// The limits of reading ahead.
const (
	placesAtOnce = 256       // chunks that are looked up at once
	minStreak    = 1 << 20   // bytes to read in order before chunks are read ahead
	overtaken    = 512 << 10 // distance of reads that still are in order
	aheadBytes   = 4 << 20   // to read ahead: 24 readers fit in the default cache
)

// Size returns the file's size in bytes.
func (f *File) Size() int64 { return int64(f.entry.Size) }

// Name returns the name of the file in its folder.
func (f *File) Name() string { return f.entry.Name }

// ReadAt implements [io.ReaderAt].
func (f *File) ReadAt(p []byte, off int64) (int, error) {
	return f.ReadContext(context.Background(), p, off)
}

// ReadContext is ReadAt with a context.
func (f *File) ReadContext(ctx context.Context, p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, errors.New("read: before the start of the file")
	}
	ahead := f.follows(off, len(p))
	for n < len(p) {
		if off+int64(n) >= f.Size() {
			return n, io.EOF
		}
		read, err := f.readChunk(ctx, p[n:], uint64(off)+uint64(n), ahead)
		n += read
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// readChunk reads at least one byte at off, up to the end of the chunk there. With ahead, it
// begins to read the next chunks, too.
func (f *File) readChunk(ctx context.Context, p []byte, off uint64, ahead bool) (n int, err error) {
	if f.entry.Content.IsZero() {
		if uint64(len(f.entry.Inline)) != f.entry.Size {
			return 0, sizeError(object.KindTree, len(f.entry.Inline), f.entry.Size)
		}
		return copy(p, f.entry.Inline[off:]), nil
	}
	c, next, err := f.place(ctx, off)
	if err != nil {
		return 0, err
	}
	for i := 0; ahead && i < len(next); i++ {
		f.r.Ahead(ctx, chunkKey(next[i]))
	}
	err = f.r.Lend(ctx, chunkKey(c), func(data []byte) error {
		if len(data) != int(c.Size) {
			return sizeError(object.KindChunk, len(data), uint64(c.Size))
		}
		n = copy(p, data[off-c.Offset:])
		return nil
	})
	return n, err
}

func sizeError(kind object.Kind, have int, want uint64) error {
	return &object.FormatError{Kind: kind, Reason: object.ReasonSize, Err: fmt.Errorf("%d bytes, want %d", have, want)}
}

func chunkKey(c object.ChunkAt) object.Key { return object.Key{Kind: object.KindChunk, ID: c.ID} }

// place returns the chunk at off, and the next ones.
func (f *File) place(ctx context.Context, off uint64) (c object.ChunkAt, next []object.ChunkAt, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.knows(off) {
		if err := f.load(ctx, off); err != nil {
			return c, nil, err
		}
	}
	i := sort.Search(len(f.places), func(i int) bool { return f.places[i].Offset > off }) - 1
	end, size := i+1, 0
	for end < len(f.places) && size < aheadBytes {
		size += int(f.places[end].Size)
		end++
	}
	return f.places[i], f.places[i+1 : end : end], nil
}

// knows reports whether f.places has the chunk at off.
func (f *File) knows(off uint64) bool {
	if len(f.places) == 0 || off < f.places[0].Offset {
		return false
	}
	last := f.places[len(f.places)-1]
	return off < last.Offset+uint64(last.Size)
}

// load looks up the chunk at off and the next ones.
func (f *File) load(ctx context.Context, off uint64) error {
	var places []object.ChunkAt
	for c, err := range object.Chunks(ctx, f.r, f.entry.Content, f.entry.Size, off) {
		if err != nil && len(places) > 0 {
			break
		}
		if err != nil {
			return err
		}
		if places = append(places, c); len(places) == placesAtOnce {
			break
		}
	}
	f.places = places
	return nil
}

// follows notes a read of n bytes at off, and reports whether the file is read in its order.
// Reads may overtake each other.
func (f *File) follows(off int64, n int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if off < f.next-overtaken || off > f.next+overtaken {
		f.streak, f.next = 0, off+int64(n)
		return false
	}
	f.streak += int64(n)
	f.next = max(f.next, off+int64(n))
	return f.streak > minStreak
}

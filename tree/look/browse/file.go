package browse

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"sync"

	"github.com/kist-vcs/kist/object"
)

// FileReader reads a file, and of it only the chunks that are needed. If they are read in their
// order, it reads the next ones ahead. It need not be closed, and is safe for concurrent use.
type FileReader struct {
	r     cachedReader
	entry object.Entry

	began func(context.Context) // called at the first read of the start; may be nil

	mu     sync.Mutex       // guards the following
	places []object.ChunkAt // consecutive chunks of the file
	next   int64            // the end of the last read
	streak int64            // number of bytes that were read in order up to next
	ahead  readAhead
}

// The limits of reading ahead.
const (
	placesAtOnce = 256       // chunks that are looked up at once
	minStreak    = 1 << 20   // bytes to read in order before chunks are read ahead
	overtaken    = 512 << 10 // largest distance of a read from next that counts as in order
)

// Size returns the file's size in bytes.
func (f *FileReader) Size() int64 { return int64(f.entry.Size) }

// Name returns the name of the file in its folder.
func (f *FileReader) Name() string { return f.entry.Name }

// Parts returns the n bytes at off, or those up to the end of the file, in one slice for each
// chunk that has some of them. The caller must not change the bytes. With an error, Parts
// returns the bytes before the place of the error.
func (f *FileReader) Parts(ctx context.Context, off int64, n int) (parts [][]byte, err error) {
	if off < 0 {
		return nil, errors.New("read: before the start of the file")
	}
	if f.noteRead(off, n) {
		f.readAhead(ctx, uint64(off)+uint64(n))
	}
	for n > 0 && off < f.Size() {
		part, err := f.readPart(ctx, uint64(off))
		if err != nil {
			return parts, err
		}
		part = part[:min(n, len(part))]
		parts = append(parts, part)
		off += int64(len(part))
		n -= len(part)
	}
	return parts, nil
}

// readPart returns the bytes at off, up to the end of the chunk there.
func (f *FileReader) readPart(ctx context.Context, off uint64) ([]byte, error) {
	if f.entry.Content.IsZero() {
		if uint64(len(f.entry.Inline)) != f.entry.Size {
			return nil, sizeError(object.KindTree, len(f.entry.Inline), f.entry.Size)
		}
		return f.entry.Inline[off:], nil
	}
	if off == 0 && f.began != nil {
		f.began(ctx)
	}
	c, err := f.locateChunk(ctx, off)
	if err != nil {
		return nil, err
	}
	data, err := f.r.Shared(ctx, chunkKey(c))
	if err == nil && len(data) != int(c.Size) {
		err = sizeError(object.KindChunk, len(data), uint64(c.Size))
	}
	if err != nil {
		return nil, err
	}
	return data[off-c.Offset:], nil
}

func sizeError(kind object.Kind, have int, want uint64) error {
	return &object.FormatError{Kind: kind, Reason: object.ReasonSize, Err: fmt.Errorf("%d bytes, want %d", have, want)}
}

func chunkKey(c object.ChunkAt) object.Key { return object.Key{Kind: object.KindChunk, ID: c.ID} }

// locateChunk returns the chunk at off.
func (f *FileReader) locateChunk(ctx context.Context, off uint64) (c object.ChunkAt, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.hasPlace(off) {
		if err := f.loadPlaces(ctx, off); err != nil {
			return c, err
		}
	}
	i := sort.Search(len(f.places), func(i int) bool { return f.places[i].Offset > off }) - 1
	return f.places[i], nil
}

// hasPlace reports whether f.places has the chunk at off.
func (f *FileReader) hasPlace(off uint64) bool {
	if len(f.places) == 0 || off < f.places[0].Offset {
		return false
	}
	last := f.places[len(f.places)-1]
	return off < last.Offset+uint64(last.Size)
}

// loadPlaces looks up the chunk at off and the next ones.
func (f *FileReader) loadPlaces(ctx context.Context, off uint64) error {
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

// noteRead notes a read of n bytes at off, and reports whether the file is read in its order.
// Reads may overtake each other.
func (f *FileReader) noteRead(off int64, n int) bool {
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

// readAhead begins to read chunks from off on, if few of the chunks that it has read ahead are
// left.
func (f *FileReader) readAhead(ctx context.Context, off uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ahead.most = f.r.ahead
	if off >= f.entry.Size || f.entry.Content.IsZero() || !f.ahead.isDue(off) {
		return
	}
	var keys []object.Key
	for c, err := range object.Chunks(ctx, f.r, f.entry.Content, f.entry.Size, max(off, f.ahead.end)) {
		if err != nil || !f.ahead.add(c.Offset+uint64(c.Size), int64(c.Size)) { // a read of the chunk itself finds the error
			break
		}
		keys = append(keys, chunkKey(c))
	}
	f.ahead.close()
	object.Prefetch(ctx, f.r, keys)
}

package transfer

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/pack"
)

// filmPacks gives packs with a film of chunks of 1 MiB. Only the first bytes of a chunk are written: its number.
type filmPacks struct {
	chunks []pack.Entry

	mu              sync.Mutex // guards the following
	requests, bytes int
	fail            error
}

// newFilm returns a film of n chunks, 30 in a pack.
func newFilm(n int) *filmPacks {
	f := &filmPacks{}
	for i := range n {
		e := pack.Entry{Key: object.Key{Kind: object.KindChunk}, Offset: uint32(remote.HeaderSize + i%30<<20), Stored: 1 << 20, Raw: 1 << 20}
		e.Pack.Size = uint32(remote.HeaderSize + min(30, n-i/30*30)<<20 + 5000)
		binary.BigEndian.PutUint32(e.Key.ID[:], uint32(i))
		binary.BigEndian.PutUint32(e.Pack.Name[:], uint32(1+i/30))
		f.chunks = append(f.chunks, e)
	}
	return f
}

func (f *filmPacks) get(_ context.Context, p pack.Info, b []byte, off int64) (int, error) {
	n := int(min(int64(len(b)), int64(p.Size)-off))
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests, f.bytes = f.requests+1, f.bytes+n
	for _, e := range f.chunks {
		if at := int64(e.Offset) - off; e.Pack.Name == p.Name && at >= 0 && at+4 <= int64(n) {
			copy(b[at:], e.Key.ID[:4])
		}
	}
	return n, f.fail
}

// read reads chunks in one batch.
func (f *filmPacks) read(t *testing.T, a *batchAhead, chunks []pack.Entry) error {
	t.Helper()
	seen := map[object.Key]bool{}
	var mu sync.Mutex // guards seen
	err := a.readEntries(t.Context(), 4, chunks, f.get, func(_ context.Context, v readValue) error {
		mu.Lock()
		defer mu.Unlock()
		seen[v.Key] = true
		if v.err != nil || len(v.value) != 1<<20 || [4]byte(v.value) != [4]byte(v.Key.ID[:4]) {
			t.Errorf("chunk %x: value %x, %v", v.Key.ID[:4], v.value[:4], v.err)
		}
		return nil
	})
	if err == nil && len(seen) != len(chunks) {
		t.Errorf("%d of %d chunks were read", len(seen), len(chunks))
	}
	return err
}

// A film that is read in order takes a request for each pack, after the first one, and hardly any byte twice.
func TestBatchAheadFilm(t *testing.T) {
	f, a := newFilm(200), &batchAhead{}
	for i := 0; i < len(f.chunks); i += 8 {
		if err := f.read(t, a, f.chunks[i:min(i+8, len(f.chunks))]); err != nil {
			t.Fatal(err)
		}
	}
	if f.requests > 7+5 || f.bytes > 202<<20 {
		t.Errorf("%d requests of %d bytes for 7 packs of 30 MiB, want 12 at most, and no byte twice", f.requests, f.bytes)
	}
}

// Batches that do not follow one another read only their own values, also beside a film.
func TestBatchAheadOutOfOrder(t *testing.T) {
	f, a := newFilm(90), &batchAhead{}
	rng := rand.New(rand.NewPCG(1, 1))
	for range 20 {
		i := 2 * rng.IntN(44)
		if err := f.read(t, a, f.chunks[i:i+2]); err != nil {
			t.Fatal(err)
		}
	}
	if f.bytes > (20*2+3*16)<<20 { // three may follow by chance
		t.Errorf("%d bytes for batches of 40 MiB out of order", f.bytes)
	}

	if err := f.read(t, a, f.chunks[:8]); err != nil {
		t.Fatal(err)
	}
	beside := a.beginBatch(f.chunks[8:16])
	before := f.bytes
	if err := f.read(t, a, f.chunks[60:68]); err != nil || f.bytes-before != 8<<20 {
		t.Errorf("a batch beside another: %d bytes, %v; want 8 MiB", f.bytes-before, err)
	}
	beside.end()
}

// An error of the remote ends a batch, and the next one reads all again.
func TestBatchAheadFails(t *testing.T) {
	f, a := newFilm(60), &batchAhead{}
	for i := 0; i < len(f.chunks); i += 8 {
		batch := f.chunks[i:min(i+8, len(f.chunks))]
		f.fail = errors.New("no connection")
		before := f.requests
		if err := f.read(t, a, batch); !errors.Is(err, f.fail) && f.requests > before {
			t.Fatalf("a failed request: %v", err)
		}
		f.fail = nil
		if err := f.read(t, a, batch); err != nil {
			t.Fatal(err)
		}
	}
}

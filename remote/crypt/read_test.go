package crypt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/remotetest"
)

// Ranges of blobs of many sizes, read by one store in any order, give the stored bytes.
func TestRanges(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	s, _ := newStore(t)
	for i, size := range []int{1, 4095, 4096, 4097, 16_383, 16_384, 16_385, 65_536, 100_000, 200_000, 1 << 20} {
		for _, name := range []string{fmt.Sprintf("packs/00/%d", i), fmt.Sprintf("root/%d", i)} {
			data := sample(byte(i), size)
			put(t, s, name, data)
			for range 200 {
				off, n := rng.IntN(size+3), rng.IntN(size+100)
				switch rng.IntN(4) {
				case 0:
					s.headers.drop(name)
				case 1:
					n = rng.IntN(20)
				}
				p := make([]byte, n)
				got, err := s.Get(t.Context(), name, p, int64(off))
				if want := data[min(off, size):min(off+n, size)]; err != nil || !bytes.Equal(p[:got], want) {
					t.Fatalf("%s of %d bytes: %d bytes at %d gave %d, %v", name, size, n, off, got, err)
				}
			}
		}
	}
}

// Get makes one request, and for the first read far from the beginning another one at once. It reads little more
// than it was asked for.
func TestRequests(t *testing.T) {
	s, m := newStore(t)
	data := sample(1, 1<<20)
	put(t, s, packName, data)
	for _, c := range []struct {
		what           string
		off, n         int
		known          bool
		requests, more int
	}{
		{"the first read, at the beginning", 0, 32, false, 1, storedSegment + 100},
		{"the first read, near the beginning", 60_000, 5_000, false, 1, 65_536 + 3_000},
		{"the first read, far away", 500_000, 5_000, false, 2, 2 * storedSegment},
		{"the first read, to the end", 1<<20 - 100, 100, false, 2, storedSegment + 200},
		{"the first read, beyond the end", 1<<20 - 100, 200, false, 2, 2 * storedSegment},
		{"all at once", 0, 1 << 20, false, 1, 2_000},
		{"a later read", 500_000, 5_000, true, 1, 2 * storedSegment},
		{"a later read, at the beginning", 0, 32, true, 1, storedSegment + 100},
		{"a later read, of two segments", 32_768, 32_768, true, 1, 2 * tagSize},
		{"a later read, to the end", 1<<20 - 100, 100, true, 1, storedSegment},
		{"a later read, beyond the end", 1<<20 - 100, 200, true, 1, storedSegment},
		{"a later read, behind the end", 1 << 20, 10, true, 1, 0},
	} {
		if !c.known {
			s.headers.drop(packName)
		}
		m.ResetCounts()
		p := make([]byte, c.n)
		n, err := s.Get(t.Context(), packName, p, int64(c.off))
		if err != nil || !bytes.Equal(p[:n], data[min(c.off, len(data)):min(c.off+c.n, len(data))]) {
			t.Errorf("%s: %d bytes, %v", c.what, n, err)
		}
		if got := m.Calls(remotetest.Any); got != c.requests {
			t.Errorf("%s: %d requests, want %d", c.what, got, c.requests)
		}
		if got := int(m.Bytes(remotetest.Get)) - n; got > c.more {
			t.Errorf("%s: %d bytes more than wanted, at most %d are due", c.what, got, c.more)
		}
	}
}

// meetingStore is a store in which a read at the beginning of a blob waits until another read has reached the store.
type meetingStore struct {
	*remotetest.Memory
	began, met chan struct{}
	fault      error // of the read at the beginning
}

func (m *meetingStore) Get(ctx context.Context, name string, p []byte, off int64) (int, error) {
	if off > 0 {
		close(m.met)
		return m.Memory.Get(ctx, name, p, off)
	}
	select {
	case <-m.began: // a later read of the header
		return m.Memory.Get(ctx, name, p, off)
	default:
	}
	close(m.began)
	<-m.met
	if m.fault != nil {
		return 0, m.fault
	}
	return m.Memory.Get(ctx, name, p, off)
}

// Of two first reads of a blob at once, one brings the header for both. If it fails, the other reads the header itself.
func TestHeaderIsReadOnce(t *testing.T) {
	for _, test := range []struct {
		fault    error
		requests int
	}{{nil, 2}, {&remote.Error{Op: "get", Kind: remote.ErrPermission}, 2}} {
		m := &meetingStore{remotetest.NewMemory(), make(chan struct{}), make(chan struct{}), test.fault}
		s := New(m, Options{Keys: testKeys(t, 1)})
		data := sample(1, 1<<20)
		put(t, s, packName, data)
		m.ResetCounts()

		ended := make(chan error)
		go func() {
			p := make([]byte, 500_000)
			_, err := s.Get(t.Context(), packName, p, 0)
			ended <- err
		}()
		<-m.began
		p := make([]byte, 500_000)
		if n, err := s.Get(t.Context(), packName, p, 500_000); err != nil || !bytes.Equal(p[:n], data[500_000:1_000_000]) {
			t.Errorf("the other read: %d bytes, %v", n, err)
		}
		if err := <-ended; !errors.Is(err, test.fault) {
			t.Errorf("the read at the beginning: %v, want %v", err, test.fault)
		}
		if got := m.Calls(remotetest.Any); got != test.requests {
			t.Errorf("%d requests reached the store, want %d", got, test.requests)
		}
	}
}

// The memory for headers is bounded, and the last used ones are kept.
func TestHeadersAreBounded(t *testing.T) {
	var h headers
	for i := range 5 * maxHeaders {
		h.put(fmt.Sprint(i), &blob{plain: int64(i)})
		h.get("0")
		if n := len(h.recent) + len(h.older); n > 2*maxHeaders {
			t.Fatalf("%d headers", n)
		}
	}
	for _, i := range []int{0, 5*maxHeaders - 1, 4*maxHeaders + 10} {
		if b := h.get(fmt.Sprint(i)); b == nil || b.plain != int64(i) {
			t.Errorf("header %d is gone", i)
		}
	}
	if h.get("1") != nil {
		t.Error("an old header is kept")
	}
	h.drop("0")
	if h.get("0") != nil {
		t.Error("a dropped header is kept")
	}
}

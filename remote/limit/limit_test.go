package limit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/remotetest"
)

const (
	perSecond = 128 << 10
	size      = 1 << 20
	// want is the time for size bytes. The bytes of the first eighth of a second need
	// no wait.
	want = 8*time.Second - time.Second/8
)

var data = func() []byte {
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(rand.Uint32())
	}
	return data
}()

// took returns the time that f takes.
func took(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}

func check(t *testing.T, what string, got, want time.Duration) {
	t.Helper()
	if got < want-time.Millisecond || got > want+time.Millisecond {
		t.Errorf("%s took %v, want %v", what, got, want)
	}
}

func put(t *testing.T, b remote.Backend, name string, data []byte) {
	t.Helper()
	if err := b.Put(t.Context(), name, bytes.NewReader(data), int64(len(data))); err != nil {
		t.Error(err)
	}
}

func TestUnlimitedIsNotWrapped(t *testing.T) {
	m := remotetest.NewMemory()
	if b := New(m, Options{}); b != remote.Backend(m) {
		t.Error("New wraps a backend without limits")
	}
	for _, o := range []Options{{Upload: perSecond}, {Download: perSecond}} {
		synctest.Test(t, func(t *testing.T) {
			b := New(remotetest.NewMemory(), o)
			up := took(func() { put(t, b, "x", data) })
			down := took(func() {
				if _, err := b.Get(t.Context(), "x", make([]byte, size), 0); err != nil {
					t.Error(err)
				}
			})
			if (up == 0) != (o.Upload == 0) || (down == 0) != (o.Download == 0) {
				t.Errorf("%v: upload took %v, download %v", o, up, down)
			}
		})
	}
}

func TestUpload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := remotetest.NewMemory()
		b := New(m, Options{Upload: perSecond})
		check(t, "put", took(func() { put(t, b, "x", data) }), want)
		if !bytes.Equal(m.Data("x"), data) {
			t.Error("the store has other bytes than those put")
		}
		check(t, "create", took(func() {
			if err := b.Create(t.Context(), "root/1", data[:size/2]); err != nil {
				t.Error(err)
			}
		}), 4*time.Second)
	})
}

func TestCallsShareTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(remotetest.NewMemory(), Options{Upload: perSecond})
		check(t, "4 puts", took(func() {
			var wg sync.WaitGroup
			for i := range 4 {
				wg.Go(func() { put(t, b, fmt.Sprint(i), data[:size/4]) })
			}
			wg.Wait()
		}), want)
	})
}

func TestDownload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := remotetest.NewMemory()
		put(t, m, "x", data)
		b := New(m, Options{Download: perSecond})
		p := make([]byte, size)
		check(t, "get", took(func() {
			if n, err := b.Get(t.Context(), "x", p, 0); n != size || err != nil || !bytes.Equal(p, data) {
				t.Errorf("Get: %d bytes, %v", n, err)
			}
		}), want)
		if n := m.Calls(remotetest.Get); n != 16 {
			t.Errorf("%d calls, want 16", n)
		}
		// Only the bytes before the end of the blob take time.
		for off, n := range map[int64]int{size - 1000: 1000, size: 0, size - minPart: minPart} {
			time.Sleep(time.Hour)
			check(t, "get of the end", took(func() {
				if got, err := b.Get(t.Context(), "x", p, off); got != n || err != nil || !bytes.Equal(p[:n], data[size-n:]) {
					t.Errorf("Get at %d: %d bytes, %v; want %d", off, got, err, n)
				}
			}), max(0, time.Duration(n-perSecond/8)*time.Second/perSecond))
		}
		if _, err := b.Get(t.Context(), "y", p, 0); !errors.Is(err, remote.ErrNotFound) {
			t.Errorf("Get of an absent name: error %v, want ErrNotFound", err)
		}
	})
}

// sender is a store that reads a body several times, and sends it last.
type sender struct {
	remote.Backend
	before int             // passes over the body before it is sent
	passes []time.Duration // the time of each pass
}

func (s *sender) Put(ctx context.Context, name string, body io.ReaderAt, size int64) error {
	s.passes = nil
	for range s.before + 1 {
		start := time.Now()
		got, err := io.ReadAll(io.NewSectionReader(body, 0, size))
		if err != nil {
			return err
		}
		if !bytes.Equal(got, data[:size]) {
			return errors.New("the body has other bytes")
		}
		s.passes = append(s.passes, time.Since(start))
	}
	return nil
}

// A body that is also read for a checksum counts once, when it is sent.
func TestHashedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sender{before: 1}
		b := New(s, Options{Upload: perSecond})
		check(t, "first put", took(func() { put(t, b, "a", data) }), want) // limit does not know yet which pass sends
		time.Sleep(time.Hour)
		check(t, "second put", took(func() { put(t, b, "b", data) }), want)
		check(t, "hashing", s.passes[0], 0)
		check(t, "sending", s.passes[1], want)

		// If the first pass sends after all, the body still counts.
		s.before = 0
		time.Sleep(time.Hour)
		check(t, "third put", took(func() { put(t, b, "c", data) }), want)
		time.Sleep(time.Hour)
		check(t, "fourth put", took(func() { put(t, b, "d", data) }), want)
		check(t, "sending", s.passes[0], want)
	})
}

// A body is read at the allowed rate at every moment, not only on average.
func TestSmooth(t *testing.T) {
	for _, rate := range []int64{1 << 10, 100 << 10, 50 << 20} {
		synctest.Test(t, func(t *testing.T) {
			b := New(remotetest.NewMemory(), Options{Upload: rate})
			start := time.Now()
			body := readerAt(func(p []byte, off int64) (int, error) {
				allowed := int64(time.Since(start).Seconds()*float64(rate)) + max(rate/8, minBurst) + 1
				if end := off + int64(len(p)); end > allowed || end < allowed-2*max(rate/8, minBurst) {
					t.Errorf("%d bytes read, %d allowed", end, allowed)
				}
				return len(p), nil
			})
			if err := b.Put(t.Context(), "x", body, 3*rate); err != nil {
				t.Error(err)
			}
		})
	}
}

type readerAt func(p []byte, off int64) (int, error)

func (f readerAt) ReadAt(p []byte, off int64) (int, error) { return f(p, off) }

func TestEndsWithItsContext(t *testing.T) {
	m := remotetest.NewMemory()
	put(t, m, "x", data)

	for name, call := range map[string]func(context.Context, remote.Backend) error{
		"get": func(ctx context.Context, b remote.Backend) error {
			_, err := b.Get(ctx, "x", make([]byte, size), 0)
			return err
		},
		"put":    func(ctx context.Context, b remote.Backend) error { return b.Put(ctx, "y", bytes.NewReader(data), size) },
		"create": func(ctx context.Context, b remote.Backend) error { return b.Create(ctx, "root/1", data) },
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			b := New(m, Options{Upload: perSecond, Download: perSecond})
			var err error
			d := took(func() { err = call(ctx, b) })
			check(t, name, d, time.Second)
			if name == "put" && errors.Is(err, io.EOF) {
				t.Error("a cancelled put reports that the body ended early")
			}
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: error %v, want DeadlineExceeded", name, err)
			}
		})
	}
	if m.Data("y") != nil || m.Data("root/1") != nil {
		t.Error("a cancelled call stored its blob")
	}
}

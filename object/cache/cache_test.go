package cache_test

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/cache"
	"github.com/kist-vcs/kist/object/objecttest"
)

// store is a store in memory that counts its calls, and waits in Get until gate is closed.
type store struct {
	*objecttest.Faulty
	gate    chan struct{} // nil: Get does not wait
	stopped atomic.Int32  // calls of Get that ended with their context
}

func newStore() *store { return &store{Faulty: objecttest.NewFaulty(objecttest.NewMemory())} }

func (s *store) Get(ctx context.Context, key object.Key) ([]byte, error) {
	if s.gate != nil {
		select {
		case <-s.gate:
		case <-ctx.Done():
			s.stopped.Add(1)
			return nil, ctx.Err()
		}
	}
	return s.Faulty.Get(ctx, key)
}

// put stores a chunk of n equal bytes.
func (s *store) put(t *testing.T, fill byte, n int) object.Key {
	t.Helper()
	id, err := s.Put(t.Context(), object.KindChunk, bytes.Repeat([]byte{fill}, n))
	if err != nil {
		t.Fatal(err)
	}
	return object.Key{Kind: object.KindChunk, ID: id}
}

func TestStore(t *testing.T) {
	objecttest.Run(t, func(*testing.T) object.ReadWriter {
		memory := objecttest.NewMemory()
		return struct {
			object.Reader
			object.Writer
		}{cache.New(memory, 1<<20), memory}
	})
}

func TestKeepsTheObjectsUsedLast(t *testing.T) {
	s := newStore()
	c := cache.New(s, 3*1300)
	keys := []object.Key{s.put(t, 1, 1000), s.put(t, 2, 1000), s.put(t, 3, 1000), s.put(t, 4, 1000)}
	big := s.put(t, 5, 10_000)
	for i, step := range []struct {
		key   object.Key
		reads int // number of reads so far
	}{
		{keys[0], 1}, {keys[1], 2}, {keys[2], 3}, {keys[0], 3},
		{keys[3], 4}, {keys[0], 4}, {keys[2], 4}, {keys[1], 5}, // the cache has dropped keys[1]
		{big, 6}, {big, 7}, {keys[1], 7}, // an object larger than the cache drops nothing
	} {
		if _, err := c.Get(t.Context(), step.key); err != nil {
			t.Fatal(err)
		}
		if n := s.Calls(objecttest.Get); n != step.reads {
			t.Fatalf("step %d: %d reads, want %d", i, n, step.reads)
		}
	}
}

func TestGetReturnsACopy(t *testing.T) {
	s := newStore()
	c := cache.New(s, 1<<20)
	key := s.put(t, 7, 100)
	for range 2 {
		data, err := c.Get(t.Context(), key)
		if err != nil || data[0] != 7 {
			t.Fatalf("Get returns byte %d, %v; want 7", data[0], err)
		}
		data[0] = 8
	}
}

func TestKeepsNoErrors(t *testing.T) {
	s := newStore()
	c := cache.New(s, 1<<20)
	key := s.put(t, 1, 100)
	s.Fail(objecttest.Get, 1)
	if _, err := c.Get(t.Context(), key); !errors.Is(err, objecttest.ErrFault) {
		t.Fatal(err)
	}
	if _, err := c.Get(t.Context(), key); err != nil {
		t.Fatal(err)
	}
}

func TestOneReadForManyCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		key := s.put(t, 1, 100)
		s.gate = make(chan struct{})
		c := cache.New(s, 1<<20)
		for range 2 {
			c.Prefetch(t.Context(), []object.Key{key, key})
		}
		var group sync.WaitGroup
		for range 10 {
			group.Go(func() {
				if data, err := c.Get(t.Context(), key); err != nil || len(data) != 100 {
					t.Errorf("Get: %d bytes, %v; want 100", len(data), err)
				}
			})
		}
		synctest.Wait()
		close(s.gate)
		group.Wait()
		if n := s.Calls(objecttest.Get); n != 1 {
			t.Errorf("%d reads, want 1", n)
		}
	})
}

// batches is a store that reads many objects at once. It cannot read the objects in bad.
type batches struct {
	*store
	all atomic.Int32 // calls of GetAll
	bad map[object.Key]bool
	err error
}

func (b *batches) GetAll(ctx context.Context, keys []object.Key, take func(object.Key, []byte) error) error {
	b.all.Add(1)
	for _, key := range keys {
		if b.bad[key] {
			continue
		}
		data, err := b.Faulty.Get(ctx, key)
		if err == nil {
			err = take(key, data)
		}
		if err != nil {
			return err
		}
	}
	return b.err
}

func TestPrefetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &batches{store: newStore(), bad: map[object.Key]bool{}}
		var list []object.Key
		for i := range 10 {
			list = append(list, b.put(t, byte(i), 100))
		}
		lost := object.Key{Kind: object.KindChunk, ID: object.ID{1}}
		b.bad[lost] = true
		c := cache.New(b, 1<<20)
		c.Prefetch(t.Context(), append(list, lost, list[0]))
		c.Prefetch(t.Context(), list) // is being read
		for _, key := range list {
			if data, err := c.Get(t.Context(), key); err != nil || len(data) != 100 {
				t.Errorf("%d bytes, %v; want 100", len(data), err)
			}
		}
		synctest.Wait()
		c.Prefetch(t.Context(), list) // is there
		if n := b.all.Load(); n != 1 || c.Stats().Reads != 0 {
			t.Errorf("%d batches, %d reads of callers; want 1 and 0", n, c.Stats().Reads)
		}
		if _, err := c.Get(t.Context(), lost); !errors.Is(err, object.ErrNotFound) {
			t.Errorf("a missing object: %v", err)
		}

		// The error of a batch is that of its objects, and is not kept.
		b.err, b.bad[list[1]] = errors.New("no connection"), true
		c = cache.New(b, 1<<20)
		c.Prefetch(t.Context(), list)
		synctest.Wait()
		for _, key := range list {
			if data, err := c.Get(t.Context(), key); err != nil || len(data) != 100 {
				t.Errorf("%d bytes, %v; want 100", len(data), err)
			}
		}
	})
}

func TestCancelledCallerStopsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		key := s.put(t, 1, 100)
		s.gate = make(chan struct{})
		c := cache.New(s, 1<<20)
		first, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() {
			if _, err := c.Get(first, key); !errors.Is(err, context.Canceled) {
				t.Errorf("first caller: %v, want Canceled", err)
			}
		})
		synctest.Wait()
		group.Go(func() {
			if _, err := c.Get(t.Context(), key); err != nil {
				t.Errorf("second caller: %v", err)
			}
		})
		synctest.Wait()
		cancel()
		synctest.Wait()
		close(s.gate)
		group.Wait()
		if s.stopped.Load() != 0 {
			t.Error("the read stopped though a caller waits for it")
		}
	})
}

func TestReadWithoutCallersStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		key := s.put(t, 1, 100)
		s.gate = make(chan struct{})
		c := cache.New(s, 1<<20)
		ctx, cancel := context.WithCancel(t.Context())
		go c.Get(ctx, key)
		synctest.Wait()
		cancel()
		synctest.Wait()
		if s.stopped.Load() != 1 {
			t.Error("the read did not stop after its only caller gave up")
		}
		close(s.gate)
		if _, err := c.Get(t.Context(), key); err != nil {
			t.Error(err)
		}
	})
}

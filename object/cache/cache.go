// Package cache keeps objects of a store in memory, within a number of bytes.
package cache

import (
	"bytes"
	"container/list"
	"context"
	"errors"
	"sync"

	"github.com/kist-vcs/kist/object"
)

// Cache is an [object.Reader] over another one. It keeps the objects that were used last.
// If several goroutines want an object, it reads the object once. It keeps no errors. A Cache
// is safe for concurrent use.
//
// Objects never change, so an object in a Cache is never outdated. But the
// store below may have removed it. A caller that must not show purged content checks that itself.
type Cache struct {
	object.Reader // below
	max           int64

	mu    sync.Mutex // guards the following
	size  int64      // bytes of the kept objects
	stats Stats      // without Bytes
	kept  map[object.Key]*list.Element
	order list.List // of *item, the last used first
	reads map[object.Key]*read
}

type item struct {
	key  object.Key
	data []byte
}

// read is a read that is under way. The Cache's mu guards waiting.
type read struct {
	done    chan struct{} // closed when data and err are set
	data    []byte
	err     error
	waiting int // callers; the last one that gives up stops the read
	stop    context.CancelFunc
}

// overhead is about the number of bytes that a kept object takes beside its own.
const overhead = 256

// New returns a cache of objects in r. It keeps at most max bytes. Objects that are being
// read come on top.
func New(r object.Reader, max int64) *Cache {
	return &Cache{Reader: r, max: max, kept: map[object.Key]*list.Element{}, reads: map[object.Key]*read{}}
}

// Stats counts the uses of a [Cache].
type Stats struct {
	Hits  int64 // objects that the cache had
	Reads int64 // objects that were read for a caller, not by Prefetch
	Bytes int64 // of the kept objects
}

// Stats returns the counts since the Cache was made.
func (c *Cache) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	stats := c.stats
	stats.Bytes = c.size
	return stats
}

// Get implements [object.Reader].
func (c *Cache) Get(ctx context.Context, key object.Key) ([]byte, error) {
	data, err := c.Shared(ctx, key)
	return bytes.Clone(data), err
}

// GetBriefly implements [object.BriefReader]. It does not copy the object.
func (c *Cache) GetBriefly(ctx context.Context, key object.Key, use func(data []byte) error) error {
	data, err := c.Shared(ctx, key)
	if err != nil {
		return err
	}
	return use(data)
}

// Shared returns an object without a copy. The caller may keep the bytes, but must not change
// them. The errors are those of Get.
func (c *Cache) Shared(ctx context.Context, key object.Key) ([]byte, error) {
	for {
		data, r := c.findOrRead(ctx, key)
		if r == nil {
			return data, nil
		}
		select {
		case <-r.done:
		case <-ctx.Done():
			c.giveUp(key, r)
			return nil, ctx.Err()
		}
		if errors.Is(r.err, context.Canceled) && ctx.Err() == nil {
			continue // the others gave up before this caller joined them
		}
		return r.data, r.err
	}
}

// Prefetch implements [object.Prefetcher]: it begins to read the objects that the cache does not
// have, together if the reader below is an [object.BatchReader]. It does not wait, and the end of
// ctx does not stop it.
func (c *Cache) Prefetch(ctx context.Context, keys []object.Key) {
	ctx = context.WithoutCancel(ctx)
	if below, ok := c.Reader.(object.BatchReader); ok {
		if batch, order := c.beginBatch(keys); len(batch) > 0 {
			go c.readBatch(ctx, below, batch, order)
		}
		return
	}

	go func() {
		object.Prefetch(ctx, c.Reader, keys)
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, key := range keys {
			if c.kept[key] == nil && c.reads[key] == nil {
				c.beginRead(ctx, key)
			}
		}
	}()
}

// HasFar implements [object.Prefetcher].
func (c *Cache) HasFar() bool {
	_, batches := c.Reader.(object.BatchReader)
	return batches || object.HasFar(c.Reader)
}

// beginBatch adds a read for each of keys that the cache neither has nor reads. Order has these keys in their order.
func (c *Cache) beginBatch(keys []object.Key) (batch map[object.Key]*read, order []object.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	batch = map[object.Key]*read{}
	for _, key := range keys {
		if c.kept[key] == nil && c.reads[key] == nil {
			order = append(order, key)
			r := &read{done: make(chan struct{}), waiting: 1, stop: func() {}} // the batch waits, so it never stops
			c.reads[key], batch[key] = r, r
		}
	}
	return batch, order
}

// readBatch ends the reads of a batch, whose keys it reads in the given order.
func (c *Cache) readBatch(ctx context.Context, below object.BatchReader, batch map[object.Key]*read, order []object.Key) {
	var mu sync.Mutex // guards batch
	err := below.GetAll(ctx, order, func(key object.Key, data []byte) error {
		mu.Lock()
		r := batch[key]
		delete(batch, key)
		mu.Unlock()
		if r != nil {
			r.data = bytes.Clone(data)
			c.endRead(key, r)
			close(r.done)
		}
		return nil
	})
	for key, r := range batch {
		if r.err = err; err == nil { // it is missing or damaged: Get returns the reason
			r.data, r.err = c.Reader.Get(ctx, key)
		}
		c.endRead(key, r)
		close(r.done)
	}
}

// IsLost implements [object.LossKeeper], if the reader below does.
func (c *Cache) IsLost(key object.Key) bool { return object.IsLost(c.Reader, key) }

// PassOver implements [object.Lenient], if the reader below does.
func (c *Cache) PassOver(path string, key object.Key, err error) bool {
	return object.PassOver(c.Reader, path, key, err)
}

// findOrRead returns an object that the cache has, or else the read to wait for.
func (c *Cache) findOrRead(ctx context.Context, key object.Key) ([]byte, *read) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.kept[key]; e != nil {
		c.stats.Hits++
		c.order.MoveToFront(e)
		return e.Value.(*item).data, nil
	}
	r := c.reads[key]
	if r == nil {
		c.stats.Reads++
		return nil, c.beginRead(ctx, key)
	}
	r.waiting++
	return nil, r
}

// beginRead starts a read for one caller, which holds c.mu. The end of ctx does not stop the
// read, since others may wait for it.
func (c *Cache) beginRead(ctx context.Context, key object.Key) *read {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	r := &read{done: make(chan struct{}), waiting: 1, stop: stop}
	c.reads[key] = r
	go func() {
		defer stop()
		r.data, r.err = c.Reader.Get(ctx, key)
		c.endRead(key, r)
		close(r.done)
	}()
	return r
}

// giveUp notes that a caller no longer waits for a read.
func (c *Cache) giveUp(key object.Key, r *read) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.waiting--; r.waiting > 0 {
		return
	}
	r.stop()
	if c.reads[key] == r { // a later caller starts over
		delete(c.reads, key)
	}
}

// endRead keeps the object of a read, and drops others if there is no room.
func (c *Cache) endRead(key object.Key, r *read) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reads[key] == r {
		delete(c.reads, key)
	}
	if r.err != nil || c.kept[key] != nil || cost(r.data) > c.max {
		return
	}
	c.kept[key] = c.order.PushFront(&item{key, r.data})
	for c.size += cost(r.data); c.size > c.max; {
		last := c.order.Remove(c.order.Back()).(*item)
		delete(c.kept, last.key)
		c.size -= cost(last.data)
	}
}

// cost returns the number of bytes that a kept object takes.
func cost(data []byte) int64 { return int64(cap(data)) + overhead }

var (
	_ object.BriefReader = (*Cache)(nil)
	_ object.Prefetcher  = (*Cache)(nil)
	_ object.LossKeeper  = (*Cache)(nil)
	_ object.Lenient     = (*Cache)(nil)
)

package frame

import (
	"container/list"
	"sync"
)

// BaseObject is an object that patches are made from.
type BaseObject struct {
	Data  []byte // read-only
	Depth int    // the number of patches that it was read through; 0: it is stored as it is or compressed
}

// BaseCache keeps the bases that were used last, so that several patches of one
// base read it once. P identifies the place that a base was read from: the same
// object can have another depth elsewhere. A BaseCache is safe for concurrent
// use. [NewBaseCache] makes one.
type BaseCache[P comparable] struct {
	maxBytes int
	mu       sync.Mutex
	bytes    int
	recent   list.List // of *cachedBase[P], the last used first
	places   map[P]*list.Element
}

type cachedBase[P comparable] struct {
	place P
	base  BaseObject
}

// NewBaseCache returns a cache of bases that have at most maxBytes together.
func NewBaseCache[P comparable](maxBytes int) *BaseCache[P] {
	return &BaseCache[P]{maxBytes: maxBytes, places: map[P]*list.Element{}}
}

// Get returns the base that was read at place, and whether the cache has it.
func (c *BaseCache[P]) Get(place P) (BaseObject, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.places[place]
	if e == nil {
		return BaseObject{}, false
	}
	c.recent.MoveToFront(e)
	return e.Value.(*cachedBase[P]).base, true
}

// Put keeps the base that was read at place, unless the cache has one already.
// The caller no longer changes the base's data.
func (c *BaseCache[P]) Put(place P, b BaseObject) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.places[place] != nil {
		return
	}
	c.places[place] = c.recent.PushFront(&cachedBase[P]{place, b})
	c.bytes += cap(b.Data)
	for c.bytes > c.maxBytes {
		c.remove(c.recent.Back())
	}
}

// Forget removes every base for whose place drop returns true.
func (c *BaseCache[P]) Forget(drop func(place P) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for place, e := range c.places {
		if drop(place) {
			c.remove(e)
		}
	}
}

// remove removes one base. The caller holds c.mu.
func (c *BaseCache[P]) remove(e *list.Element) {
	b := c.recent.Remove(e).(*cachedBase[P])
	delete(c.places, b.place)
	c.bytes -= cap(b.base.Data)
}

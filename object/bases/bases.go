// Package bases keeps the objects that patches (package object/frame) were made
// from lately, so that what hangs on them can be read without reading them each
// time.
package bases

import (
	"container/list"
	"sync"
)

// Base is an object that patches are made from.
type Base struct {
	Data  []byte // not to be changed
	Depth int    // how many patches it is the end of; 0: it is stored whole
}

// Cache keeps the bases that were used last. P tells where one was read: its
// depth is that of there. A Cache is safe for concurrent use. The zero Cache keeps
// nothing: see [New].
type Cache[P comparable] struct {
	most   int
	mu     sync.Mutex
	bytes  int
	recent list.List // of *cached[P], the last used first
	places map[P]*list.Element
}

type cached[P comparable] struct {
	place P
	base  Base
}

// New returns a cache that keeps bases of at most so many bytes together.
func New[P comparable](most int) *Cache[P] {
	return &Cache[P]{most: most, places: map[P]*list.Element{}}
}

// Get returns the base that was read at a place, and whether it is there.
func (c *Cache[P]) Get(place P) (Base, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.places[place]
	if e == nil {
		return Base{}, false
	}
	c.recent.MoveToFront(e)
	return e.Value.(*cached[P]).base, true
}

// Put keeps a base, whose bytes nobody changes any more. The first one counts
// that is put for a place.
func (c *Cache[P]) Put(place P, b Base) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.places[place] != nil {
		return
	}
	c.places[place] = c.recent.PushFront(&cached[P]{place, b})
	c.bytes += cap(b.Data)
	for c.bytes > c.most {
		c.remove(c.recent.Back())
	}
}

// Forget removes all bases whose place is one that drop reports true for.
func (c *Cache[P]) Forget(drop func(place P) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for place, e := range c.places {
		if drop(place) {
			c.remove(e)
		}
	}
}

func (c *Cache[P]) remove(e *list.Element) {
	last := c.recent.Remove(e).(*cached[P])
	delete(c.places, last.place)
	c.bytes -= cap(last.base.Data)
}

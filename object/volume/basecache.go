package volume

import (
	"container/list"
	"sync"

	"github.com/kist-vcs/kist/object"
)

// maxBaseBytes is how much a baseCache keeps.
const maxBaseBytes = 8 << 20

// baseCache keeps the objects that patches were made from lately, so that what
// hangs on them can be read without reading them each time.
type baseCache struct {
	mu     sync.Mutex
	bytes  int
	recent list.List // of *cachedBase, the last used first
	places map[basePlace]*list.Element
}

// basePlace is where a base was read. It counts for how many patches hang on each
// other there.
type basePlace struct {
	v   *sealed
	key object.Key
}

type cachedBase struct {
	place basePlace
	base
}

func (c *baseCache) get(v *sealed, key object.Key) (base, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.places[basePlace{v, key}]
	if e == nil {
		return base{}, false
	}
	c.recent.MoveToFront(e)
	return e.Value.(*cachedBase).base, true
}

// put keeps a base, whose bytes nobody changes any more.
func (c *baseCache) put(v *sealed, key object.Key, b base) {
	c.mu.Lock()
	defer c.mu.Unlock()
	place := basePlace{v, key}
	if c.places[place] != nil {
		return
	}
	if c.places == nil {
		c.places = map[basePlace]*list.Element{}
	}
	c.places[place] = c.recent.PushFront(&cachedBase{place, b})
	c.bytes += cap(b.data)
	for c.bytes > maxBaseBytes {
		last := c.recent.Remove(c.recent.Back()).(*cachedBase)
		delete(c.places, last.place)
		c.bytes -= cap(last.data)
	}
}

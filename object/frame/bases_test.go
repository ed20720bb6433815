package frame

import "testing"

func TestBaseCache(t *testing.T) {
	const most = 8 << 20
	c := NewBaseCache[int](most)
	counted := func() bool { return c.bytes == c.recent.Len()<<20 && len(c.places) == c.recent.Len() }
	for i := range 40 {
		c.Put(i, BaseObject{make([]byte, 1<<20), i})
		c.Put(i, BaseObject{make([]byte, 1<<20), 99})
		if c.bytes > most || !counted() {
			t.Fatalf("%d bytes, %d bases, %d places", c.bytes, c.recent.Len(), len(c.places))
		}
		if b, ok := c.Get(i); !ok || b.Depth != i {
			t.Errorf("base %d: %d, %v", i, b.Depth, ok)
		}
		if b, ok := c.Get(0); !ok || b.Depth != 0 {
			t.Errorf("a base in constant use is gone after %d", i)
		}
		if _, ok := c.Get(i + 1); ok {
			t.Error("found at another place")
		}
	}
	if c.recent.Len() != most>>20 {
		t.Errorf("%d bases are kept", c.recent.Len())
	}
	c.Forget(func(place int) bool { return place > 35 })
	for i := range 40 {
		if _, ok := c.Get(i); ok != (i == 0 || i > 32 && i <= 35) {
			t.Errorf("base %d: %v", i, ok)
		}
	}
	if c.recent.Len() != 4 || !counted() {
		t.Errorf("%d bases of %d bytes are left", c.recent.Len(), c.bytes)
	}
}

// TestBaseCacheTooSmall wants a base that is larger than the cache to be dropped.
func TestBaseCacheTooSmall(t *testing.T) {
	c := NewBaseCache[string](10)
	c.Put("large", BaseObject{Data: make([]byte, 11)})
	if _, ok := c.Get("large"); ok || c.bytes != 0 {
		t.Errorf("%v, %d bytes", ok, c.bytes)
	}
}

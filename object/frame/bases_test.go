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
			t.Fatalf("%d bytes, %d bases, %d places; want equal counts of 1 MiB each, at most 8", c.bytes, c.recent.Len(), len(c.places))
		}
		if b, ok := c.Get(i); !ok || b.Depth != i {
			t.Errorf("Get(%d): depth %d, %t; want %d", i, b.Depth, ok, i)
		}
		if b, ok := c.Get(0); !ok || b.Depth != 0 {
			t.Errorf("Get(0) after Put(%d): depth %d, %t; want the base in constant use", i, b.Depth, ok)
		}
		if _, ok := c.Get(i + 1); ok {
			t.Errorf("Get(%d) = true before Put", i+1)
		}
	}
	if c.recent.Len() != most>>20 {
		t.Errorf("%d bases are kept, want %d", c.recent.Len(), most>>20)
	}

	c.Forget(func(place int) bool { return place > 35 })
	for i := range 40 {
		if _, ok := c.Get(i); ok != (i == 0 || i > 32 && i <= 35) {
			t.Errorf("Get(%d) after Forget = %t, want %t", i, ok, !ok)
		}
	}
	if c.recent.Len() != 4 || !counted() {
		t.Errorf("%d bases with %d bytes after Forget, want 4", c.recent.Len(), c.bytes)
	}
}

// TestBaseCacheTooSmall checks that a cache drops a base that is larger than the cache.
func TestBaseCacheTooSmall(t *testing.T) {
	c := NewBaseCache[string](10)
	c.Put("large", BaseObject{Data: make([]byte, 11)})
	if _, ok := c.Get("large"); ok || c.bytes != 0 {
		t.Errorf("Get = %t, %d bytes kept; want false, 0", ok, c.bytes)
	}
}

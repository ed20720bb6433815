package volume

import (
	"context"
	"fmt"
	"time"

	"github.com/kist-vcs/kist/object"
)

// copier writes objects of volumes to new volumes, which are published and read
// back. Abandon it in the end.
type copier struct {
	store   *Store
	created time.Time // of the youngest volume that is copied from; zero: now
	w       *writer   // nil: none is being written
	written []*sealed // what is sealed and read back

	optimised bool // what is written is
}

// has reports whether an object was copied.
func (c *copier) has(key object.Key) (bool, error) {
	if c.w != nil && c.w.has(key) {
		return true, nil
	}
	for _, v := range c.written { // everything in them was read
		if _, ok, err := v.find(key); ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

// add copies an object, of raw bytes, by its stored value, which was verified.
// It takes b over.
func (c *copier) add(ctx context.Context, key object.Key, b *buffer, raw int) error {
	if c.w == nil {
		w, err := c.store.newWriter("")
		if err != nil {
			b.free()
			return err
		}
		c.w = w
		c.w.created, c.w.optimised = c.created, c.optimised
	}
	if err := c.w.add(key, b, raw); err != nil {
		return err
	}
	if c.w.full() {
		return c.seal(ctx)
	}
	return nil
}

// seal publishes what was copied, and reads it back.
func (c *copier) seal(ctx context.Context) error {
	if c.w == nil {
		return nil
	}
	if err := c.w.seal(); err != nil {
		return err
	}
	name := c.w.name
	c.w = nil
	l, err := c.store.refresh()
	if err != nil {
		return err
	}
	v := l.byName[name]
	if v == nil {
		return &DamageError{Volume: name, Err: errNotListed}
	}
	if err := readBack(ctx, v); err != nil {
		return fmt.Errorf("read back what was copied: %w", err)
	}
	c.written = append(c.written, v)
	return nil
}

// abandon gives up what is not sealed.
func (c *copier) abandon() {
	if c.w != nil {
		c.w.abandon()
		c.w = nil
	}
}

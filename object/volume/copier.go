package volume

import (
	"context"
	"fmt"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/frame"
	"github.com/kist-vcs/kist/object/keys"
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
		return damageError(name, "", errNotListed)
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

// carry returns the stored value of the object at rec of v, verified, for a new
// volume. A patch stays one if hold, which is told what it is made from, reports
// that the new volume has that, and can have a patch of it; otherwise the object
// is stored whole.
func (s *Store) carry(ctx context.Context, v *sealed, o *openVolume, rec keys.Record, hold func(base object.Key) (bool, error)) (*buffer, error) {
	b, err := s.verified(ctx, v, o, rec)
	if err != nil {
		return nil, err
	}
	id, patched := frame.Base(b.b)
	if !patched {
		return b, nil
	}
	held, err := hold(object.Key{Kind: rec.Key.Kind, ID: id})
	if err == nil && !held {
		b, err = s.whole(v, rec, b)
	}
	if err != nil {
		b.free()
		return nil, err
	}
	return b, nil
}

// whole returns the value of an object stored whole, for that of a patch in v,
// which it takes over unless it fails.
func (s *Store) whole(v *sealed, rec keys.Record, patch *buffer) (*buffer, error) {
	data, err := v.decodeTo(nil, rec.Key, patch.b, int(rec.Raw))
	if err != nil {
		return patch, v.readError(rec, err)
	}
	patch.free()
	return s.encoded(data), nil
}

// encoded returns the stored value for data, for a writer.
func (s *Store) encoded(data []byte) *buffer {
	b := takeBuffer(len(data) + frame.AppendSlack(len(data)) + minValue)
	b.b = s.frame.Append(b.b, data)
	return b
}

// takesPatch reports whether a patch made from key can be added: key is there,
// and does not hang on too many others.
func (w *writer) takesPatch(key object.Key) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.table.find(key)
	return r != nil && r.depth < maxChain
}

// depth returns how many patches the value of an object hangs on, with itself.
// w.mu is held.
func (w *writer) depth(key object.Key, value []byte) uint8 {
	id, patched := frame.Base(value)
	if !patched {
		return 0
	}
	key.ID = id
	if r := w.table.find(key); r != nil {
		return r.depth + 1
	}
	return maxChain // it is the caller's fault; what is sealed is read back
}

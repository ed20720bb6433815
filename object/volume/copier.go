package volume

import (
	"context"
	"fmt"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/frame"
	"github.com/kist-vcs/kist/object/keys"
)

// copier copies objects into new volumes, which it seals and reads back. The caller calls
// abandon in the end.
type copier struct {
	store   *Store
	created time.Time // that of the youngest source, or zero for now
	w       *writer   // of the volume that is being written, or nil
	written []*sealed // volumes that were sealed and read back

	optimised bool // of the new volumes
}

// has reports whether an object was copied.
func (c *copier) has(key object.Key) (bool, error) {
	if c.w != nil && c.w.has(key) {
		return true, nil
	}
	for _, v := range c.written { // all their objects were read
		if _, ok, err := v.find(key); ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

// add adds an object of raw bytes by its verified stored value. It owns b afterwards.
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

// seal seals the volume that is being written, and reads it back.
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

// abandon removes a volume that is not sealed.
func (c *copier) abandon() {
	if c.w != nil {
		c.w.abandon()
		c.w = nil
	}
}

// carry returns the verified stored value of the object at rec of v, for a new volume. A
// patch stays a patch if hold reports that the new volume takes patches of its base.
// Otherwise carry compresses the object.
func (v *sealed) carry(ctx context.Context, o *openVolume, rec keys.Record, hold func(base object.Key) (bool, error)) (*buffer, error) {
	b, err := v.verified(ctx, o, rec)
	if err != nil {
		return nil, err
	}
	id, patched := frame.Base(b.b)
	if !patched {
		return b, nil
	}
	held, err := hold(object.Key{Kind: rec.Key.Kind, ID: id})
	if err == nil && !held {
		b, err = v.expanded(rec, b)
	}
	if err != nil {
		b.free()
		return nil, err
	}
	return b, nil
}

// expanded returns the compressed value for a patch in v. It owns patch afterwards, unless
// it fails.
func (v *sealed) expanded(rec keys.Record, patch *buffer) (*buffer, error) {
	data, err := v.decodeTo(nil, rec.Key, patch.b, int(rec.Raw))
	if err != nil {
		return patch, v.readError(rec, err)
	}
	patch.free()
	return v.store.encoded(data), nil
}

// encoded returns the compressed value of data, for a writer.
func (s *Store) encoded(data []byte) *buffer {
	b := takeBuffer(len(data) + frame.AppendSlack(len(data)) + minValue)
	b.b = s.frame.Append(b.b, data)
	return b
}

// takesPatch reports whether a patch of key can be added: the volume has key, and the
// chain is not too long.
func (w *intake) takesPatch(key object.Key) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.table.find(key)
	return r != nil && r.depth < maxChain
}

// depth returns the number of patches that an object is read through. The caller holds
// w.mu.
func (w *intake) depth(key object.Key, value []byte) uint8 {
	id, patched := frame.Base(value)
	if !patched {
		return 0
	}
	key.ID = id
	if r := w.table.find(key); r != nil {
		return r.depth + 1
	}
	return maxChain // a mistake of the caller, which reading back the volume will find
}

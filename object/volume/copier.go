package volume

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/frame"
	"github.com/kist-vcs/kist/object/keys"
	"github.com/kist-vcs/kist/object/volume/ingest"
)

// copier copies objects into new volumes, which it seals and reads back. The caller calls
// addSource for each volume first, and abandon in the end.
type copier struct {
	store       *Store
	created     time.Time // time in the seals: that of the youngest source; zero stands for now
	allRepacked bool      // all sources are repacked
	single      bool      // one new volume takes all objects, even beyond its limits
	buf         []byte

	w       *writer                 // the volume that is being written, or nil
	written []*sealedVolume         // volumes that were sealed and read back
	found   map[object.Key]struct{} // the copied objects of a dry run; else nil
}

// addSource notes a volume whose objects will be copied.
func (c *copier) addSource(info *Info) {
	if info.Created.After(c.created) {
		c.created = info.Created
	}
	c.allRepacked = c.allRepacked && info.Repacked
}

// hasCopied reports whether an object was copied.
func (c *copier) hasCopied(key object.Key) (bool, error) {
	if _, ok := c.found[key]; ok || c.w != nil && c.w.hasObject(key) {
		return true, nil
	}
	for _, v := range c.written { // all their objects were read
		if _, ok, err := v.findRecord(key); ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

// takesPatch reports whether the next object may be a patch of key: the same volume has
// key, and the chain is not too long.
func (c *copier) takesPatch(key object.Key) bool {
	return c.found != nil || c.w != nil && c.w.takesPatch(key)
}

// addValue adds an object of raw bytes by its verified stored value. It owns b afterwards.
func (c *copier) addValue(ctx context.Context, key object.Key, b *buffer, raw int) error {
	if c.found != nil {
		c.found[key] = struct{}{}
		b.free()
		return nil
	}
	if c.w == nil {
		w, err := c.store.newWriter("")
		if err != nil {
			b.free()
			return err
		}
		c.w = w
		c.w.created, c.w.repacked = c.created, c.allRepacked
	}
	if err := c.w.addValue(key, b, raw); err != nil {
		return err
	}
	if c.w.isFull() && !c.single {
		return c.sealAndReadBack(ctx)
	}
	return nil
}

// sealAndReadBack seals the volume that is being written, and reads it back.
func (c *copier) sealAndReadBack(ctx context.Context) error {
	if c.w == nil {
		return nil
	}
	if err := c.w.sealVolume(); err != nil {
		return err
	}
	name := c.w.name
	c.w = nil

	l, err := c.store.listVolumes()
	if err != nil {
		return err
	}
	v := l.byName[name]
	if v == nil {
		return damageError(name, "", errNotListed)
	}
	if err := readBack(ctx, v); err != nil {
		return fmt.Errorf("read back the copied volume: %w", err)
	}
	c.written = append(c.written, v)
	return nil
}

var errNotListed = errors.New("it is no longer listed")

// readBack reads and hashes every object of a volume, without any other volume.
func readBack(ctx context.Context, v *sealedVolume) error {
	c := &volumeCheck{checker: &checker{o: CheckOptions{ReadData: true}, alone: true}, v: v}
	if err := c.checkVolume(ctx); err != nil || len(c.found) == 0 {
		return err
	}
	return c.found[0]
}

// abandon removes a volume that is not sealed.
func (c *copier) abandon() {
	if c.w != nil {
		c.w.abandon()
		c.w = nil
	}
}

// readable reads and hashes the copy at rec of v, without any other volume.
func (c *copier) readable(v *sealedVolume, rec keys.Record) (err error) {
	c.buf, err = v.readStored(rec, c.buf, &baseReader{left: maxBases, alone: true})
	return err
}

// volumeCopier copies objects of one volume.
type volumeCopier struct {
	*copier
	from *sealedVolume // open

	// wants reports whether to copy an object. It is called for objects without a copy.
	wants func(keys.Record) (bool, error)

	// lost, if not nil, handles the error for an object that cannot be read anywhere. Its
	// error ends the copying.
	lost func(keys.Record, error) error

	copied func(keys.Record) // called for each copied object, if not nil
}

// copyObject copies the object at rec, if it is wanted and was not copied before. It copies the
// base of a patch first. Above is the number of patches that are made from the object, in a
// chain.
func (c *volumeCopier) copyObject(ctx context.Context, rec keys.Record, above int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if has, err := c.hasCopied(rec.Key); has || err != nil {
		return err
	}
	if wanted, err := c.wants(rec); !wanted || err != nil {
		return err
	}

	var failed error // of the base
	b, err := c.from.valueForCopy(ctx, rec, func(base object.Key) (bool, error) {
		if at, ok, err := c.from.open.Load().index.Find(base); ok && err == nil && above < maxChain {
			failed = c.copyObject(ctx, at, above+1)
		}
		return c.takesPatch(base), failed
	})
	switch {
	case failed != nil:
		return failed
	case err != nil && c.lost != nil:
		return c.lost(rec, err)
	case err != nil:
		return err
	}

	if has, err := c.hasCopied(rec.Key); has || err != nil { // it and its base are patches of each other
		b.free()
		return err
	}
	if c.copied != nil {
		c.copied(rec)
	}
	return c.addValue(ctx, rec.Key, b, int(rec.Raw))
}

// checkCopied returns an error if v has an object for which has returns false.
func (v *sealedVolume) checkCopied(has func(keys.Record) (bool, error)) error {
	o, err := v.ensureOpen()
	if err != nil {
		return err
	}
	for rec, err := range o.withoutDropped(o.index.All()) {
		if err != nil {
			return err
		}
		if ok, err := has(rec); err != nil {
			return err
		} else if !ok {
			return &object.AbsentError{Key: rec.Key}
		}
	}
	return nil
}

// valueForCopy returns the verified stored value of the object at rec of v, for a new volume. A
// patch remains a patch if hold reports that the new volume takes patches of its base.
// Otherwise valueForCopy compresses the object.
func (v *sealedVolume) valueForCopy(ctx context.Context, rec keys.Record, hold func(base object.Key) (bool, error)) (*buffer, error) {
	b, err := v.verified(ctx, rec)
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

// verified returns the verified stored value of an object: that in v, or, if it is damaged,
// that of another volume.
func (v *sealedVolume) verified(ctx context.Context, rec keys.Record) (*buffer, error) {
	b := takeBuffer(int(min(rec.Stored, ingest.MaxStored)) + ingest.MaxPadding)
	value, err := v.readStored(rec, b.b, nil)
	if err == nil {
		b.b = value
		return b, nil
	}
	b.free()
	data, gerr := v.store.Get(ctx, rec.Key)
	if gerr != nil {
		return nil, err
	}
	return v.store.encodeValue(data), nil
}

// expanded returns the compressed value for a patch in v. It owns patch afterwards, unless
// it fails.
func (v *sealedVolume) expanded(rec keys.Record, patch *buffer) (*buffer, error) {
	data, err := v.decodeValue(nil, rec, patch.b, nil)
	if err != nil {
		return patch, v.readError(rec, err)
	}
	patch.free()
	return v.store.encodeValue(data), nil
}

// encodeValue returns the compressed value of data, for a writer.
func (s *Store) encodeValue(data []byte) *buffer {
	b := takeBuffer(len(data) + frame.AppendSlack(len(data)) + ingest.MaxPadding)
	b.b = s.frame.Append(b.b, data)
	return b
}

// takesPatch reports whether a patch of key can be added: the volume has key, and the
// chain is not too long.
func (w *intake) takesPatch(key object.Key) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.table.findRecord(key)
	return r != nil && r.depth < maxChain
}

// patchDepth returns the number of patches that an object is read through. The caller holds
// w.mu.
func (w *intake) patchDepth(key object.Key, value []byte) uint8 {
	id, patched := frame.Base(value)
	if !patched {
		return 0
	}
	key.ID = id
	if r := w.table.findRecord(key); r != nil {
		return r.depth + 1
	}
	return maxChain // a mistake of the caller, which reading back the volume will find
}

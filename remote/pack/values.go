package pack

import (
	"context"
	"errors"
	"fmt"

	"github.com/kist-vcs/kist/object/frame"
	"github.com/kist-vcs/kist/remote"
)

// Sizes of the caches for reading bases, in bytes.
const (
	maxBaseBytes = 8 << 20
	maxBlocks    = 8
)

// Part is a part of a pack that the caller has in memory. The zero Part is none.
type Part struct {
	Off  int64 // in the pack
	Data []byte
}

// heldValue returns n bytes of the pack at off, if p has all of them.
func (p Part) heldValue(off int64, n int) ([]byte, bool) {
	at := off - p.Off
	if at < 0 || at+int64(n) > int64(len(p.Data)) {
		return nil, false
	}
	return p.Data[at:][:n:n], true
}

// Getter reads from a pack as [remote.Blobs] does: it returns fewer bytes only
// at the end of the pack.
type Getter func(ctx context.Context, p Info, b []byte, off int64) (int, error)

// Values decodes stored values. For near patches, it reads the bases and
// caches up to 8 MiB of them. It does not trust its caches: every result is
// verified, and if a pack proves damaged, its cached parts are dropped and
// read again. It is safe for concurrent use.
type Values struct {
	get    Getter
	block  int
	bases  *frame.BaseCache[place]
	blocks blocks
}

// place is the start of a value.
type place struct {
	pack Name
	off  int64
}

// NewValues returns a Values that reads bases by get. It reads at least block
// bytes at once and caches up to 8 such blocks, because other bases are
// usually near: this saves requests. With 0, it reads only the base and caches
// no blocks.
func NewValues(get Getter, block int) *Values {
	return &Values{get: get, block: block, bases: frame.NewBaseCache[place](maxBaseBytes)}
}

// Decode returns the object of e from its stored value. It takes bases from
// held, a part of the same pack, if they are there; it does not keep held. It
// checks the object's ID, but not its form. The result must not be changed,
// and may share memory with value.
//
// The error is an [*object.CorruptError] with the place of e if the object or
// one of its bases is damaged. An error of get is wrapped. A patch takes up to
// MaxChain reads, and memory for MaxChain+1 values and objects of at most
// [frame.MaxPatch] bytes.
func (v *Values) Decode(ctx context.Context, e Entry, value []byte, held Part) ([]byte, error) {
	if !frame.IsNear(value) {
		return Decode(e, value)
	}
	return v.decodePatch(ctx, e, value, held)
}

// decodePatch is Decode for a near patch.
func (v *Values) decodePatch(ctx context.Context, e Entry, value []byte, held Part) ([]byte, error) {
	c := &chain{v: v, e: &e, held: held}
	data, err := c.readObject(ctx, value)
	switch failed, ok := errors.AsType[*getError](err); {
	case ok:
		return nil, fmt.Errorf("read what %s is made from: %w", e.Key, failed.err)
	case err != nil:
		v.DropPack(e.Pack.Name)
		return nil, e.corruptError(err)
	}
	c.keepBases()
	return data, nil
}

// DropPack drops the cached parts of a pack.
func (v *Values) DropPack(name Name) {
	v.blocks.dropPack(name)
	v.bases.Forget(func(p place) bool { return p.pack == name })
}

// getError means that a base could not be read.
type getError struct{ err error }

func (e *getError) Error() string { return e.err.Error() }

// chain decodes the patch of an entry.
type chain struct {
	v    *Values
	e    *Entry
	held Part
	made []made // decoded bases, cached after the object is verified
}

type made struct {
	place
	frame.BaseObject
}

// keepBases caches the decoded bases, and the object itself as a base for later
// patches.
func (c *chain) keepBases() {
	for _, m := range c.made {
		c.v.bases.Put(m.place, m.BaseObject)
	}
}

// readObject returns the object of the entry.
func (c *chain) readObject(ctx context.Context, value []byte) ([]byte, error) {
	if err := c.e.checkStored(value); err != nil {
		return nil, err
	}
	b, err := c.applyPatch(ctx, value, int64(c.e.Offset), int(c.e.Raw), 1)
	if err != nil {
		return nil, err
	}
	return b.Data, c.e.verifyObject(b.Data)
}

// applyPatch returns the object of raw bytes that the patch in value makes. The
// patch begins at off. Patches is its number in the chain, counted from the
// first.
func (c *chain) applyPatch(ctx context.Context, value []byte, off int64, raw, patches int) (frame.BaseObject, error) {
	n, err := frame.NearBase(value)
	if err != nil {
		return frame.BaseObject{}, err
	}

	from := off - int64(n.Distance)
	below, err := c.readBase(ctx, n, from, patches)
	if err != nil {
		return frame.BaseObject{}, fmt.Errorf("base at offset %d: %w", from, err)
	}

	data, err := frame.DecodePatch(nil, value, raw, below.Data)
	if err != nil {
		return frame.BaseObject{}, err
	}

	b := frame.BaseObject{Data: data, Depth: below.Depth + 1}
	c.made = append(c.made, made{place{c.e.Pack.Name, off}, b})
	return b, nil
}

// readBase returns the base whose value begins at off. n describes it. Patches is
// the number of patches that depend on it.
func (c *chain) readBase(ctx context.Context, n frame.Near, off int64, patches int) (frame.BaseObject, error) {
	switch {
	case off < remote.HeaderSize:
		return frame.BaseObject{}, errors.New("not among the values")
	case n.Raw > maxRaw(c.e.Key.Kind):
		return frame.BaseObject{}, fmt.Errorf("%s of %d bytes", c.e.Key.Kind, n.Raw)
	}

	at := place{c.e.Pack.Name, off}
	if b, ok := c.v.bases.Get(at); ok {
		if patches+b.Depth > MaxChain {
			return frame.BaseObject{}, errChain
		}
		return b, nil
	}

	value, err := c.readStored(ctx, off, n.Stored)
	if err != nil {
		return frame.BaseObject{}, err
	}
	if frame.IsNear(value) {
		if patches == MaxChain {
			return frame.BaseObject{}, errChain
		}
		return c.applyPatch(ctx, value, off, n.Raw, patches+1)
	}

	data, err := decodePlain(value, n.Raw)
	if err != nil {
		return frame.BaseObject{}, err
	}
	if _, part := frame.Raw(value); part {
		data = append([]byte(nil), data...)
	}

	c.made = append(c.made, made{at, frame.BaseObject{Data: data}})
	return frame.BaseObject{Data: data}, nil
}

var errChain = fmt.Errorf("more than %d patches hang on each other", MaxChain)

// ReadStored reads the stored value of e, and bytes around it if v caches blocks. It does not
// verify the value, which must not be changed. The error is an [*object.CorruptError] if the pack
// ends within the value, or a wrapped error of get.
func (v *Values) ReadStored(ctx context.Context, e Entry) ([]byte, error) {
	value, err := v.readBlock(ctx, e.Pack, int64(e.Offset), int(e.Stored))
	if failed, ok := errors.AsType[*getError](err); ok {
		return nil, fmt.Errorf("read %s: %w", e.Key, failed.err)
	}
	if err != nil {
		return nil, e.corruptError(err)
	}
	return value, nil
}

// readStored returns n bytes of the pack at off. They must not be changed.
func (c *chain) readStored(ctx context.Context, off int64, n int) ([]byte, error) {
	if value, ok := c.held.heldValue(off, n); ok {
		return value, nil
	}
	return c.v.readBlock(ctx, c.e.Pack, off, n)
}

// readBlock returns n bytes of a pack at off, from a cached block or one that it reads.
func (v *Values) readBlock(ctx context.Context, p Info, off int64, n int) ([]byte, error) {
	if value, ok := v.blocks.cachedValue(p.Name, off, n); ok {
		return value, nil
	}

	block := Part{Off: off}
	size := n
	if v.block > n {
		// Read mostly the bytes before, because bases come before patches.
		end := min(off+int64(n+v.block/4), int64(p.Size))
		block.Off = min(off, max(end-int64(v.block), remote.HeaderSize))
		size = int(end - block.Off)
	}

	block.Data = make([]byte, size)
	got, err := v.get(ctx, p, block.Data, block.Off)
	if err != nil {
		return nil, &getError{err}
	}

	block.Data = block.Data[:got]
	value, ok := block.heldValue(off, n)
	if !ok {
		return nil, fmt.Errorf("the pack ends after %d of %d bytes", block.Off+int64(got), p.Size)
	}
	if size > n {
		v.blocks.putPart(p.Name, block)
	}

	return value, nil
}

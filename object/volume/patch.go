package volume

import (
	"errors"
	"fmt"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/frame"
	"github.com/kist-vcs/kist/object/keys"
)

// A patch is made from another object of its volume, its base. The base may itself be
// a patch. If the base is unreadable, a copy in another volume replaces it.

// maxChain is the largest number of patches in a chain.
const maxChain = 8

// maxBases is the largest number of bases that are read for one object. More than maxChain
// are only read after damage, or in a volume that kist did not write.
const maxBases = 3 * maxChain

var (
	errChain  = fmt.Errorf("a chain of more than %d patches", maxChain)
	errNoBase = errors.New("not in this volume")
)

// baseReader limits the reads of bases for one object, and notes where they were.
type baseReader struct {
	left  int  // number of objects that may still be read
	alone bool // read only from the volume of the patch
	other bool // a base was read from another volume
}

// maxBaseBytes is the number of bytes in the cache of bases.
const maxBaseBytes = 8 << 20

// basePlace is the place of a base in the cache.
type basePlace struct {
	v   *sealedVolume
	key object.Key
}

// decodeValue returns the verified object of the value at rec: in dst if that is large enough,
// or as a part of value. R may be nil: then any volume may provide the base of a patch.
func (v *sealedVolume) decodeValue(dst []byte, rec keys.Record, value []byte, r *baseReader) ([]byte, error) {
	b, err := v.decodeBase(dst, rec, value, 0, r)
	return b.Data, err
}

// decodeBase is decodeValue for the base of a patch. Above is the number of patches in the
// chain so far.
func (v *sealedVolume) decodeBase(dst []byte, rec keys.Record, value []byte, above int, r *baseReader) (frame.BaseObject, error) {
	id, patched := frame.Base(value)
	switch {
	case !patched:
		data, err := decodeTo(dst, rec.Key, value, int(rec.Raw))
		return frame.BaseObject{Data: data}, err
	case above == maxChain:
		return frame.BaseObject{}, errChain
	case r == nil:
		r = &baseReader{left: maxBases}
	}

	below, err := v.findBase(object.Key{Kind: rec.Key.Kind, ID: id}, above+1, r)
	if err != nil {
		return frame.BaseObject{}, err
	}
	data, err := frame.DecodePatch(dst[:0], value, int(rec.Raw), below.Data)
	if err == nil && object.Sum(data) != rec.Key.ID {
		err = errHash
	}
	return frame.BaseObject{Data: data, Depth: below.Depth + 1}, err
}

// verifyValue checks the hash of the object of the value at rec. R may be nil: see decodeValue.
func (v *sealedVolume) verifyValue(rec keys.Record, value []byte, r *baseReader) error {
	if _, patched := frame.Base(value); !patched {
		return verify(rec.Key, value, int(rec.Raw), nil)
	}
	dst := takeBuffer(int(min(rec.Raw, frame.MaxPatch)))
	defer dst.free()
	_, err := v.decodeValue(dst.b, rec, value, r)
	return err
}

// findBase returns the base of a patch in v. Above is the number of patches in the chain so
// far.
func (v *sealedVolume) findBase(key object.Key, above int, r *baseReader) (frame.BaseObject, error) {
	b, err := v.readBase(key, above, r)
	if err == nil {
		return b, nil
	}

	var others []*sealedVolume
	if l, lerr := v.store.lastListing(); lerr == nil && !r.alone {
		others = l.volumes
	}
	for _, other := range others {
		if other == v || r.left == 0 {
			continue
		}
		if _, ok, ferr := other.findRecord(key); !ok || ferr != nil {
			continue
		}
		if b, oerr := other.readBase(key, 0, r); oerr == nil {
			r.other = true
			return frame.BaseObject{Data: b.Data}, nil
		}
	}
	return frame.BaseObject{}, fmt.Errorf("patch of %s: %w", key, err)
}

// readBase returns a verified object of v as a base. Above is the number of patches in the
// chain so far. The object may be dropped. If it is damaged, readBase records that.
func (v *sealedVolume) readBase(key object.Key, above int, r *baseReader) (frame.BaseObject, error) {
	if b, ok := v.store.bases.Get(basePlace{v, key}); ok {
		if above+b.Depth > maxChain {
			return frame.BaseObject{}, errChain
		}
		return b, nil
	}
	if r.left == 0 {
		return frame.BaseObject{}, errChain
	}
	r.left--

	o, err := v.ensureOpen()
	if err != nil {
		return frame.BaseObject{}, err
	}
	rec, ok, err := o.index.Find(key)
	switch {
	case err != nil:
		return frame.BaseObject{}, err
	case !ok:
		return frame.BaseObject{}, errNoBase
	case rec.Raw > frame.MaxPatch:
		return frame.BaseObject{}, fmt.Errorf("%d bytes are too many for a patch's base", rec.Raw)
	}

	storage := takeBuffer(int(min(rec.Stored, frame.MaxPatch+frame.MaxOverhead)))
	defer storage.free()
	var b frame.BaseObject
	value, err := o.storedValue(rec, storage.b)
	if err == nil {
		dst := make([]byte, 0, rec.Raw+frame.DecodeSlack)
		b, err = v.decodeBase(dst, rec, value, above, r)
		if _, part := frame.Raw(value); part {
			b.Data = append(dst, b.Data...) // storage is reused
		}
	}
	if err != nil {
		if !errors.Is(err, errChain) {
			err = v.readError(rec, err)
		}
		return frame.BaseObject{}, err
	}

	if !r.other { // the cache has only bases that v alone can provide
		v.store.bases.Put(basePlace{v, key}, b)
	}
	return b, nil
}

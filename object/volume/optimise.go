package volume

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/frame"
	"github.com/kist-vcs/kist/object/keys"
	"github.com/kist-vcs/kist/object/optimise"
)

// OptimiseOptions configure [Sweep.Optimise].
type OptimiseOptions struct {
	// Keep reports whether an object is kept, as for [Sweep.Rewrite].
	Keep func(Place) bool

	// Order yields the places of objects (number of the volume, and index in it) in the
	// best order to write them, for example from package optimise. Optimise skips
	// places in other volumes, objects that are not kept, and repeated places. It writes
	// all other objects last, in the order of the logs. Order may be nil.
	Order iter.Seq2[int, int]

	// Progress, if not nil, is called for each written object with its old number of
	// stored bytes.
	Progress func(stored int64)
}

// Optimised are the totals of [Sweep.Optimise].
type Optimised struct {
	Written int   // volumes written
	Objects int64 // objects in them
	Patches int64 // objects stored as patches
	Before  int64 // bytes of the old stored values
	After   int64 // bytes of the new ones
}

// Optimise is [Sweep.Rewrite] with smaller stored values: patches of similar objects, or
// values of the best compression (see package optimise). It reuses stored patches whose
// base is still the best, and compressed values of optimised volumes. The new volumes are
// marked as optimised. Keep and Order are called from one goroutine at a time, and
// Progress from another one.
func (w *Sweep) Optimise(ctx context.Context, volumes []int, o OptimiseOptions) (Optimised, error) {
	r := &optimiser{rewriter: w.newRewriter(volumes, o.Keep), o: o, passed: map[int]keys.Set{}}
	r.optimised = true
	for _, i := range volumes {
		r.passed[i] = keys.NewSet(w.volumes[i].o.index.Len())
	}
	err := optimise.Run(ctx, maxChain, func(ctx context.Context, next func(*optimise.Object) error) error {
		return r.read(ctx, volumes, next)
	}, r.write)
	if err == nil {
		err = r.finish(ctx, volumes)
	}
	r.abandon()
	if err != nil {
		err = fmt.Errorf("optimise volumes: %w", err)
	}
	r.done.Written = len(r.written)
	return r.done, err
}

// optimiser is one call of Optimise.
type optimiser struct {
	*rewriter
	o      OptimiseOptions
	passed map[int]keys.Set // the objects that were read, by number of the volume
	done   Optimised
}

// read calls each for the objects to write, in order.
func (r *optimiser) read(ctx context.Context, volumes []int, each func(*optimise.Object) error) error {
	next := func(i int, rec keys.Record) error {
		r.passed[i].Add(rec.Index)
		o, err := r.load(ctx, i, rec)
		if o == nil || err != nil {
			return err
		}
		return each(o)
	}
	if r.o.Order != nil {
		for i, index := range r.o.Order {
			if !r.from[i] || index < 0 || index >= r.volumes[i].o.index.Len() || r.passed[i].Has(index) {
				continue
			}
			rec, err := r.volumes[i].o.index.At(index)
			if err != nil {
				return r.volumes[i].v.indexError(err)
			}
			if !r.keeps(i, rec) {
				continue
			}
			if err := next(i, rec); err != nil {
				return err
			}
		}
	}
	for _, i := range volumes {
		err := r.asItLies(ctx, i, func(rec keys.Record) error {
			if r.passed[i].Has(rec.Index) {
				return nil
			}
			return next(i, rec)
		})
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// load reads an object of volume i. It returns nil if another copy may replace the object.
func (r *optimiser) load(ctx context.Context, i int, rec keys.Record) (*optimise.Object, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if has, err := r.inOthers(rec.Key, true); has || err != nil {
		return nil, err
	}
	e := r.volumes[i]
	o := &optimise.Object{Key: rec.Key, Best: e.v.info.Load().Optimised}
	var err error
	if o.Stored, err = e.o.storedValue(rec, nil); err == nil {
		o.Data, err = e.v.decode(nil, rec, o.Stored, nil)
	}
	if err != nil {
		err = e.v.readError(rec, err)
		var gerr error
		if o.Data, gerr = r.Sweep.store.Get(ctx, rec.Key); gerr != nil {
			return nil, err
		}
		o.Stored = nil
	}
	return o, nil
}

// write adds an object to the volume that is being written, unless it was added before.
// It reports whether the volume is full.
func (r *optimiser) write(ctx context.Context, o *optimise.Object) (full bool, err error) {
	if has, err := r.has(o.Key); has || err != nil {
		return false, err
	}
	patched := o.Fit(func(base object.Key) bool { return r.w != nil && r.w.takesPatch(base) })
	r.done.Objects++
	if patched {
		r.done.Patches++
	}
	r.done.Before += int64(len(o.Stored))
	r.done.After += int64(len(o.Value))
	if err := r.add(ctx, o.Key, copyValue(o.Value), len(o.Data)); err != nil {
		return false, err
	}
	if r.o.Progress != nil {
		r.o.Progress(int64(len(o.Stored)))
	}
	return r.w == nil, nil
}

// A patch is made from another object of its volume, its base. The base may be a patch
// too. If the base is unreadable, a copy in another volume replaces it.

// maxChain is the largest number of patches in a chain.
const maxChain = 8

// maxBases is the largest number of bases that are read for one object. More than maxChain
// are only read after damage, or in a volume that kist did not write.
const maxBases = 3 * maxChain

var (
	errChain  = fmt.Errorf("more than %d patches hang on each other", maxChain)
	errNoBase = errors.New("not in this volume")
)

// baseReader has the state of reading the bases for one object.
type baseReader struct {
	left  int  // number of objects that may still be read
	alone bool // read only from the volume of the patch
	other bool // a base was read from another volume
}

// maxBaseBytes is the number of bytes in the cache of bases.
const maxBaseBytes = 8 << 20

// basePlace is the place of a base in the cache.
type basePlace struct {
	v   *sealed
	key object.Key
}

// decode returns the verified object of the value at rec: in dst if that is large enough,
// or as a part of value. R may be nil: then any volume may provide the base of a patch.
func (v *sealed) decode(dst []byte, rec keys.Record, value []byte, r *baseReader) ([]byte, error) {
	b, err := v.decodeBase(dst, rec, value, 0, r)
	return b.Data, err
}

// decodeBase is decode for the base of a patch. Above is the number of patches in the
// chain so far.
func (v *sealed) decodeBase(dst []byte, rec keys.Record, value []byte, above int, r *baseReader) (frame.BaseObject, error) {
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

	below, err := v.base(object.Key{Kind: rec.Key.Kind, ID: id}, above+1, r)
	if err != nil {
		return frame.BaseObject{}, err
	}
	data, err := frame.DecodePatch(dst[:0], value, int(rec.Raw), below.Data)
	if err == nil && object.Sum(data) != rec.Key.ID {
		err = errHash
	}
	return frame.BaseObject{Data: data, Depth: below.Depth + 1}, err
}

// verify checks the hash of the object of the value at rec. R may be nil: see decode.
func (v *sealed) verify(rec keys.Record, value []byte, r *baseReader) error {
	if _, patched := frame.Base(value); !patched {
		return verify(rec.Key, value, int(rec.Raw), nil)
	}
	dst := takeBuffer(int(min(rec.Raw, frame.MaxPatch)))
	defer dst.free()
	_, err := v.decode(dst.b, rec, value, r)
	return err
}

// base returns the base of a patch in v. Above is the number of patches in the chain so
// far.
func (v *sealed) base(key object.Key, above int, r *baseReader) (frame.BaseObject, error) {
	b, err := v.readBase(key, above, r)
	if err == nil {
		return b, nil
	}
	var others []*sealed
	if l, lerr := v.store.current(); lerr == nil && !r.alone {
		others = l.volumes
	}
	for _, other := range others {
		if other == v || r.left == 0 {
			continue
		}
		if _, ok, ferr := other.find(key); !ok || ferr != nil {
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
func (v *sealed) readBase(key object.Key, above int, r *baseReader) (frame.BaseObject, error) {
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
	o, err := v.opened()
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

package volume

import (
	"context"
	"fmt"
	"iter"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/keys"
	"github.com/kist-vcs/kist/object/repack"
)

// RepackOptions configure [Sweep.Repack].
type RepackOptions struct {
	// Keep reports whether an object is kept, as for [Sweep.Rewrite].
	Keep func(Place) bool

	// Order yields the places of objects (number of the volume, and index in it) in the
	// best order to write them, for example from package repack. Repack skips
	// places in other volumes, objects that are not kept, and repeated places. It writes
	// all other objects last, in the order of the logs. Order may be nil.
	Order iter.Seq2[int, int]

	// Progress, if not nil, is called for each written object with its old number of
	// stored bytes.
	Progress func(stored int64)
}

// RepackStats are the totals of [Sweep.Repack].
type RepackStats struct {
	Written int   // volumes written
	Objects int64 // objects in them
	Patches int64 // objects stored as patches
	Before  int64 // bytes of the old stored values
	After   int64 // bytes of the new ones
}

// Repack is [Sweep.Rewrite] with smaller stored values: patches of similar objects, or
// values of the best compression (see package repack). It reuses stored patches whose
// base is still the best, and compressed values of repacked volumes. The seals of the new
// volumes say so. Keep and Order are called from one goroutine at a time, and
// Progress from another one.
func (w *Sweep) Repack(ctx context.Context, volumes []int, o RepackOptions) (RepackStats, error) {
	r := &repacker{rewriter: w.newRewriter(volumes, o.Keep), options: o, loaded: map[int]keys.Set{}}
	r.allRepacked = true
	for _, i := range volumes {
		r.loaded[i] = keys.NewSet(w.volumes[i].o.index.Len())
	}
	err := repack.Run(ctx, maxChain, func(ctx context.Context, next func(*repack.Object) error) error {
		return r.loadObjects(ctx, volumes, next)
	}, r.writeObject)
	if err == nil {
		err = r.sealAndCheck(ctx, volumes)
	}
	r.abandon()
	if err != nil {
		err = fmt.Errorf("repack volumes: %w", err)
	}
	r.stats.Written = len(r.written)
	return r.stats, err
}

// repacker is one call of Repack.
type repacker struct {
	*rewriter
	options RepackOptions
	loaded  map[int]keys.Set // the objects that were read, by number of the volume
	stats   RepackStats
}

// loadObjects loads the objects to write and passes each to use, in order.
func (r *repacker) loadObjects(ctx context.Context, volumes []int, use func(*repack.Object) error) error {
	next := func(i int, rec keys.Record) error {
		r.loaded[i].Add(rec.Index)
		o, err := r.loadObject(ctx, i, rec)
		if o == nil || err != nil {
			return err
		}
		return use(o)
	}

	if r.options.Order != nil {
		for i, index := range r.options.Order {
			if !r.from[i] || index < 0 || index >= r.volumes[i].o.index.Len() || r.loaded[i].Has(index) {
				continue
			}
			rec, err := r.volumes[i].o.index.At(index)
			if err != nil {
				return r.volumes[i].v.indexError(err)
			}
			if !r.isKept(i, rec) {
				continue
			}
			if err := next(i, rec); err != nil {
				return err
			}
		}
	}

	for _, i := range volumes {
		err := r.inLogOrder(ctx, i, func(rec keys.Record) error {
			if r.loaded[i].Has(rec.Index) {
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

// loadObject reads an object of volume i. It returns nil if another copy may replace the object.
func (r *repacker) loadObject(ctx context.Context, i int, rec keys.Record) (*repack.Object, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if has, err := r.inOthers(rec.Key, true); has || err != nil {
		return nil, err
	}

	e := r.volumes[i]
	o := &repack.Object{Key: rec.Key, Best: e.v.info.Load().Repacked}
	var err error
	if o.Stored, err = e.o.storedValue(rec, nil); err == nil {
		o.Data, err = e.v.decodeValue(nil, rec, o.Stored, nil)
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

// writeObject adds an object to the volume that is being written, unless it was added before.
// It reports whether the volume is full.
func (r *repacker) writeObject(ctx context.Context, o *repack.Object) (full bool, err error) {
	if has, err := r.hasCopied(o.Key); has || err != nil {
		return false, err
	}

	patched := o.Fit(func(base object.Key) bool { return r.w != nil && r.w.takesPatch(base) })
	r.stats.Objects++
	if patched {
		r.stats.Patches++
	}
	r.stats.Before += int64(len(o.Stored))
	r.stats.After += int64(len(o.Value))

	if err := r.addValue(ctx, o.Key, copyValue(o.Value), len(o.Data)); err != nil {
		return false, err
	}
	if r.options.Progress != nil {
		r.options.Progress(int64(len(o.Stored)))
	}
	return r.w == nil, nil
}

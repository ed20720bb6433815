package volume

import (
	"context"
	"fmt"
	"iter"

	"github.com/kist-vcs/kist/object"
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
		return r.readInOrder(ctx, volumes, next)
	}, r.writeObject)
	if err == nil {
		err = r.sealAndCheck(ctx, volumes)
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

// readInOrder calls each for the objects to write, in order.
func (r *optimiser) readInOrder(ctx context.Context, volumes []int, each func(*optimise.Object) error) error {
	next := func(i int, rec keys.Record) error {
		r.passed[i].Add(rec.Index)
		o, err := r.loadObject(ctx, i, rec)
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

// loadObject reads an object of volume i. It returns nil if another copy may replace the object.
func (r *optimiser) loadObject(ctx context.Context, i int, rec keys.Record) (*optimise.Object, error) {
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
func (r *optimiser) writeObject(ctx context.Context, o *optimise.Object) (full bool, err error) {
	if has, err := r.hasCopied(o.Key); has || err != nil {
		return false, err
	}

	patched := o.Fit(func(base object.Key) bool { return r.w != nil && r.w.takesPatch(base) })
	r.done.Objects++
	if patched {
		r.done.Patches++
	}
	r.done.Before += int64(len(o.Stored))
	r.done.After += int64(len(o.Value))

	if err := r.addValue(ctx, o.Key, copyValue(o.Value), len(o.Data)); err != nil {
		return false, err
	}
	if r.o.Progress != nil {
		r.o.Progress(int64(len(o.Stored)))
	}
	return r.w == nil, nil
}

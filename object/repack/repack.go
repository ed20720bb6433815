// Package repack stores many objects in little space. [Order] puts similar
// objects near each other. [Run] makes each object a patch of a similar one before
// it, or else compresses it as well as it can.
package repack

import (
	"context"
	"runtime"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/frame"
)

const (
	// onTheWay is the largest number of bytes of objects between read and write.
	onTheWay = 8 << 20

	// encoders is the largest number of goroutines that encode. Each takes 40 MiB.
	encoders = 2

	// triedBefore is the length from which an uncompressed value shows that
	// compression was tried and did not help.
	triedBefore = 1 << 10
)

// Object is an object on its way through [Run].
type Object struct {
	Key    object.Key
	Data   []byte // Run keeps it for a while; the caller no longer changes it
	Stored []byte // the old stored value (package object/frame); nil if it is unknown

	// Best is true if Stored was repacked before, so that compressing it once more
	// gains nothing. A patch of another object may still be smaller.
	Best bool

	// Value is the new stored value. It is set when write is called.
	Value []byte

	base    candidate // the possible base of a patch; without data if there is none
	keep    bool      // Stored is a patch of base
	weight  int64
	encoder *encoder      // encodes the object once more if Fit refuses its value
	done    chan struct{} // closed when Value is set
}

// Run finds the smallest value of each object. It calls read, which calls next with
// one object after the other, and it calls write with each object in the same
// order. A chain has at most depth patches. A stored patch stays if its base is
// also the best candidate now.
//
// The objects may go to several places (volumes, packs), one after the other. A
// patch and its base must be in the same place: write calls [Object.Fit] to ensure
// that, and returns full if the next object goes to a new place. One goroutine
// calls read, and one goroutine makes all calls of write; both run at the same time.
func Run(ctx context.Context, depth int, read func(ctx context.Context, next func(*Object) error) error, write func(context.Context, *Object) (full bool, err error)) error {
	r := &run{
		depth: depth, read: read, write: write,
		encoder: frame.NewEncoder(frame.Best),
		weight:  semaphore.NewWeighted(onTheWay),
		todo:    make(chan *Object, 64),
		ordered: make(chan *Object, 1024),
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer close(r.todo)
		defer close(r.ordered)
		return r.readAll(ctx)
	})
	for range min(encoders, runtime.GOMAXPROCS(0)) {
		g.Go(func() error {
			e := &encoder{Encoder: r.encoder}
			for o := range r.todo {
				e.encodeObject(o)
				close(o.done)
			}
			return nil
		})
	}
	g.Go(func() error { return r.writeAll(ctx) })
	return g.Wait()
}

// run is one call of Run.
type run struct {
	depth   int
	read    func(context.Context, func(*Object) error) error
	write   func(context.Context, *Object) (bool, error)
	encoder *frame.Encoder
	weight  *semaphore.Weighted
	todo    chan *Object // to be encoded
	ordered chan *Object // to be written
	place   atomic.Int64 // number of the place that write fills
}

// readAll reads objects and finds the possible base of each.
func (r *run) readAll(ctx context.Context) error {
	similar := newWindow(frame.MaxPatch, r.depth)
	encoder, place := &encoder{Encoder: r.encoder}, int64(0)
	return r.read(ctx, func(o *Object) error {
		if now := r.place.Load(); now != place {
			similar, place = newWindow(frame.MaxPatch, r.depth), now
		}
		if c, ok := similar.proposeBase(o.Key, o.Data); ok && c.key != o.Key {
			o.base = c
			id, patched := frame.Base(o.Stored)
			o.keep = patched && id == c.key.ID
		}

		o.encoder, o.done = encoder, make(chan struct{})
		o.weight = min(int64(len(o.Stored)+len(o.Data)), onTheWay)
		if err := r.weight.Acquire(ctx, o.weight); err != nil {
			return err
		}
		for _, to := range []chan *Object{r.todo, r.ordered} {
			select {
			case to <- o:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
}

// writeAll writes each object when it is encoded.
func (r *run) writeAll(ctx context.Context) error {
	for o := range r.ordered {
		select {
		case <-o.done:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		full, err := r.write(ctx, o)
		if err != nil {
			return err
		}
		if full {
			r.place.Add(1)
		}
		r.weight.Release(o.weight)
	}
	return nil
}

// Fit sets Value for a place that takes patches of some objects only: if the base
// is in another place, Value becomes the compressed object. It reports whether
// Value is a patch.
func (o *Object) Fit(takes func(base object.Key) bool) (patched bool) {
	if !o.fitsPlace(takes) && o.keep { // encode took the stored patch and tried nothing else
		o.keep = false
		o.encoder.encodeObject(o)
	}
	if !o.fitsPlace(takes) {
		o.Value = slices.Clone(o.encoder.bestCompressed(o))
	}
	_, patched = frame.Base(o.Value)
	return patched
}

// fitsPlace reports whether Value is no patch, or one that the place takes.
func (o *Object) fitsPlace(takes func(base object.Key) bool) bool {
	id, patched := frame.Base(o.Value)
	return !patched || takes(object.Key{Kind: o.Key.Kind, ID: id})
}

// encoder encodes one object after the other. It is not safe for concurrent use.
type encoder struct {
	*frame.Encoder
	patch, whole []byte // buffers
}

// encodeObject sets Value to the smallest value of an object.
func (e *encoder) encodeObject(o *Object) {
	if o.keep {
		o.Value = o.Stored
		return
	}
	patched := false
	if o.base.data != nil {
		e.patch, patched = e.AppendPatch(e.patch[:0], o.Data, o.base.key.ID, o.base.data)
	}
	if patched && o.patchSuffices(len(e.patch)) {
		o.Value = slices.Clone(e.patch)
		return
	}

	smallest := e.bestCompressed(o)
	if patched && len(e.patch) < len(smallest) {
		smallest = e.patch
	}
	o.Value = slices.Clone(smallest)
}

// patchSuffices reports whether a patch of n bytes is so small that compressing the
// object cannot gain much: it has at most half of the stored bytes, or at most
// twice those of a repacked patch.
func (o *Object) patchSuffices(n int) bool {
	if _, patched := frame.Base(o.Stored); patched {
		return o.Best && n <= 2*len(o.Stored)
	}
	return 2*n <= len(o.Stored)
}

// bestCompressed returns the smallest value of an object that is no patch. It is valid
// until the next call. It does not retry an object that did not compress, or that
// was compressed with the best level before.
func (e *encoder) bestCompressed(o *Object) []byte {
	_, patched := frame.Base(o.Stored)
	if known := o.Stored != nil && !patched; known {
		if _, raw := frame.Raw(o.Stored); o.Best || raw && len(o.Data) >= triedBefore {
			return o.Stored
		}
	}

	e.whole = e.Append(e.whole[:0], o.Data)
	if o.Stored != nil && !patched && len(o.Stored) <= len(e.whole) {
		return o.Stored
	}
	return e.whole
}

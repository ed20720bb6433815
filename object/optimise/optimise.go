// Package optimise makes the stored values of many objects small: as patches of
// objects that come before them and are much like them, or else compressed as
// well as can be.
package optimise

import (
	"context"
	"runtime"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/frame"
	"github.com/kist-vcs/kist/object/similar"
)

const (
	// onTheWay is how many bytes of objects are on the way at a time.
	onTheWay = 8 << 20

	// encoders is how many encode at a time, at most: each takes 40 MiB.
	encoders = 2

	// triedBefore is the length from which data that is stored as it is is not
	// worth compressing.
	triedBefore = 1 << 10
)

// Object is an object on its way through [Run].
type Object struct {
	Key    object.Key
	Data   []byte // kept for a while, and not to be changed
	Stored []byte // its stored value (package object/frame), as it was; nil: that is not known

	// Best says that Stored is as small as it gets: it was optimised before. If it
	// is a patch, one of another object may be smaller.
	Best bool

	// Value is its stored value from now on, when it is written.
	Value []byte

	base   similar.Candidate // what it may be a patch of; nothing, if it has no Data
	keep   bool              // it is a patch already, of base
	weight int64
	with   *encoder
	done   chan struct{} // closed when Value is set
}

// Run has read call next for one object after the other, and write for each in
// the same order, with the smallest value that was found for it; some are on the
// way meanwhile. At most depth patches hang on each other. A patch stays if it is
// made from the object that it would be made from now.
//
// What is written may go to one place after the other, of which each has to have
// what its patches are made from: write calls [Object.Fit] to make sure, and
// returns whether the next object begins a new place. Read and write are called
// once, and by one goroutine at a time, respectively; they run at once.
func Run(ctx context.Context, depth int, read func(ctx context.Context, next func(*Object) error) error, write func(context.Context, *Object) (anew bool, err error)) error {
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
				e.encode(o)
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
	place   atomic.Int64 // number of the place that is written to
}

// readAll reads objects, and finds for each what it may be a patch of.
func (r *run) readAll(ctx context.Context) error {
	window := similar.NewWindow(frame.MaxPatch, r.depth)
	with, place := &encoder{Encoder: r.encoder}, int64(0)
	return r.read(ctx, func(o *Object) error {
		if now := r.place.Load(); now != place {
			window, place = similar.NewWindow(frame.MaxPatch, r.depth), now
		}
		if c, ok := window.Next(o.Key, o.Data); ok && c.Key != o.Key {
			o.base = c
			id, patched := frame.Base(o.Stored)
			o.keep = patched && id == c.Key.ID
		}
		o.with, o.done = with, make(chan struct{})
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

// writeAll writes objects once they are encoded.
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
		anew, err := r.write(ctx, o)
		if err != nil {
			return err
		}
		if anew {
			r.place.Add(1)
		}
		r.weight.Release(o.weight)
	}
	return nil
}

// Fit makes the value one that can be written to a place which takes patches of
// some objects: the object is stored whole, if what it would be a patch of went
// to another place. Patched tells whether the value is a patch.
func (o *Object) Fit(takes func(base object.Key) bool) (patched bool) {
	if o.fits(takes) {
		_, patched = frame.Base(o.Value)
		return patched
	}
	if o.keep { // no other one was looked for
		o.keep = false
		o.with.encode(o)
	}
	if !o.fits(takes) {
		o.Value = slices.Clone(o.with.wholeOf(o))
	}
	_, patched = frame.Base(o.Value)
	return patched
}

func (o *Object) fits(takes func(base object.Key) bool) bool {
	id, patched := frame.Base(o.Value)
	return !patched || takes(object.Key{Kind: o.Key.Kind, ID: id})
}

// encoder encodes one object after the other. It is not safe for concurrent use.
type encoder struct {
	*frame.Encoder
	patch, whole []byte // used again
}

// encode finds the smallest value of an object.
func (e *encoder) encode(o *Object) {
	if o.keep {
		o.Value = o.Stored
		return
	}
	patched := false
	if o.base.Data != nil {
		e.patch, patched = e.AppendPatch(e.patch[:0], o.Data, o.base.Key.ID, o.base.Data)
	}
	if patched && o.suffices(len(e.patch)) {
		o.Value = slices.Clone(e.patch)
		return
	}
	whole := e.wholeOf(o)
	if patched && len(e.patch) < len(whole) {
		whole = e.patch
	}
	o.Value = slices.Clone(whole)
}

// suffices reports whether a patch of n bytes is so small that storing the object
// whole cannot be much better: half of the bytes that took before, or not much
// larger than another patch, which was better than that.
func (o *Object) suffices(n int) bool {
	if _, patched := frame.Base(o.Stored); patched {
		return o.Best && n <= 2*len(o.Stored)
	}
	return 2*n <= len(o.Stored)
}

// wholeOf returns the value of an object that is no patch, until the next call:
// what does not compress is not tried again, nor what was compressed as well as
// can be.
func (e *encoder) wholeOf(o *Object) []byte {
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

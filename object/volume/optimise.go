package volume

import (
	"context"
	"fmt"
	"iter"
	"runtime"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/frame"
	"github.com/kist-vcs/kist/object/keys"
	"github.com/kist-vcs/kist/object/similar"
)

const (
	// optimiseBytes is how much of objects is on the way at a time.
	optimiseBytes = 8 << 20

	// optimiseEncoders is how many encode at a time, at most: each takes 40 MiB.
	optimiseEncoders = 2
)

// OptimiseOptions say what [Sweep.Optimise] writes.
type OptimiseOptions struct {
	// Keep says which objects are needed, as for [Sweep.Rewrite].
	Keep func(Place) bool

	// Order yields the places of objects, number of the volume and index in it,
	// in the order in which they are to be written: what is alike near each
	// other, and of versions the one that is read most first. A place that is not
	// in one of the volumes, or not to be kept, or comes again is passed over. What
	// it leaves out is written last, as it lies. nil: all is.
	Order iter.Seq2[int, int]

	// Progress, if not nil, is told of each object that was written how many
	// stored bytes it had before.
	Progress func(stored int64)
}

// Optimised tells what [Sweep.Optimise] did.
type Optimised struct {
	Written int   // volumes written
	Objects int64 // objects in them
	Patches int64 // of these, stored as patches of others
	Before  int64 // bytes of the stored values, as they were
	After   int64 // as they are now
}

// Optimise is [Sweep.Rewrite], with all it promises, but stores objects smaller:
// as patches of objects that they resemble and that come not too long before
// them, or else compressed as well as can be. A patch stays if it is made from
// the object that it would be made from now, and so does what an optimised
// volume has whole. The volumes written are marked as optimised. Keep and Order
// are called from one goroutine at a time, and Progress from another one.
func (w *Sweep) Optimise(ctx context.Context, volumes []int, o OptimiseOptions) (Optimised, error) {
	r := &optimiser{rewriter: w.newRewriter(volumes, o.Keep), o: o, passed: map[int]*bitmap{}}
	r.encoder = frame.NewEncoder(frame.Best)
	r.optimised = true
	for _, i := range volumes {
		r.passed[i] = &bitmap{}
	}
	err := r.run(ctx, volumes)
	r.abandon()
	if err != nil {
		err = fmt.Errorf("optimise volumes: %w", err)
	}
	r.done.Written = len(r.written)
	return r.done, err
}

// optimiser is one call of Optimise. Objects are read in order by one goroutine,
// encoded by some, and written in order by one.
type optimiser struct {
	*rewriter
	o       OptimiseOptions
	passed  map[int]*bitmap // what was read, by number of the volume
	encoder *frame.Encoder
	done    Optimised
}

// smaller is an object on its way.
type smaller struct {
	key    object.Key
	data   []byte
	stored []byte            // its stored value, as it was; nil: that is damaged
	base   similar.Candidate // what it may be a patch of; nothing, if it has no Data
	keep   bool              // it is a patch already, of base
	best   bool              // it was stored as small as it gets; if it is a patch, but not of base
	weight int64

	encoder *frame.Encoder
	encoded chan struct{} // closed when value is set
	value   *buffer
}

func (r *optimiser) run(ctx context.Context, volumes []int) error {
	read := make(chan *smaller, 64)
	ordered := make(chan *smaller, 1024)
	weight := semaphore.NewWeighted(optimiseBytes)
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer close(read)
		defer close(ordered)
		return r.read(gctx, volumes, func(s *smaller) error {
			if err := weight.Acquire(gctx, s.weight); err != nil {
				return err
			}
			for _, to := range []chan *smaller{read, ordered} {
				select {
				case to <- s:
				case <-gctx.Done():
					return gctx.Err()
				}
			}
			return nil
		})
	})
	for range min(optimiseEncoders, runtime.GOMAXPROCS(0)) {
		g.Go(func() error {
			for s := range read {
				s.encode()
				close(s.encoded)
			}
			return nil
		})
	}
	g.Go(func() error {
		for s := range ordered {
			select {
			case <-s.encoded:
			case <-gctx.Done():
				return gctx.Err()
			}
			if err := r.write(gctx, s); err != nil {
				return err
			}
			weight.Release(s.weight)
		}
		return nil
	})
	if err := g.Wait(); err != nil {
		return err
	}
	return r.finish(ctx, volumes)
}

// read calls each for what is to be written, in order.
func (r *optimiser) read(ctx context.Context, volumes []int, each func(*smaller) error) error {
	window := similar.NewWindow(frame.MaxPatch, maxChain)
	next := func(i int, rec keys.Record) error {
		r.passed[i].set(rec.Index)
		s, err := r.load(ctx, i, rec)
		if s == nil || err != nil {
			return err
		}
		if c, ok := window.Next(s.key, s.data); ok && c.Key != s.key {
			s.base = c
			id, patched := frame.Base(s.stored)
			s.keep = patched && id == c.Key.ID
		}
		return each(s)
	}
	if r.o.Order != nil {
		for i, index := range r.o.Order {
			if !r.from[i] || index < 0 || index >= r.volumes[i].o.index.Len() || r.passed[i].has(index) {
				continue
			}
			rec, err := r.volumes[i].o.index.At(index)
			if err != nil {
				return &DamageError{Volume: r.volumes[i].v.name, File: keysFile, Err: err}
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
			if r.passed[i].has(rec.Index) {
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

// load reads an object of volume i, unless another volume has a good copy that
// stays.
func (r *optimiser) load(ctx context.Context, i int, rec keys.Record) (*smaller, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if has, err := r.inOthers(rec.Key, true); has || err != nil {
		return nil, err
	}
	e := r.volumes[i]
	s := &smaller{key: rec.Key, encoder: r.encoder, encoded: make(chan struct{})}
	var err error
	if s.stored, err = e.o.storedValue(rec, nil); err == nil {
		s.data, err = e.v.decodeTo(nil, rec.Key, s.stored, int(rec.Raw))
	}
	if err != nil {
		e.v.setBad(rec.Key)
		var gerr error
		if s.data, gerr = r.Sweep.store.Get(ctx, rec.Key); gerr != nil {
			return nil, e.v.damaged(rec, err)
		}
		s.stored = nil
	}
	s.best = e.v.info.Load().Optimised
	s.weight = min(int64(len(s.stored)+len(s.data)), optimiseBytes)
	return s, nil
}

// encode finds the smallest value.
func (s *smaller) encode() {
	s.value = nil
	if s.keep {
		s.value = copyValue(s.stored)
		return
	}
	if s.base.Data != nil {
		b := takeBuffer(len(s.data)/2 + minValue)
		var ok bool
		if b.b, ok = s.encoder.AppendPatch(b.b, s.data, s.base.Key.ID, s.base.Data); ok {
			s.value = b
		} else {
			b.free()
		}
	}
	if s.value != nil && s.suffices(len(s.value.b)) {
		return
	}
	whole := s.whole()
	if s.value == nil || len(whole.b) <= len(s.value.b) {
		s.value, whole = whole, s.value
	}
	if whole != nil {
		whole.free()
	}
}

// suffices reports whether a patch of n bytes is so small that storing the object
// whole cannot be much better: half of the bytes that took before, or not much
// larger than another patch, which was better than that.
func (s *smaller) suffices(n int) bool {
	if _, patched := frame.Base(s.stored); patched {
		return s.best && n <= 2*len(s.stored)
	}
	return 2*n <= len(s.stored)
}

// whole returns the value of the object that is no patch: what does not compress
// is not tried again, nor what was compressed as well as can be.
func (s *smaller) whole() *buffer {
	if _, patched := frame.Base(s.stored); s.best && s.stored != nil && !patched {
		return copyValue(s.stored)
	}
	if _, raw := frame.Raw(s.stored); raw && len(s.data) >= triedBefore {
		return copyValue(s.stored)
	}
	b := takeBuffer(len(s.data) + frame.AppendSlack(len(s.data)) + minValue)
	b.b = s.encoder.Append(b.b, s.data)
	if _, patched := frame.Base(s.stored); s.stored != nil && !patched && len(s.stored) <= len(b.b) {
		b.b = append(b.b[:0], s.stored...)
	}
	return b
}

// triedBefore is the length from which data that is stored as it is is not worth
// compressing.
const triedBefore = 1 << 10

// write adds an object to the volume being written, unless it was: whole, if what
// it is a patch of went to another volume.
func (r *optimiser) write(ctx context.Context, s *smaller) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if has, err := r.has(s.key); has || err != nil {
		s.value.free()
		return err
	}
	if s.keep && !r.takes(s) {
		s.value.free()
		s.keep = false
		s.encode()
	}
	if !r.takes(s) {
		s.value.free()
		s.value = s.whole()
	}
	r.done.Objects++
	if _, patched := frame.Base(s.value.b); patched {
		r.done.Patches++
	}
	r.done.Before += int64(len(s.stored))
	r.done.After += int64(len(s.value.b))
	if err := r.add(ctx, s.key, s.value, len(s.data)); err != nil {
		return err
	}
	if r.o.Progress != nil {
		r.o.Progress(int64(len(s.stored)))
	}
	return nil
}

// takes reports whether the value of an object can be added to the volume being
// written: if it is a patch, whether that has what it is made from.
func (r *optimiser) takes(s *smaller) bool {
	id, patched := frame.Base(s.value.b)
	return !patched || r.w != nil && r.w.takesPatch(object.Key{Kind: s.key.Kind, ID: id})
}

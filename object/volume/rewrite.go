package volume

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/keys"
)

// Rewrite copies the objects for which keep returns true into new volumes, and reads back
// and hashes all of them. It copies no object that another volume has, if that copy may
// serve as the only one (see [Sweep]) and can be read without any other volume.
//
// The rewritten volumes can be removed afterwards. If an object can be read nowhere,
// Rewrite returns an [*object.CorruptError], and no volume must be removed. It calls
// copied, if not nil, with the stored bytes of each object, and returns the number of
// volumes that it wrote.
func (w *Sweep) Rewrite(ctx context.Context, volumes []int, keep func(Place) bool, copied func(int64)) (written int, err error) {
	r := w.newRewriter(volumes, keep)
	r.copied = copied
	err = r.run(ctx, volumes)
	r.abandon()
	if err != nil {
		err = fmt.Errorf("rewrite volumes: %w", err)
	}
	return len(r.written), err
}

func (w *Sweep) newRewriter(volumes []int, keep func(Place) bool) *rewriter {
	r := &rewriter{Sweep: w, keep: keep, from: map[int]bool{}, copier: copier{store: w.store, optimised: true}}
	for _, i := range volumes {
		info := w.volumes[i].v.info.Load()
		r.from[i] = true
		r.optimised = r.optimised && info.Optimised
		if info.Created.After(r.created) {
			r.created = info.Created
		}
	}
	return r
}

// rewriter is one call of Rewrite.
type rewriter struct {
	*Sweep
	copier
	keep   func(Place) bool
	copied func(int64)
	from   map[int]bool
	buf    []byte
}

func (r *rewriter) run(ctx context.Context, volumes []int) error {
	for _, i := range volumes {
		if err := r.volume(ctx, i); err != nil {
			return err
		}
	}
	return r.finish(ctx, volumes)
}

// finish seals the last new volume, and checks that every kept object has a copy.
func (r *rewriter) finish(ctx context.Context, volumes []int) error {
	if err := r.seal(ctx); err != nil {
		return err
	}
	for _, i := range volumes {
		if err := r.check(i); err != nil {
			return err
		}
	}
	return r.Refresh(ctx)
}

// volume copies the kept objects of volume i, in the order of its logs.
func (r *rewriter) volume(ctx context.Context, i int) error {
	return r.asItLies(ctx, i, func(rec keys.Record) error { return r.object(ctx, i, rec, 0) })
}

// asItLies calls each for the kept objects of volume i, in the order of its logs.
func (r *rewriter) asItLies(ctx context.Context, i int, each func(keys.Record) error) error {
	type place struct{ file, offset, index uint32 }
	var places []place
	e := r.volumes[i]
	for rec, err := range e.o.index.All() {
		if err != nil {
			return e.v.indexError(err)
		}
		if r.keeps(i, rec) {
			places = append(places, place{rec.File, rec.Offset, uint32(rec.Index)})
		}
	}
	slices.SortFunc(places, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.offset, b.offset))
	})
	for _, p := range places {
		if err := ctx.Err(); err != nil {
			return err
		}
		rec, err := e.o.index.At(int(p.index))
		if err != nil {
			return e.v.indexError(err)
		}
		if err := each(rec); err != nil {
			return err
		}
	}
	return nil
}

func (r *rewriter) keeps(i int, rec keys.Record) bool {
	return !r.volumes[i].v.isDropped(rec.Key) && r.keep(Place{i, rec.Index, int64(rec.Stored), false})
}

// object copies one object of volume i, unless another copy may replace it. It copies the
// base of a patch first, if the base is kept. Above is the number of patches that are made
// from the object, in a chain.
func (r *rewriter) object(ctx context.Context, i int, rec keys.Record, above int) error {
	if has, err := r.elsewhere(rec.Key, true); has || err != nil {
		return err
	}
	e := r.volumes[i]
	b, err := e.v.carry(ctx, e.o, rec, func(base object.Key) (bool, error) {
		at, ok, err := e.o.index.Find(base)
		if ok && err == nil && above < maxChain && r.keeps(i, at) {
			err = r.object(ctx, i, at, above+1)
		}
		return r.w != nil && r.w.takesPatch(base), err
	})
	if err != nil {
		return err
	}
	if has, err := r.has(rec.Key); has || err != nil { // patches of each other
		b.free()
		return err
	}
	if err := r.add(ctx, rec.Key, b, int(rec.Raw)); err != nil {
		return err
	}
	if r.copied != nil {
		r.copied(int64(rec.Stored))
	}
	return nil
}

// elsewhere reports whether a volume that stays has an object. With read, it reads and
// hashes the copy.
func (r *rewriter) elsewhere(key object.Key, read bool) (bool, error) {
	if has, err := r.has(key); has || err != nil {
		return has, err
	}
	return r.inOthers(key, read)
}

// inOthers is elsewhere without the new volumes.
func (r *rewriter) inOthers(key object.Key, read bool) (bool, error) {
	for i, e := range r.volumes {
		if r.from[i] || e.gone {
			continue
		}
		rec, ok, err := e.v.find(key)
		if err != nil {
			return false, err
		}
		if !ok || e.v.isBad(key) || r.Stays != nil && !r.Stays(Place{i, rec.Index, int64(rec.Stored), false}) {
			continue
		}
		if read {
			if r.buf, err = e.v.readAlone(rec, r.buf); err != nil {
				r.Sweep.store.warn("%v", err)
				continue
			}
		}
		return true, nil
	}
	return false, nil
}

// check checks that volumes that stay have all kept objects of volume i.
func (r *rewriter) check(i int) error {
	e := r.volumes[i]
	for rec, err := range e.o.index.All() {
		if err != nil {
			return e.v.indexError(err)
		}
		if !r.keeps(i, rec) {
			continue
		}
		has, err := r.elsewhere(rec.Key, false)
		if err != nil {
			return err
		}
		if !has {
			return &object.NotFoundError{Key: rec.Key}
		}
	}
	return nil
}

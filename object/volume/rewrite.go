package volume

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/keys"
)

// Rewrite copies objects of volumes into new volumes, which it publishes after
// all that is in them was read back and hashed: those that keep says, unless a
// volume that is not among these has a copy that stays, see [Sweep], which then is
// read and hashed too, without any other volume.
// The volumes can be removed afterwards. An object that can be read nowhere is
// an [*object.CorruptError], and no volume is to be removed then. Copied, if not
// nil, is told of each object's stored bytes. Rewrite returns how many volumes it
// has written.
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

// finish publishes what was copied, and makes sure that it is all.
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

// volume copies what is to be kept of volume i, in the order in which it lies
// there.
func (r *rewriter) volume(ctx context.Context, i int) error {
	return r.asItLies(ctx, i, func(rec keys.Record) error { return r.object(ctx, i, rec, 0) })
}

// asItLies calls each for what is to be kept of volume i, in the order in which
// it lies there.
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

// object copies one object of volume i, unless there is a good copy, after what
// it is a patch of, if that is to be kept. Above patches hang on it.
func (r *rewriter) object(ctx context.Context, i int, rec keys.Record, above int) error {
	if has, err := r.elsewhere(rec.Key, true); has || err != nil {
		return err
	}
	e := r.volumes[i]
	b, err := r.Sweep.store.carry(ctx, e.v, e.o, rec, func(base object.Key) (bool, error) {
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

// elsewhere reports whether a volume that is not to be removed has an object.
// If read is set, it is read and hashed there.
func (r *rewriter) elsewhere(key object.Key, read bool) (bool, error) {
	if has, err := r.has(key); has || err != nil {
		return has, err
	}
	return r.inOthers(key, read)
}

// inOthers is elsewhere for volumes that were there before.
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

// check makes sure that everything that is to be kept of volume i is elsewhere.
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

package volume

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/frame"
	"github.com/kist-vcs/kist/object/keys"
)

// An evicted volume has only KEYS and SEAL. Its objects are on a remote. In its records,
// File is notHere, and Offset and Stored are 0.
const notHere = 0

// fetched returns an evicted object as a stored value. It prefers a copy in another volume.
func (v *sealed) fetched(rec keys.Record) ([]byte, error) {
	l, err := v.store.current()
	if err != nil {
		return nil, err
	}
	for other, at := range l.copies(rec.Key) {
		if at.File == notHere {
			continue
		}
		if data, err := other.read(at); err == nil {
			return frame.AppendRaw(nil, data), nil
		}
	}
	if v.store.Fetch == nil {
		return nil, fmt.Errorf("%s is only on a remote: %w", rec.Key, errors.ErrUnsupported)
	}
	data, err := v.store.Fetch(context.Background(), rec.Key)
	if err != nil {
		return nil, err
	}
	return frame.AppendRaw(nil, data), nil
}

// Evict replaces volumes by smaller ones without the chunks for which take returns true. Take
// gets the number of the volume. An evicted volume keeps the records of these chunks, so that
// the store still has them, and reads them with [Store.Fetch]. All these chunks must be on a
// remote. The volumes must not be in use.
//
// If one of the volumes is evicted already, Evict keeps only its records for which take
// returns true. The other objects are missing afterwards. If a volume has no chunk to
// evict, Evict rewrites it only if it is in merge, so that fewer volumes remain.
func (w *Sweep) Evict(ctx context.Context, volumes []int, merge map[int]bool, take func(int, object.Key) (bool, error)) error {
	taken := map[int]keys.Set{}
	var records []keys.Record
	var sources copier
	var rewrite []int
	for _, i := range volumes {
		e := w.volumes[i]
		taken[i] = keys.NewSet(e.o.index.Len())
		found := false
		for rec, err := range w.Keys(i, object.KindChunk) {
			taking := false
			if err == nil {
				err = ctx.Err()
			}
			if err == nil {
				taking, err = take(i, rec.Key)
			}
			if err != nil {
				return fmt.Errorf("evict chunks: %w", err)
			}
			if taking {
				taken[i].Add(rec.Index)
				records = append(records, keys.Record{Key: rec.Key, File: notHere, Raw: rec.Raw})
				found = true
			}
		}
		info := e.v.info.Load()
		sources.source(info)
		if found || info.Evicted || merge[i] {
			rewrite = append(rewrite, i)
		}
	}

	if len(rewrite) == 0 {
		return nil
	}
	if len(records) > 0 {
		if err := writeEvicted(w.store, records, sources.created); err != nil {
			return fmt.Errorf("evict chunks: %w", err)
		}
	}

	kept := slices.DeleteFunc(slices.Clone(rewrite), func(i int) bool { return w.volumes[i].v.info.Load().Evicted })
	keep := func(at Place) bool { return !taken[at.Volume].Has(at.Index) }
	if _, err := w.Rewrite(ctx, kept, keep, nil); err != nil {
		return err
	}
	return w.Remove(ctx, func(context.Context) (Removal, error) { return Removal{Volumes: rewrite}, nil })
}

// writeEvicted writes an evicted volume with records. A key may come more than once.
func writeEvicted(s *Store, records []keys.Record, created time.Time) error {
	w, err := s.newWriter("")
	if err != nil {
		return err
	}
	w.created, w.space = created, &space{}
	for _, rec := range records {
		if w.table.find(rec.Key) == nil {
			w.count(written{id: rec.Key.ID, kind: rec.Key.Kind, raw: rec.Raw})
			w.placed++
		}
	}
	if err := w.complete(nil, nil, w.table.sorted()); err != nil {
		w.abandon()
		return err
	}
	w.lock.Remove()
	_, err = s.refresh()
	return err
}

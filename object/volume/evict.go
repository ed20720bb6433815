package volume

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
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
	for _, other := range l.volumes {
		at, ok, err := other.find(rec.Key)
		if err != nil || !ok || at.File == notHere || other.isBad(rec.Key) {
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

// Evict replaces volumes by smaller ones without the chunks for which take returns true.
// It keeps the records of these chunks in an evicted volume, so that the store still has
// them, and reads them with [Store.Fetch]. All these chunks must be on
// a remote. The caller chooses no volume that is in use. Take gets the number of the volume.
//
// Of evicted volumes among the volumes, it keeps only the records for which take returns
// true. It forgets the others: these objects are missing afterwards. All evicted volumes,
// and all volumes in merge, become one.
func (w *Sweep) Evict(ctx context.Context, volumes []int, merge map[int]bool, take func(int, object.Key) (bool, error)) error {
	taken := map[int]keys.Set{}
	var records []keys.Record
	var created time.Time
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
		if info.Created.After(created) {
			created = info.Created
		}
		if found || info.Evicted || merge[i] {
			rewrite = append(rewrite, i)
		}
	}
	if len(rewrite) == 0 {
		return nil
	}
	if len(records) > 0 {
		if err := writeEvicted(w.store, records, created); err != nil {
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

// writeEvicted writes an evicted volume with records, which it sorts.
func writeEvicted(s *Store, records []keys.Record, created time.Time) error {
	slices.SortFunc(records, func(a, b keys.Record) int { return a.Key.Compare(b.Key) })
	records = slices.CompactFunc(records, func(a, b keys.Record) bool { return a.Key == b.Key })
	name, lock, err := s.lockNew()
	if err != nil {
		return err
	}
	defer lock.Remove()
	dir := s.inVolumes(tmpPrefix + name)
	if err := disk.Mkdir(dir, 0o777); err != nil {
		return err
	}
	if err := fillEvicted(dir, name, records, created); err != nil {
		return errors.Join(err, disk.RemoveAll(dir))
	}
	if err := renameNew(dir, s.inVolumes(name)); err != nil {
		return errors.Join(err, disk.RemoveAll(dir))
	}
	if err := disk.SyncDir(s.path); err != nil {
		return err
	}
	_, err = s.refresh()
	return err
}

// fillEvicted writes the files of an evicted volume, durably.
func fillEvicted(dir, name string, records []keys.Record, created time.Time) error {
	seal := &seal{Session: name, Created: created.UTC().Truncate(time.Second), Objects: uint64(len(records)), Manifest: []byte{}}
	err := writeFile(filepath.Join(dir, keysFile), func(f io.Writer) error {
		x := keys.NewWriter(f)
		for _, rec := range records {
			seal.Raw += uint64(rec.Raw)
			if err := x.Add(rec); err != nil {
				return err
			}
		}
		return x.Finish()
	})
	if err != nil {
		return err
	}
	sum, err := sumFile(filepath.Join(dir, keysFile))
	if err != nil {
		return err
	}
	seal.Files = []sealFile{sum}
	err = writeFile(filepath.Join(dir, sealName), func(f io.Writer) error {
		_, err := f.Write(seal.encode())
		return err
	})
	if err != nil {
		return err
	}
	return disk.SyncDir(dir)
}

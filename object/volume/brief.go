package volume

import (
	"context"
	"errors"
	"os"
	"sync/atomic"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/frame"
	"github.com/kist-vcs/kist/object/keys"
	"github.com/kist-vcs/kist/object/volume/ingest"
)

// GetBriefly implements [object.BriefReader]. The bytes are in storage that is reused.
func (s *Store) GetBriefly(ctx context.Context, key object.Key, use func(data []byte) error) error {
	var data []byte
	var storage *buffer
	err := s.searchKey(ctx, key, func(v *sealedVolume, rec keys.Record) (err error) {
		if rec.File == notHere {
			data, err = v.readAway(ctx, rec)
		} else {
			data, storage, err = v.readBriefly(rec)
		}
		return err
	})
	if errors.Is(err, object.ErrNotFound) && mayBeAway(s, key) {
		if data, err = fetchAway(ctx, s, key); err == nil {
			return use(data)
		}
	}
	if err != nil {
		return err
	}
	if storage != nil {
		defer storage.free()
	}
	return use(data)
}

// readBriefly reads the object at rec as readObject does. The caller frees storage after the use of
// data.
func (v *sealedVolume) readBriefly(rec keys.Record) (data []byte, storage *buffer, err error) {
	o, err := v.ensureOpen()
	if err != nil {
		return nil, nil, err
	}

	storage = takeBuffer(int(min(rec.Stored, ingest.MaxStored)))
	value, err := o.storedValueWith(rec, storage.b, v.store.readBefore.readerOf(rec.File, int64(rec.Offset), int(rec.Stored)))
	if err == nil {
		if _, raw := frame.Raw(value); !raw { // otherwise, the object is a part of the value
			defer storage.free()
			storage = takeBuffer(int(rec.Raw) + frame.DecodeSlack)
		}
		data, err = v.decodeValue(storage.b, rec, value, nil)
	}
	if err != nil {
		storage.free()
		return nil, nil, v.readError(rec, err)
	}
	return data, storage, nil
}

var _ object.BriefReader = (*Store)(nil)

// minReadOnce is the size of the smallest stored value that is read with readOnce.
// Neighbours of smaller values are usually read soon.
const minReadOnce = 64 << 10

// readBefore approximates the set of large values that were read briefly. A value that is read so
// again is in many files, so it is worth its place in the page cache.
type readBefore [1 << 14]atomic.Uint64

// noteRead adds the value at off in a log, and reports whether it was added before. It may
// confuse two values.
func (r *readBefore) noteRead(log uint32, off int64) bool {
	hash := (uint64(off) ^ uint64(log)<<40) * 0x9e3779b97f4a7c15
	word, bit := &r[hash>>50], uint64(1)<<(hash>>44&63)
	return word.Or(bit)&bit != 0
}

// readerOf returns the function that reads a value of n bytes.
func (r *readBefore) readerOf(log uint32, off int64, n int) readFunc {
	if n < minReadOnce || r.noteRead(log, off) {
		return (*os.File).ReadAt
	}
	return readOnce
}

package volume

import (
	"context"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/frame"
	"github.com/kist-vcs/kist/object/keys"
)

// Lend implements [object.Lender]. The bytes are in storage that is recycled.
func (s *Store) Lend(ctx context.Context, key object.Key, use func(data []byte) error) error {
	var l *loan
	err := s.search(ctx, func() {}, func(v *sealed) (bool, error) {
		rec, ok, err := v.find(key)
		if !ok || err != nil {
			return false, err
		}
		l, err = v.lend(rec)
		return err == nil, err
	})
	switch {
	case err != nil:
		return corrupt(key, err)
	case l == nil:
		return &object.NotFoundError{Key: key}
	}
	defer l.storage.free()
	return use(l.data)
}

// loan is an object that was read into recycled storage.
type loan struct {
	data    []byte
	storage *buffer // to be freed after use
}

// lend reads the object at rec as read does.
func (v *sealed) lend(rec keys.Record) (*loan, error) {
	o, err := v.opened()
	if err != nil {
		return nil, err
	}
	storage := takeBuffer(int(min(rec.Stored, maxStored)))
	value, err := o.storedValueWith(rec, storage.b, v.store.lendReader(rec.File, int64(rec.Offset), int(rec.Stored)))
	var data []byte
	if err == nil {
		if _, raw := frame.Raw(value); raw {
			data, err = decode(rec.Key, value, int(rec.Raw))
		} else {
			stored := storage
			storage = takeBuffer(int(rec.Raw) + frame.DecodeSlack)
			data, err = v.decodeTo(storage.b, rec.Key, value, int(rec.Raw))
			stored.free()
		}
	}
	if err != nil {
		storage.free()
		return nil, v.readError(rec, err)
	}
	return &loan{data, storage}, nil
}

var _ object.Lender = (*Store)(nil)

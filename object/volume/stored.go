package volume

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"sync"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/frame"
	"github.com/kist-vcs/kist/object/keys"
)

// GetStored returns the stored value of an object (package frame), and how many
// bytes the object has. It is verified, and found, as by [Store.Get]. It is no
// patch: what is stored as one is encoded anew. The value is in the storage of dst
// if that is large enough, and else in storage of its own.
func (s *Store) GetStored(ctx context.Context, key object.Key, dst []byte) (value []byte, raw int, err error) {
	err = s.search(ctx, func() {}, func(v *sealed) (bool, error) {
		rec, ok, err := v.find(key)
		if !ok || err != nil {
			return false, err
		}
		value, err = v.readStored(rec, dst)
		raw = int(rec.Raw)
		if _, patched := frame.Base(value); patched && err == nil {
			var data []byte
			if data, err = v.read(rec); err == nil {
				value = s.frame.Append(value[:0], data)
			}
		}
		return err == nil, err
	})
	switch {
	case err != nil:
		return nil, 0, corrupt(key, err)
	case value == nil:
		return nil, 0, &object.NotFoundError{Key: key}
	}
	return value, raw, nil
}

// HasWhole reports whether a volume has an object whole: it is read and hashed.
// Copies that are known to be damaged do not count, even if they can be read.
func (s *Store) HasWhole(ctx context.Context, key object.Key) bool {
	whole := false
	err := s.search(ctx, func() {}, func(v *sealed) (bool, error) {
		rec, ok, err := v.find(key)
		if !ok || err != nil || v.isBad(key) {
			return false, err
		}
		_, err = v.read(rec)
		whole = err == nil
		return whole, err
	})
	return whole && err == nil
}

// readStored returns the stored value of the object at rec, in buf if that is
// large enough, after it was verified. Errors are those of read.
func (v *sealed) readStored(rec keys.Record, buf []byte) ([]byte, error) {
	return v.readStoredWith(rec, buf, &baseReader{left: maxBases})
}

// readAlone is readStored for an object that is to stay readable when all other
// volumes go.
func (v *sealed) readAlone(rec keys.Record, buf []byte) ([]byte, error) {
	return v.readStoredWith(rec, buf, &baseReader{left: maxBases, alone: true})
}

func (v *sealed) readStoredWith(rec keys.Record, buf []byte, r *baseReader) ([]byte, error) {
	o, err := v.opened()
	if err != nil {
		return nil, err
	}
	value, err := o.storedValue(rec, buf)
	if err == nil {
		err = v.verify(rec.Key, value, int(rec.Raw), r)
	}
	if err != nil {
		return nil, v.readError(rec, err)
	}
	return value, nil
}

// PutStored puts an object of raw bytes by its stored value, as [Store.GetStored]
// or another store gave it. If the object is not there yet, the value is decoded
// and hashed, and [object.Check] looks at a node; one that is not what key says
// is an [*object.CorruptError], after which the session can go on; so is a patch.
// Value is then stored as it is. PutStored does not keep or change it. A dry run does
// not look at it.
func (s *Session) PutStored(ctx context.Context, key object.Key, value []byte, raw int) error {
	return s.PutAndLend(ctx, key, value, raw, nil)
}

// PutAndLend is PutStored, and calls use with the object's bytes, verified, if
// it was not there yet. Use must not keep or change them; nil: no one is told.
func (s *Session) PutAndLend(ctx context.Context, key object.Key, value []byte, raw int, use func(data []byte)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := checkSize(key.Kind, raw); err != nil {
		return err
	}
	return s.put(ctx, key, raw, func() (*buffer, error) {
		err := verify(key, value, raw, func(data []byte) error {
			err := object.Check(key.Kind, data)
			if err == nil && use != nil {
				use(data)
			}
			return err
		})
		if err != nil {
			return nil, &object.CorruptError{Key: key, Err: err}
		}
		return copyValue(value), nil
	})
}

// copyValue returns a copy of a stored value for a writer.
func copyValue(value []byte) *buffer {
	b := takeBuffer(len(value) + minValue)
	b.b = append(b.b, value...)
	return b
}

// decode returns the object of key that value holds, which is no patch, verified.
// The result may be part of value.
func decode(key object.Key, value []byte, raw int) ([]byte, error) {
	return decodeTo(nil, key, value, raw)
}

// decodeTo is decode into the storage of dst, if that is large enough.
func decodeTo(dst []byte, key object.Key, value []byte, raw int) ([]byte, error) {
	data, ok := frame.Raw(value)
	if !ok {
		if cap(dst) < raw+frame.DecodeSlack {
			dst = make([]byte, 0, raw+frame.DecodeSlack)
		}
		var err error
		if data, err = frame.Decode(dst[:0], value, raw); err != nil {
			return nil, err
		}
	} else if len(data) != raw {
		return nil, fmt.Errorf("%d bytes, want %d", len(data), raw)
	}
	if object.Sum(data) != key.ID {
		return nil, errHash
	}
	return data, nil
}

var errHash = errors.New("the bytes do not have this hash")

// verify checks that value is a stored value of the object of key, and no patch.
// The object has raw bytes, at most those of the largest. Unless it is nil, check then
// looks at these; it must not keep them.
func verify(key object.Key, value []byte, raw int, check func(data []byte) error) error {
	if len(value) > raw+frame.MaxOverhead {
		return fmt.Errorf("%d bytes stored as %d", raw, len(value))
	}
	size := 0
	if _, ok := frame.Raw(value); !ok {
		size = raw + frame.DecodeSlack
	}
	dst := takeBuffer(size)
	defer dst.free()
	data, err := decodeTo(dst.b, key, value, raw)
	if err == nil && check != nil {
		err = check(data)
	}
	return err
}

// Buffers for stored values are recycled by size, so that many small values
// do not hold large buffers.
const (
	minBufferBits = 10
	maxBufferBits = 25
)

var buffers [maxBufferBits + 1]sync.Pool

// buffer is a byte slice that is given back with free.
type buffer struct {
	b     []byte
	class int
}

// takeBuffer returns an empty buffer with room for at least n bytes.
func takeBuffer(n int) *buffer {
	class := max(minBufferBits, bits.Len(uint(max(n, 1)-1)))
	if class > maxBufferBits {
		return &buffer{b: make([]byte, 0, n), class: class}
	}
	if b, ok := buffers[class].Get().(*buffer); ok {
		return b
	}
	return &buffer{b: make([]byte, 0, 1<<class), class: class}
}

// free gives the buffer back. It must not be used any more.
func (b *buffer) free() {
	if b.class <= maxBufferBits && cap(b.b) == 1<<b.class {
		b.b = b.b[:0]
		buffers[b.class].Put(b)
	}
}

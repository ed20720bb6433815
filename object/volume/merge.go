package volume

import (
	"context"
	"errors"
	"fmt"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/keys"
)

// merge copies all objects of volumes into a new one, reads that back, and
// removes them. A volume with an object that cannot be read, here or
// elsewhere, stays. It returns how many were removed. The maintenance lock is
// held.
func (s *Store) merge(ctx context.Context, volumes []*sealed) (int, error) {
	w, err := s.newWriter("")
	if err != nil {
		return 0, err
	}
	sealed := false
	defer func() {
		if !sealed {
			w.abandon()
		}
	}()
	copied := volumes[:0:0]
	w.optimised = true
	for _, v := range volumes {
		info, err := v.describe()
		if err == nil && info.Created.After(w.created) {
			w.created = info.Created
		}
		w.optimised = w.optimised && err == nil && info.Optimised
		if err := s.copyVolume(ctx, w, v); err == nil {
			copied = append(copied, v)
		} else if _, ok := err.(*copyError); ok {
			s.warn("not merged: %v", err)
			v.keep.Store(true)
		} else {
			return 0, err
		}
	}
	if len(copied) < 2 {
		return 0, nil
	}
	if err := w.seal(); err != nil {
		return 0, err
	}
	sealed = true
	l, err := s.refresh()
	if err != nil {
		return 0, err
	}
	if err := verifyCopy(ctx, l.byName[w.name], copied); err != nil {
		return 0, fmt.Errorf("read back what was merged: %w", err)
	}
	return len(copied), s.remove(ctx, copied)
}

// copyError says that a volume cannot be copied because of what it is, not
// because of where to.
type copyError struct{ err error }

func (e *copyError) Error() string { return e.err.Error() }

// copyVolume adds all objects of v to w that it does not have yet.
func (s *Store) copyVolume(ctx context.Context, w *writer, v *sealed) error {
	o, err := v.opened()
	if err != nil {
		return &copyError{err}
	}
	for rec, err := range o.index.All() {
		if err != nil {
			return &copyError{v.indexError(err)}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := s.copyObject(ctx, w, v, o, rec, 0); err != nil {
			return err
		}
	}
	return nil
}

// copyObject adds the object at rec of v to w, unless that has it, after what it
// is a patch of. Above patches hang on it.
func (s *Store) copyObject(ctx context.Context, w *writer, v *sealed, o *openVolume, rec keys.Record, above int) error {
	if w.has(rec.Key) || v.isDropped(rec.Key) {
		return nil
	}
	var failed error // of what is below
	b, err := s.carry(ctx, v, o, rec, func(base object.Key) (bool, error) {
		at, ok, err := o.index.Find(base)
		if ok && err == nil && above < maxChain {
			failed = s.copyObject(ctx, w, v, o, at, above+1)
		}
		return w.takesPatch(base), errors.Join(err, failed)
	})
	switch {
	case failed != nil:
		return failed
	case err != nil:
		return &copyError{err}
	case w.has(rec.Key): // patches of each other
		b.free()
		return nil
	}
	return w.add(rec.Key, b, int(rec.Raw))
}

// verified returns the stored value of an object, after it was hashed; if it
// is damaged in v, that of another volume.
func (s *Store) verified(ctx context.Context, v *sealed, o *openVolume, rec keys.Record) (*buffer, error) {
	b := takeBuffer(int(min(rec.Stored, maxStored)) + minValue)
	value, err := o.storedValue(rec, b.b)
	if err == nil {
		err = v.verify(rec.Key, value, int(rec.Raw), &baseReader{left: maxBases})
	}
	if err == nil {
		b.b = value
		return b, nil
	}
	b.free()
	v.setBad(rec.Key)
	data, gerr := s.Get(ctx, rec.Key)
	if gerr != nil {
		return nil, v.damaged(rec, err)
	}
	return s.encoded(data), nil
}

// verifyCopy reads and hashes every object of copy, and checks that it has all
// that the volumes have.
func verifyCopy(ctx context.Context, copy *sealed, volumes []*sealed) error {
	if err := readBack(ctx, copy); err != nil {
		return err
	}
	for _, v := range volumes {
		o, err := v.opened()
		if err != nil {
			return err
		}
		for rec, err := range o.index.All() {
			if err != nil {
				return err
			}
			if v.isDropped(rec.Key) {
				continue
			}
			if _, ok, err := copy.find(rec.Key); err != nil {
				return err
			} else if !ok {
				return &object.NotFoundError{Key: rec.Key}
			}
		}
	}
	return nil
}

// readBack reads and hashes every object of a volume, without any other volume.
func readBack(ctx context.Context, v *sealed) error {
	c := &volumeCheck{checker: &checker{o: CheckOptions{ReadData: true}, alone: true}, v: v}
	if err := c.run(ctx); err != nil || len(c.found) == 0 {
		return err
	}
	return c.found[0]
}

var errNotListed = errors.New("is not there any more")

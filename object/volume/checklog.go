package volume

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/frame"
	"github.com/kist-vcs/kist/object/keys"
)

// log checks a value log: its size, its structure, and its values. Its entries must be
// those of records, which are sorted by offset. Want is nil if the seal does not list the
// log. Sealed is true if there is a seal.
func (c *volumeCheck) log(ctx context.Context, number uint32, want *sealFile, sealed bool, records []keys.Record) error {
	name := logName(number)
	f, err := openFile(c.dir, name)
	var st os.FileInfo
	if err == nil {
		defer f.Close()
		st, err = f.Stat()
	}
	if err == nil && want != nil && st.Size() != want.Size {
		c.problem(name, object.Key{}, fmt.Errorf("%d bytes, want %d", st.Size(), want.Size))
	}
	if sealed && want == nil {
		c.problem(name, object.Key{}, errors.New("not in the seal"))
	}
	if err != nil {
		c.problem(name, object.Key{}, err)
		for _, rec := range records {
			c.problem(name, rec.Key, err)
		}
		return ctx.Err()
	}
	walk := newLogWalker(f, st.Size(), logHeaderSize)
	walk.hash = sha256.New()
	bad := walk.start()
	for i, rec := range records {
		if i%256 == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
			c.progress(0, min(256, len(records)-i), 0)
		}
		c.object(f, walk, name, rec)
	}
	switch {
	case bad != nil:
		c.problem(name, object.Key{}, bad)
	case walk.pos != walk.size:
		c.problem(name, object.Key{}, fmt.Errorf("%d bytes after the last object", walk.size-walk.pos))
	case want != nil && [sha256.Size]byte(walk.hash.Sum(nil)) != want.Sum:
		c.problem(name, object.Key{}, errSum)
	}
	return nil
}

// object checks the next entry of a value log, which must be that of rec, and its value.
func (c *volumeCheck) object(f *os.File, walk *logWalker, name string, rec keys.Record) {
	e, err := walk.next()
	if err == nil && (e.key != rec.Key || e.value != int64(rec.Offset) || e.stored() != int(rec.Stored)) {
		err = errEntry
	}
	if err != nil {
		// The index has the offset of the next entry.
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		c.problem(name, rec.Key, fmt.Errorf("entry at %d: %w", walk.pos, err))
		e = recordEntry(rec)
		walk.pos = min(max(e.end(), logHeaderSize), walk.size)
	}
	if c.o.ReadData && (c.o.Subset == nil || c.o.Subset(c.base+rec.Index, c.total)) || err == nil && c.v.isBad(rec.Key) {
		switch verr := c.value(f, e, rec); {
		case err != nil:
		case verr != nil:
			c.problem(name, rec.Key, fmt.Errorf("value at %d: %w", rec.Offset, verr))
		default:
			c.v.clearBad(rec.Key)
		}
	}
}

// structure checks a value log whose objects are unknown.
func (c *volumeCheck) structure(ctx context.Context, want *sealFile) error {
	f, err := openFile(c.dir, want.Name)
	if err != nil {
		c.problem(want.Name, object.Key{}, err)
		return ctx.Err()
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		c.problem(want.Name, object.Key{}, err)
		return ctx.Err()
	}
	walk := newLogWalker(f, st.Size(), logHeaderSize)
	walk.hash = sha256.New()
	for err = walk.start(); err == nil && ctx.Err() == nil; {
		_, err = walk.next()
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != io.EOF:
		c.problem(want.Name, object.Key{}, fmt.Errorf("entry at %d: %w", walk.pos, err))
	case st.Size() != want.Size:
		c.problem(want.Name, object.Key{}, fmt.Errorf("%d bytes, want %d", st.Size(), want.Size))
	case [sha256.Size]byte(walk.hash.Sum(nil)) != want.Sum:
		c.problem(want.Name, object.Key{}, errSum)
	}
	return nil
}

// recordEntry returns the entry that a record requires.
func recordEntry(rec keys.Record) logEntry {
	e := logEntry{key: rec.Key, value: int64(rec.Offset), pad: padding(int(rec.Stored))}
	e.padded = int(rec.Stored) + e.pad
	e.start = e.end() - entrySize(e.padded)
	return e
}

// value reads and verifies the value of an entry.
func (c *volumeCheck) value(f *os.File, e logEntry, rec keys.Record) error {
	if e.start < logHeaderSize || e.padded > maxStored || rec.Raw > object.MaxChunkSize {
		return errors.New("the index gives an impossible place")
	}
	var value []byte
	var err error
	if value, c.buf, err = readEntry(f, e, c.buf); err == nil {
		err = c.v.verify(rec.Key, value, int(rec.Raw), &baseReader{left: maxBases, alone: c.alone})
	}
	if err == nil {
		err = c.selfContained(rec.Key, value)
	}
	c.progress(0, 0, e.end()-e.start)
	return err
}

// selfContained checks that the volume has the base of a patch. The caller has read the
// patch, perhaps with a base from another volume.
func (c *volumeCheck) selfContained(key object.Key, value []byte) error {
	id, patched := frame.Base(value)
	if !patched {
		return nil
	}
	o, err := c.v.opened()
	if err != nil {
		return err
	}
	key.ID = id
	if _, ok, err := o.index.Find(key); err != nil || !ok {
		return baseError(key, cmp.Or(err, errNoBase))
	}
	return nil
}

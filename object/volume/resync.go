package volume

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"os"
	"slices"

	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/object/frame"
	"github.com/kist-vcs/kist/object/keys"
)

// unreadable is how much of a file is passed over where it cannot be read.
const unreadable = 4096

// openLogs returns v with an index of what is whole in its value logs, whatever
// has become of the index it has. Patches are in it if their bytes are whole. It
// is not kept anywhere; close it. It takes 130 bytes for each object.
func (v *sealed) openLogs(ctx context.Context) (*sealed, error) {
	dir, err := disk.OpenRoot(v.path)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	index, err := indexLogs(ctx, dir, v.path)
	if err != nil {
		return nil, err
	}
	found := &sealed{name: v.name, path: v.path, store: v.store}
	found.open.Store(found.newOpen(index))
	return found, nil
}

// indexLogs makes an index of what is whole in the value logs of the folder at
// path. Of several copies of an object, those that are no patches come first.
func indexLogs(ctx context.Context, dir *os.Root, path string) (*keys.Reader, error) {
	entries, err := disk.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var whole, patches []keys.Record
	for _, e := range entries {
		number, ok := logNumber(e.Name())
		if !ok {
			continue
		}
		err := wholeObjects(dir, e.Name(), func(e logEntry, value []byte, raw int) error {
			rec := keys.Record{Key: e.key, File: number, Offset: uint32(e.value), Stored: uint32(len(value)), Raw: uint32(raw)}
			if _, patched := frame.Base(value); patched {
				patches = append(patches, rec)
			} else {
				whole = append(whole, rec)
			}
			return ctx.Err()
		})
		if err != nil {
			return nil, err
		}
	}
	records := append(whole, patches...)
	slices.SortStableFunc(records, func(a, b keys.Record) int { return a.Key.Compare(b.Key) })
	records = slices.CompactFunc(records, func(a, b keys.Record) bool { return a.Key == b.Key })
	var index bytes.Buffer
	x := keys.NewWriter(&index)
	for _, rec := range records {
		if err := x.Add(rec); err != nil {
			return nil, err
		}
	}
	if err := x.Finish(); err != nil {
		return nil, err
	}
	return keys.Open(bytes.NewReader(index.Bytes()), int64(index.Len()))
}

// wholeObjects calls each for every object in a value log that is whole,
// whatever has become of the rest of the file: after damage, it looks for the
// next entry. Of a patch, it was not seen what it is made from. The value is
// each's only until it returns. An error is each's, or says nothing about the
// disk.
func wholeObjects(dir *os.Root, name string, each func(e logEntry, value []byte, raw int) error) error {
	f, err := openFile(dir, name)
	if err != nil {
		return trouble(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	walk := newLogWalker(f, min(st.Size(), math.MaxUint32), logHeaderSize)
	for buf := []byte(nil); ; {
		start := walk.pos
		e, err := walk.next()
		if err == io.EOF {
			return nil
		}
		var value []byte
		var raw int
		if err == nil {
			value, buf, err = readEntry(f, e, buf)
		}
		if err == nil {
			raw, err = frame.Size(value)
		}
		if _, patched := frame.Base(value); err == nil && !patched {
			err = verify(e.key, value, raw, nil)
		}
		if err != nil {
			walk.resync(start)
			continue
		}
		if checkSize(e.key.Kind, raw) != nil {
			continue // it never was an object
		}
		if err := each(e, value, raw); err != nil {
			return err
		}
	}
}

// resync goes to the next place after pos where an entry may begin, or to the
// end.
func (w *logWalker) resync(pos int64) {
	w.last = 0 // read ahead
	for pos++; pos < w.size; pos++ {
		b, err := w.bytes(pos, maxEntryHeader+logKeySize)
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			pos |= unreadable - 1
			continue
		}
		if err != nil {
			break // it became shorter
		}
		if e, err := parseEntry(b, pos); err == nil && e.end() <= w.size {
			w.pos = pos
			return
		}
	}
	w.pos = w.size
}

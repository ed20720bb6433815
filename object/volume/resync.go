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

// unreadable is the number of bytes that resync skips after a failed read.
const unreadable = 4096

// openLogs returns v with an index of the intact objects in its value logs, without use of
// KEYS. Patches are in it if their bytes are intact. The caller closes it. It takes 130
// bytes of memory for each object.
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

// indexLogs returns an index of the intact objects in the value logs at path. Of several
// copies of an object, it takes one that is no patch, if there is one.
func indexLogs(ctx context.Context, dir *os.Root, path string) (*keys.Reader, error) {
	entries, err := disk.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var complete, patches []keys.Record
	for _, e := range entries {
		number, ok := logNumber(e.Name())
		if !ok {
			continue
		}
		err := intactObjects(dir, e.Name(), func(e logEntry, value []byte, raw int) error {
			rec := keys.Record{Key: e.key, File: number, Offset: uint32(e.value), Stored: uint32(len(value)), Raw: uint32(raw)}
			if _, patched := frame.Base(value); patched {
				patches = append(patches, rec)
			} else {
				complete = append(complete, rec)
			}
			return ctx.Err()
		})
		if err != nil {
			return nil, err
		}
	}
	records := append(complete, patches...)
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

// intactObjects calls each for every intact object in a value log. After damage, it looks
// for the next entry. It does not read the bases of patches. The value is valid until each
// returns. The error is that of each, or does not concern the data on disk.
func intactObjects(dir *os.Root, name string, each func(e logEntry, value []byte, raw int) error) error {
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

// resync goes to the next offset after pos at which an entry may begin, or to the end.
func (w *logWalker) resync(pos int64) {
	w.last = 0 // read ahead
	for pos++; pos < w.size; pos++ {
		b, err := w.bytes(pos, maxEntryHeader+logKeySize)
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			pos |= unreadable - 1
			continue
		}
		if err != nil {
			break // the file became shorter
		}
		if e, err := parseEntry(b, pos); err == nil && e.end() <= w.size {
			w.pos = pos
			return
		}
	}
	w.pos = w.size
}

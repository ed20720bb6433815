package transfer

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/pack"
)

// copyAtOnce is how many entries are held in memory, about 70 bytes each.
const copyAtOnce = 1 << 20

// copies are packs that a collection has made, of what is needed of others.
type copies struct {
	packs   []pack.Info
	objects int
	indexes []*spool // of what is in them
}

func (c *copies) close() {
	for _, x := range c.indexes {
		x.close()
	}
}

// copy copies what is needed of packs that are to be repacked into new ones. As
// all that a writer uploads they are begun at the head that is known (S0), and
// are of use only as long as they are neither condemned nor begun before the
// floor (GCQ_NOCHECK).
func (c *Collection) copy(ctx context.Context) error {
	c.own = &copies{}
	var todo []*usage
	objects, bytes := int64(0), int64(0)
	for _, u := range c.packs {
		if u.repack {
			todo = append(todo, u)
			objects += int64(u.reached)
			bytes += u.stored
		}
	}
	c.meter.update(func(at *Progress) { *at = Progress{Phase: PhaseCopy, TotalObjects: objects, TotalBytes: bytes} })
	for len(todo) > 0 {
		n, count := 0, 0
		for n < len(todo) && (n == 0 || count+todo[n].reached <= copyAtOnce) {
			count += todo[n].reached
			n++
		}
		if err := c.copyPacks(ctx, todo[:n]); err != nil {
			return err
		}
		todo = todo[n:]
	}
	for _, u := range c.packs {
		if u.repack {
			u.copied = u.reached
		}
	}
	return nil
}

// copyPacks copies what is needed of some packs.
func (c *Collection) copyPacks(ctx context.Context, packs []*usage) error {
	from := make(map[pack.Name]bool, len(packs))
	for _, u := range packs {
		from[u.Name] = true
	}
	var entries []pack.Entry
	for p, err := range c.snap.entries() {
		if err != nil {
			return err
		}
		if from[p.Pack.Name] && c.marker.get(p).reached {
			entries = append(entries, p.Entry)
			c.marker.put(p, inlineMark{reached: true, copied: true})
		}
	}
	slices.SortFunc(entries, func(a, b pack.Entry) int {
		if node := a.Key.Kind.IsNode(); node != b.Key.Kind.IsNode() { // nodes apart from chunks
			if node {
				return -1
			}
			return 1
		}
		return cmp.Or(a.Pack.Name.Compare(b.Pack.Name), cmp.Compare(a.Offset, b.Offset))
	})
	w := &copyWriter{c: c}
	if err := w.write(ctx, entries); err != nil {
		return err
	}
	index, err := c.r.spool(func(out io.Writer) error { return pack.WriteIndex(out, w.entries) })
	if err != nil {
		return err
	}
	c.own.indexes = append(c.own.indexes, index)
	c.own.objects += len(w.entries)
	return nil
}

// copyWriter copies objects into new packs.
type copyWriter struct {
	c *Collection

	mu      sync.Mutex // guards entries and the collection's copies
	entries []pack.Entry
}

// write copies what is at entries, several packs at once.
func (w *copyWriter) write(ctx context.Context, entries []pack.Entry) error {
	batches := batchesOf(entries)
	todo := make(chan []pack.Entry, len(batches))
	largest := 0
	for _, b := range batches {
		todo <- b
		size := remote.HeaderSize + 4<<10
		for _, e := range b {
			size += int(e.Stored) + indexRoom
		}
		largest = max(largest, size)
	}
	close(todo)
	group, ctx := errgroup.WithContext(ctx)
	for range min(DefaultPushJobs, len(batches)) {
		group.Go(func() error {
			out := pack.NewWriter(make([]byte, 0, largest))
			var buf []byte
			for batch := range todo {
				var err error
				if buf, err = w.writeBatch(ctx, out, batch, buf); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// batchesOf returns what is to go into each pack, nodes apart from chunks.
func batchesOf(entries []pack.Entry) (batches [][]pack.Entry) {
	start, size := 0, 0
	for i, e := range entries {
		if i > start && (size >= pack.TargetSize || e.Key.Kind.IsNode() != entries[start].Key.Kind.IsNode()) {
			batches = append(batches, entries[start:i])
			start, size = i, 0
		}
		size += int(e.Stored) + indexRoom
	}
	if start < len(entries) {
		batches = append(batches, entries[start:])
	}
	return batches
}

// writeBatch copies objects into one pack, unless they are too many. It returns
// buf, a buffer.
func (w *copyWriter) writeBatch(ctx context.Context, out *pack.Writer, batch []pack.Entry, buf []byte) ([]byte, error) {
	c := w.c
	out.Reset()
	for len(batch) > 0 {
		n, size := neighbours(batch)
		buf = slices.Grow(buf[:0], size)[:size]
		first := batch[0]
		got, err := c.r.b.Get(ctx, first.Pack.Name.Path(), buf, int64(first.Offset))
		if err != nil && (c.mend == nil || !isBad(err)) {
			return nil, fmt.Errorf("copy from pack %s: %w", first.Pack.Name, err)
		}
		for _, e := range batch[:n] {
			at := int(e.Offset - first.Offset)
			value := buf[min(at, got):min(at+int(e.Stored), got)]
			if _, err := pack.Decode(e, value); err != nil {
				if value, err = w.again(ctx, e); err != nil {
					return nil, err
				}
			}
			if out.Full(len(value)) {
				if err := w.put(ctx, out); err != nil {
					return nil, err
				}
				out.Reset()
			}
			if err := out.Add(e.Key, value, int(e.Raw)); err != nil {
				return nil, err
			}
		}
		batch = batch[n:]
	}
	return buf, w.put(ctx, out)
}

// neighbours returns how many of entries, which are sorted, are read at once,
// and how many bytes that are.
func neighbours(entries []pack.Entry) (n, size int) {
	first := entries[0]
	for n < len(entries) {
		e := entries[n]
		end := int(e.Offset-first.Offset) + int(e.Stored)
		if n > 0 && (e.Pack.Name != first.Pack.Name || end-size-int(e.Stored) > maxGap || end > maxRead) {
			break
		}
		size = max(size, end)
		n++
	}
	return n, size
}

// again reads a value that was damaged once more.
func (w *copyWriter) again(ctx context.Context, e pack.Entry) ([]byte, error) {
	value := make([]byte, e.Stored)
	n, err := w.c.r.b.Get(ctx, e.Pack.Name.Path(), value, int64(e.Offset))
	if err == nil {
		_, err = pack.Decode(e, value[:n])
	}
	if err != nil && isBad(err) && w.c.mend != nil {
		return w.c.mend.value(ctx, w.c.snap, e)
	}
	if errors.Is(err, object.ErrCorrupt) || errors.Is(err, remote.ErrDamaged) {
		err = &NeededError{Err: err}
	}
	return value, err
}

// put sends a pack.
func (w *copyWriter) put(ctx context.Context, out *pack.Writer) error {
	var entries []pack.Entry
	_, err := w.c.r.putBlob(ctx, pack.Name.Path, func(name pack.Name) (io.ReaderAt, int64, error) {
		body, list, err := out.Finish(name)
		entries = list
		return bytes.NewReader(body), int64(len(body)), err
	})
	if err != nil {
		return fmt.Errorf("send a pack: %w", err)
	}
	stored := int64(0)
	for _, e := range entries {
		stored += int64(e.Stored)
	}
	w.mu.Lock()
	w.entries = append(w.entries, entries...)
	w.c.own.packs = append(w.c.own.packs, entries[0].Pack)
	w.c.made[entries[0].Pack.Name.Path()] = int64(entries[0].Pack.Size)
	w.c.stats.After += int64(entries[0].Pack.Size)
	w.mu.Unlock()
	w.c.meter.update(func(at *Progress) {
		at.Objects += int64(len(entries))
		at.Bytes += stored
	})
	return nil
}

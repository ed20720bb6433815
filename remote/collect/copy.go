package collect

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"sync"

	"github.com/kist-vcs/kist/remote/pack"
	"github.com/kist-vcs/kist/remote/rootlog"
	"github.com/kist-vcs/kist/remote/transfer"
)

// copyAtOnce is how many entries are held in memory, about 70 bytes each.
const copyAtOnce = 1 << 20

// copies are the packs that a collection has made from others.
type copies struct {
	packs   []pack.Info
	inline  []rootlog.Inline // the packs with their entries, unless these are more than [transfer.MaxInlineEntries]
	objects int
	patches int64                  // of the objects
	repack  map[pack.Name]bool     // packs that were stored as small as possible
	indexes []*transfer.BuiltIndex // the entries of the packs
}

func (c *copies) close() {
	for _, x := range c.indexes {
		x.Close()
	}
}

// copyChosen copies the reachable objects of the chosen packs into new ones. Like all that a
// writer uploads, the new packs are begun at the last known head (S0). They are useful
// only while they are not marked for deletion, and not begun before the floor
// (CHECK_REPACKED).
func (c *Collection) copyChosen(ctx context.Context) error {
	c.own = &copies{repack: map[pack.Name]bool{}}
	var todo, plain, optimised []*usage
	objects, bytes := int64(0), int64(0)
	for _, u := range c.packs {
		if u.rewrite {
			todo = append(todo, u)
			objects += int64(u.reached)
			bytes += u.stored
		}
	}

	c.meter.Update(func(at *transfer.Progress) {
		*at = transfer.Progress{Phase: transfer.PhaseCopy, TotalObjects: objects, TotalBytes: bytes}
	})
	if err := c.readHeaders(ctx, todo); err != nil {
		return err
	}

	for _, u := range todo {
		if u.repack || c.repacked[u.Name] {
			optimised = append(optimised, u)
		} else {
			plain = append(plain, u)
		}
		c.own.repack[u.Name] = u.repack
	}

	err := splitParts(plain, copyAtOnce, math.MaxInt64, func(some []*usage) error { return c.copyPacks(ctx, some) })
	if err == nil {
		err = c.copyOptimised(ctx, optimised)
	}
	if err != nil {
		return err
	}

	for _, u := range todo {
		u.copied = u.reached
	}
	return nil
}

// splitParts calls each for parts of the packs. A part has at most so many reachable
// objects, and so many bytes, or is a single pack.
func splitParts(packs []*usage, objects int, bytes int64, each func([]*usage) error) error {
	for len(packs) > 0 {
		n, count, size := 0, 0, int64(0)
		for n < len(packs) {
			count += packs[n].reached
			size += int64(packs[n].Size)
			if n > 0 && (count > objects || size > bytes) {
				break
			}
			n++
		}
		if err := each(packs[:n]); err != nil {
			return err
		}
		packs = packs[n:]
	}
	return nil
}

// copyPacks copies the reachable objects of some packs.
func (c *Collection) copyPacks(ctx context.Context, packs []*usage) error {
	entries, err := c.takeReached(packs)
	if err != nil {
		return err
	}
	w := &copyWriter{c: c}
	if err := w.writeEntries(ctx, entries); err != nil {
		return err
	}
	return w.buildIndex()
}

// takeReached returns the entries of the reachable objects of packs, in stored order, nodes apart
// from chunks. It notes that they were copied.
func (c *Collection) takeReached(packs []*usage) ([]pack.Entry, error) {
	from := make(map[pack.Name]bool, len(packs))
	for _, u := range packs {
		from[u.Name] = true
	}
	var entries []pack.Entry
	for p, err := range c.snap.Entries() {
		if err != nil {
			return nil, err
		}
		if from[p.Pack.Name] && c.marker.reached.has(p) {
			entries = append(entries, p.Entry)
			c.marker.copied.add(p)
		}
	}
	slices.SortFunc(entries, comparePlaces)
	return entries, nil
}

// comparePlaces compares the places of objects: nodes come before chunks, then by pack and
// offset.
func comparePlaces(a, b pack.Entry) int {
	if node := a.Key.Kind.IsNode(); node != b.Key.Kind.IsNode() {
		if node {
			return -1
		}
		return 1
	}
	return cmp.Or(a.Pack.Name.Compare(b.Pack.Name), cmp.Compare(a.Offset, b.Offset))
}

// copyWriter copies objects into new packs.
type copyWriter struct {
	c *Collection

	mu      sync.Mutex // guards entries and the collection's copies
	entries []pack.Entry
}

// buildIndex makes the index of the new packs.
func (w *copyWriter) buildIndex() error {
	index, err := w.c.r.Indexes().Build(func(out io.Writer) error { return pack.WriteIndex(out, w.entries) })
	if err != nil {
		return err
	}
	w.c.own.indexes = append(w.c.own.indexes, index)
	return nil
}

// writeEntries copies the objects of sorted entries, several packs at once, nodes apart from
// chunks.
func (w *copyWriter) writeEntries(ctx context.Context, entries []pack.Entry) error {
	chunks := slices.IndexFunc(entries, func(e pack.Entry) bool { return !e.Key.Kind.IsNode() })
	if chunks < 0 {
		chunks = len(entries)
	}
	room := func(e pack.Entry) int { return int(e.Stored) + transfer.EntryRoom }
	batches := append(transfer.CutBatches(entries[:chunks], pack.TargetSize, room), transfer.CutBatches(entries[chunks:], pack.TargetSize, room)...)
	return transfer.WritePacks(ctx, transfer.DefaultPushJobs, batches, room, w.writeBatch)
}

// writeBatch copies objects, into one pack unless they are too many.
func (w *copyWriter) writeBatch(ctx context.Context, out *transfer.Packer, batch []pack.Entry) error {
	for len(batch) > 0 {
		n, size := neighbours(batch)
		out.Buf = slices.Grow(out.Buf[:0], size)[:size]
		got, err := w.readNeighbours(ctx, batch[:n], out.Buf)
		if err != nil && (w.c.mend == nil || !transfer.IsBadCopy(err)) {
			return fmt.Errorf("copy from pack %s: %w", batch[0].Pack.Name, err)
		}
		for _, e := range batch[:n] {
			at := int(e.Offset - batch[0].Offset)
			value := out.Buf[min(at, got):min(at+int(e.Stored), got)]
			if _, err := pack.Decode(e, value); err != nil {
				if value, err = w.rereadValue(ctx, e); err != nil {
					return err
				}
			}
			if out.Full(len(value)) {
				if err := w.putPack(ctx, out.Writer); err != nil {
					return err
				}
				out.Reset()
			}
			if err := out.Add(e.Key, value, int(e.Raw)); err != nil {
				return err
			}
			w.reportCopied(int(e.Stored))
		}
		batch = batch[n:]
	}
	return w.putPack(ctx, out.Writer)
}

// readNeighbours reads the part of a pack with the values of neighbours, from the copy of the pack
// if there is one.
func (w *copyWriter) readNeighbours(ctx context.Context, batch []pack.Entry, buf []byte) (int, error) {
	first := batch[0]
	if copies := w.c.marker.nodes; copies.IsPackOpened(first) {
		if n, err := copies.ReadPart(ctx, first.Pack, buf, int64(first.Offset)); err == nil {
			return n, nil
		}
	}
	return w.c.r.ReadPack(ctx, first.Pack, buf, int64(first.Offset))
}

// neighbours returns how many of the sorted entries to read at once, and the number of
// bytes.
func neighbours(entries []pack.Entry) (n, size int) {
	first := entries[0]
	for n < len(entries) {
		e := entries[n]
		end := int(e.Offset-first.Offset) + int(e.Stored)
		if n > 0 && (e.Pack.Name != first.Pack.Name || end-size-int(e.Stored) > transfer.MaxGap || end > transfer.MaxRead) {
			break
		}
		size = max(size, end)
		n++
	}
	return n, size
}

// rereadValue reads a damaged value once more. In a repair, it may come from another source.
func (w *copyWriter) rereadValue(ctx context.Context, e pack.Entry) ([]byte, error) {
	value, err := w.c.snap.ReadPlain(ctx, e)
	if transfer.IsBadCopy(err) && w.c.mend != nil {
		return w.c.mend.findValue(ctx, w.c.snap, e)
	}
	return value, asNeeded(err)
}

// putPack sends a pack.
func (w *copyWriter) putPack(ctx context.Context, out *pack.Writer) error {
	entries, err := w.c.r.PutPack(ctx, out)
	if err != nil {
		return fmt.Errorf("send a pack: %w", err)
	}

	w.mu.Lock()
	defer w.mu.Unlock()
	info, own := entries[0].Pack, w.c.own
	w.entries = append(w.entries, entries...)
	own.packs = append(own.packs, info)
	if own.objects += len(entries); own.objects <= transfer.MaxInlineEntries {
		own.inline = append(own.inline, rootlog.Inline{Info: info, Entries: entries})
	}
	w.c.made[info.Name.Path()] = int64(info.Size)
	w.c.stats.After += int64(info.Size)
	return nil
}

// reportCopied adds an object, whose stored value has so many bytes, to the progress.
func (w *copyWriter) reportCopied(stored int) {
	w.c.meter.Update(func(at *transfer.Progress) {
		at.Objects++
		at.Bytes += int64(stored)
	})
}

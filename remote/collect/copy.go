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

// maxCopyObjects is how many entries are held in memory, about 70 bytes each.
const maxCopyObjects = 1 << 20

// newPacks are the packs that a collection has made from others, and that no root names yet.
type newPacks struct {
	infos       []pack.Info
	inline      []rootlog.Inline // the packs with their entries, unless these are more than [transfer.MaxInlineEntries]
	objectCount int
	patchCount  int64                  // of the objects
	isRepacked  map[pack.Name]bool     // of the replaced packs: whether their objects were stored as small as possible
	indexes     []*transfer.BuiltIndex // the entries of the packs
}

func (n *newPacks) close() {
	for _, x := range n.indexes {
		x.Close()
	}
}

// copyChosen copies the reachable objects of the chosen packs into new ones. Like all that a
// writer uploads, the new packs are begun at the last known head (S0 in docs/format/remote.md). They are useful
// only while they are not condemned, and not begun before the floor
// (CHECK_REPACKED).
func (c *Collection) copyChosen(ctx context.Context) error {
	c.newPacks = &newPacks{isRepacked: map[pack.Name]bool{}}
	var chosen, plain, patched []*livePack
	objects, bytes := int64(0), int64(0)
	for _, p := range c.livePacks {
		if p.mustCopy {
			chosen = append(chosen, p)
			objects += int64(p.reachedCount)
			bytes += p.reachedBytes
		}
	}

	c.meter.Update(func(at *transfer.Progress) {
		*at = transfer.Progress{Phase: transfer.PhaseCopy, TotalObjects: objects, TotalBytes: bytes}
	})
	if err := c.noteRepacked(ctx, chosen); err != nil {
		return err
	}

	for _, p := range chosen {
		if p.mustRepack || c.wasRepacked[p.Name] {
			patched = append(patched, p)
		} else {
			plain = append(plain, p)
		}
		c.newPacks.isRepacked[p.Name] = p.mustRepack
	}

	err := splitParts(plain, maxCopyObjects, math.MaxInt64, func(some []*livePack) error { return c.copyPacks(ctx, some) })
	if err == nil {
		err = c.copyIntoPatches(ctx, patched)
	}
	if err != nil {
		return err
	}

	for _, p := range chosen {
		p.copiedCount = p.reachedCount
	}
	return nil
}

// splitParts calls each for one part of the packs after the other. A part has at most objects
// reachable objects and at most bytes bytes, or it is a single pack.
func splitParts(packs []*livePack, objects int, bytes int64, each func([]*livePack) error) error {
	for len(packs) > 0 {
		n, count, size := 0, 0, int64(0)
		for n < len(packs) {
			count += packs[n].reachedCount
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
func (c *Collection) copyPacks(ctx context.Context, packs []*livePack) error {
	entries, err := c.takeEntriesToCopy(packs)
	if err != nil {
		return err
	}
	w := &copyWriter{collection: c}
	if err := w.writeEntries(ctx, entries); err != nil {
		return err
	}
	return w.buildIndex()
}

// takeEntriesToCopy returns the entries of the reachable objects of packs, in stored order, nodes
// apart from chunks. It adds them to the copied objects of c.reach.
func (c *Collection) takeEntriesToCopy(packs []*livePack) ([]pack.Entry, error) {
	from := make(map[pack.Name]bool, len(packs))
	for _, p := range packs {
		from[p.Name] = true
	}
	var entries []pack.Entry
	for p, err := range c.snap.Entries() {
		if err != nil {
			return nil, err
		}
		if from[p.Pack.Name] && c.reach.reached.has(p) {
			entries = append(entries, p.Entry)
			c.reach.copied.add(p)
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
	collection *Collection

	mu      sync.Mutex // guards entries and the collection's copies
	written []pack.Entry
}

// buildIndex makes the index of the new packs.
func (w *copyWriter) buildIndex() error {
	index, err := w.collection.r.Indexes().Build(func(out io.Writer) error { return pack.WriteIndex(out, w.written) })
	if err != nil {
		return err
	}
	w.collection.newPacks.indexes = append(w.collection.newPacks.indexes, index)
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
	sizes := transfer.PackSizesFor(w.collection.r.Backend(), pack.TargetSize)
	batches := append(transfer.CutBatches(entries[:chunks], sizes, room), transfer.CutBatches(entries[chunks:], sizes, room)...)
	return transfer.WritePacks(ctx, transfer.DefaultPushJobs, transfer.SendEach(batches), room, w.writeBatch)
}

// writeBatch copies objects, into one pack unless they are too many.
func (w *copyWriter) writeBatch(ctx context.Context, out *transfer.Packer, batch []pack.Entry) error {
	for len(batch) > 0 {
		n, size := neighbours(batch)
		out.Buf = slices.Grow(out.Buf[:0], size)[:size]
		got, err := w.readNeighbours(ctx, batch[:n], out.Buf)
		if err != nil && (w.collection.repair == nil || !transfer.IsBadCopy(err)) {
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
	if copies := w.collection.reach.nodePacks; copies.IsPackOpened(first) {
		if n, err := copies.ReadPart(ctx, first.Pack, buf, int64(first.Offset)); err == nil {
			return n, nil
		}
	}
	return w.collection.r.ReadPack(ctx, first.Pack, buf, int64(first.Offset))
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
	value, err := w.collection.snap.ReadPlain(ctx, e)
	if transfer.IsBadCopy(err) && w.collection.repair != nil {
		return w.collection.repair.findValue(ctx, w.collection.snap, e)
	}
	return value, asNeeded(err)
}

// putPack sends a pack.
func (w *copyWriter) putPack(ctx context.Context, out *pack.Writer) error {
	entries, err := w.collection.r.PutPack(ctx, out)
	if err != nil {
		return fmt.Errorf("send a pack: %w", err)
	}

	w.mu.Lock()
	defer w.mu.Unlock()
	info, n := entries[0].Pack, w.collection.newPacks
	w.written = append(w.written, entries...)
	n.infos = append(n.infos, info)
	if n.objectCount += len(entries); n.objectCount <= transfer.MaxInlineEntries {
		n.inline = append(n.inline, rootlog.Inline{Info: info, Entries: entries})
	}
	noteSent(w.collection, info.Name.Path(), int64(info.Size))
	return nil
}

// reportCopied adds an object, whose stored value has so many bytes, to the progress.
func (w *copyWriter) reportCopied(stored int) {
	w.collection.meter.Update(func(at *transfer.Progress) {
		at.Objects++
		at.Bytes += int64(stored)
	})
}

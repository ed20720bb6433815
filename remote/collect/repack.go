package collect

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/frame"
	"github.com/kist-vcs/kist/object/keys"
	"github.com/kist-vcs/kist/object/repack"
	"github.com/kist-vcs/kist/remote/pack"
	"github.com/kist-vcs/kist/remote/retry"
	"github.com/kist-vcs/kist/remote/transfer"
)

const (
	// minRepackableShare is the share of a pack's live bytes that must be nodes or compressed data.
	// With less, for example with media, repacking gains nothing.
	minRepackableShare = 0.25

	// Packs that were repacked before are repacked again together with new ones, the
	// smallest first, up to repackAgainBytes bytes, or repackAgainRatio times the bytes of the new
	// ones. So new objects can become patches of theirs, and a few new files do not
	// rewrite a large remote.
	repackAgainBytes = 64 << 20
	repackAgainRatio = 8
)

// choosePacksToRepack sets mustRepack of the packs to store as small as possible. It chooses none
// if all packs that are worth it were repacked before.
func (c *Collection) choosePacksToRepack(ctx context.Context) error {
	if !c.options.Repack {
		return nil
	}
	candidates := slices.DeleteFunc(slices.Clone(c.livePacks), func(p *livePack) bool {
		return p.archived || p.repackableBytes == 0 || float64(p.repackableBytes) < minRepackableShare*float64(p.reachedBytes)
	})
	if err := c.noteRepacked(ctx, candidates); err != nil {
		return err
	}

	var repackedBefore []*livePack
	newBytes := int64(0)
	for _, p := range candidates {
		if c.wasRepacked[p.Name] {
			repackedBefore = append(repackedBefore, p)
			continue
		}
		p.mustRepack = true
		newBytes += p.repackableBytes
	}
	if newBytes == 0 {
		return nil
	}

	slices.SortFunc(repackedBefore, func(a, b *livePack) int {
		return cmp.Or(cmp.Compare(a.reachedBytes, b.reachedBytes), a.Name.Compare(b.Name))
	})
	budget := max(repackAgainBytes, repackAgainRatio*newBytes)
	for _, p := range repackedBefore {
		if budget -= p.reachedBytes; budget < 0 {
			break
		}
		p.mustRepack = true
	}
	return nil
}

// noteRepacked notes which packs were repacked before, in c.wasRepacked. It reads the headers of
// packs that are not known yet. It reads small packs in full, so that copying needs no further request.
func (c *Collection) noteRepacked(ctx context.Context, packs []*livePack) error {
	packs = slices.DeleteFunc(slices.Clone(packs), func(p *livePack) bool { _, known := c.wasRepacked[p.Name]; return known })
	var mu sync.Mutex
	return transfer.Parallel(ctx, c.options.Jobs, len(packs), func(ctx context.Context, i int) error {
		p := packs[i]
		get := c.r.ReadPack
		if p.Size <= maxWholeRead && !c.options.DryRun {
			get = c.reach.nodePacks.ReadPart // all of it, since the live part will be copied
		}

		var repacked bool
		err := retry.Verified(func() (err error) {
			repacked, err = pack.IsRepacked(p.Info, func(buf []byte, off int64) (int, error) { return get(ctx, p.Info, buf, off) })
			get = c.r.ReadPack // a second attempt reads from the remote, not from the copy
			return err
		})
		if c.repair != nil && (transfer.IsBadCopy(err) || errors.Is(err, object.ErrCorrupt)) {
			repacked, err = true, nil // then each value may be a patch
		}

		mu.Lock()
		defer mu.Unlock()
		c.wasRepacked[p.Name] = repacked && err == nil
		return asNeeded(err)
	})
}

// countCopiedPack counts a pack that is deleted, if its reachable objects were copied. If
// repack is set, they were stored as small as possible.
func (st *Stats) countCopiedPack(p *livePack, repack bool) {
	switch {
	case p.reachedCount == 0:
	case repack:
		st.Repacked++
		st.RepackedBytes += int64(p.Size)
	default:
		st.Rewritten++
	}
}

const (
	// The most that is repacked at once: objects, which take about 100 bytes of memory
	// each, and bytes of packs, which lie in a temporary file.
	maxRepackObjects = 1 << 19
	maxRepackBytes   = 1 << 30
)

// openPacks is the number of packs that are being filled or sent.
const openPacks = 2

// copyIntoPatches copies the reachable objects of packs to packs with patches. If the
// collection repacks, the order is that of the history. Otherwise it is
// the present order, which keeps most patches.
func (c *Collection) copyIntoPatches(ctx context.Context, packs []*livePack) error {
	slices.SortFunc(packs, func(a, b *livePack) int { // keeps objects together that were sent together
		if a.hasNodes != b.hasNodes {
			if b.hasNodes {
				return -1
			}
			return 1
		}
		return cmp.Or(c.listed[a.Name.Path()].Modified.Compare(c.listed[b.Name.Path()].Modified), a.Name.Compare(b.Name))
	})
	return splitParts(packs, maxRepackObjects, maxRepackBytes, func(part []*livePack) error {
		entries, err := c.takeEntriesToCopy(part)
		if err != nil {
			return err
		}
		var list iter.Seq[uint64]
		if c.options.Repack {
			if list, err = c.historyOrder(ctx, entries); err != nil {
				return err
			}
		}
		return c.repackEntries(ctx, entries, list)
	})
}

// historyOrder yields the numbers of the sorted entries in the order in which their objects take
// the least space.
func (c *Collection) historyOrder(ctx context.Context, entries []pack.Entry) (iter.Seq[uint64], error) {
	f := c.reach
	var roots []object.Key
	for _, key := range f.gcRoots() {
		roots = append(roots, key)
	}
	slices.SortFunc(roots, object.Key.Compare)
	seen := newEntrySet()
	seen.addFiles(c.snap)
	return repack.Order(ctx, roots, repack.OrderOptions{
		Nodes: reachableNodes{f},
		Skips: c.snap.Records.Skips,
		Meet: func(key object.Key) (number uint64, wanted, first bool) {
			p, err := f.snap.Locate(key)
			if err != nil {
				return 0, false, false
			}
			i, wanted := slices.BinarySearchFunc(entries, p.Entry, comparePlaces)
			return uint64(i), wanted, seen.add(p)
		},
	})
}

// repacker copies objects to packs with patches.
type repacker struct {
	copyWriter
	entriesToCopy []pack.Entry // as they lie
	order         iter.Seq[uint64]
	loaded        keys.Set
	source        *transfer.NodePacks // copies of the packs

	openPack     *pack.Writer // nil: none is being filled
	openHasNodes bool         // the open pack has nodes
	spareWriters chan *pack.Writer
	beginSend    func(out *pack.Writer) // begins to send a pack
}

// repackEntries copies the objects of entries to packs with patches, in the order of the
// numbers in list. Objects that list leaves out follow, in their present order.
func (c *Collection) repackEntries(ctx context.Context, entries []pack.Entry, list iter.Seq[uint64]) error {
	from, err := transfer.OpenNodePacks(c.r.Options().Dir, c.options.Jobs, c.r.ReadPack)
	if err != nil {
		return err
	}

	defer from.Close()
	from.LoadValues(ctx, entries)
	w := &repacker{
		copyWriter: copyWriter{collection: c}, entriesToCopy: entries, order: list, loaded: keys.NewSet(len(entries)),
		source: from, spareWriters: make(chan *pack.Writer, openPacks),
	}

	size := pack.SizeOf(0, 0)
	for _, e := range entries {
		size += int64(e.Stored) + transfer.EntryRoom
	}

	for range openPacks {
		out := pack.NewWriter(make([]byte, 0, min(size, pack.TargetSize+2<<20)))
		out.SetLimit(transfer.PackSizesFor(w.collection.r.Backend(), pack.TargetSize).Limit)
		w.spareWriters <- out
	}
	sending, ctx := errgroup.WithContext(ctx)
	w.beginSend = func(out *pack.Writer) {
		sending.Go(func() error {
			err := w.putPack(ctx, out)
			w.spareWriters <- out
			return err
		})
	}

	err = repack.Run(ctx, pack.MaxChain, w.loadObjects, w.addObject)
	if err == nil {
		w.sendOpenPack()
	}
	if serr := sending.Wait(); serr != nil {
		err = serr // the reason why the rest has ended
	}
	if err != nil {
		return err
	}
	return w.buildIndex()
}

// loadObjects loads all objects and passes each to next, chunks first, then nodes.
func (w *repacker) loadObjects(ctx context.Context, next func(*repack.Object) error) error {
	for _, nodes := range []bool{false, true} {
		for i := range w.orderedNumbers() {
			if w.entriesToCopy[i].Key.Kind.IsNode() != nodes || w.loaded.Has(i) {
				continue
			}
			w.loaded.Add(i)
			o, err := w.loadObject(ctx, w.entriesToCopy[i])
			if err != nil {
				return err
			}
			w.reportCopied(int(w.entriesToCopy[i].Stored))
			if err := next(o); err != nil {
				return err
			}
		}
	}
	return nil
}

// orderedNumbers yields the numbers in w.order, and then those of all entries.
func (w *repacker) orderedNumbers() iter.Seq[int] {
	return func(yield func(int) bool) {
		if w.order != nil {
			for i := range w.order {
				if !yield(int(i)) {
					return
				}
			}
		}
		for i := range w.entriesToCopy {
			if !yield(i) {
				return
			}
		}
	}
}

// loadObject reads an object. If it is damaged, loadObject reads it from the remote once more.
func (w *repacker) loadObject(ctx context.Context, e pack.Entry) (*repack.Object, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	o := &repack.Object{Key: e.Key}
	value, err := w.source.StoredValue(e)
	if err == nil {
		o.Data, err = w.source.Values.Decode(ctx, e, value, pack.Part{})
	}
	if err == nil {
		o.Best = w.collection.wasRepacked[e.Pack.Name]
		o.Stored, err = w.patchByID(e, value)
		return o, err
	}
	if !transfer.IsBadCopy(err) && !errors.Is(err, object.ErrCorrupt) {
		return nil, err
	}

	if value, err = w.rereadValue(ctx, e); err == nil {
		e.Stored = uint32(len(value))
		o.Data, err = pack.Decode(e, value)
	}
	return o, err
}

// patchByID returns the stored value of an object. It turns a near patch into a patch that
// names its base by ID. If the base is unreachable, the patch is not kept.
func (w *repacker) patchByID(e pack.Entry, value []byte) ([]byte, error) {
	if !frame.IsNear(value) {
		return value, nil
	}
	near, err := frame.NearBase(value)
	if err != nil {
		return nil, err
	}
	at := e
	at.Offset -= uint32(near.Distance)
	var base object.ID
	if i, ok := slices.BinarySearchFunc(w.entriesToCopy, at, comparePlaces); ok && w.entriesToCopy[i].Key.Kind == e.Key.Kind {
		base = w.entriesToCopy[i].Key.ID
	}
	return frame.AppendFar(make([]byte, 0, len(value)+len(base)), value, base)
}

// addObject adds an object to the open pack. It reports whether the next object starts another
// pack.
func (w *repacker) addObject(ctx context.Context, o *repack.Object) (full bool, err error) {
	if nodes := o.Key.Kind.IsNode(); nodes != w.openHasNodes {
		w.sendOpenPack()
		w.openHasNodes = nodes
	}
	if w.openPack != nil && w.openPack.Full(len(o.Value)) {
		w.sendOpenPack()
		full = true
	}
	if w.openPack == nil {
		select {
		case w.openPack = <-w.spareWriters:
			w.openPack.ResetForPatches()
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
	if o.Fit(w.openPack.TakesPatch) {
		w.collection.newPacks.patchCount++
	}
	if err := w.openPack.Add(o.Key, o.Value, len(o.Data)); err != nil {
		return false, err
	}
	if w.openPack.Size() >= pack.TargetSize {
		w.sendOpenPack()
		full = true
	}
	return full, nil
}

// sendOpenPack begins to send the open pack, if there is one. It does not wait.
func (w *repacker) sendOpenPack() {
	if w.openPack != nil {
		w.beginSend(w.openPack)
		w.openPack = nil
	}
}

// reachableNodes reads nodes from the repository or, if that does not have them, from the
// remote.
type reachableNodes struct {
	*reachFinder
}

// Get implements [object.Reader].
func (n reachableNodes) Get(ctx context.Context, key object.Key) ([]byte, error) {
	data, err := n.localNode(ctx, key)
	if data != nil || err != nil {
		return data, err
	}
	p, err := n.snap.Locate(key)
	if err != nil {
		return nil, err
	}
	n.nodePacks.LoadValues(ctx, []pack.Entry{p.Entry})
	return n.remoteNode(ctx, p.Entry)
}

// Missing implements [object.Reader].
func (n reachableNodes) Missing(ctx context.Context, keys []object.Key) ([]object.Key, error) {
	return n.snap.Missing(ctx, keys)
}

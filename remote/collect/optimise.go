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
	"github.com/kist-vcs/kist/object/optimise"
	"github.com/kist-vcs/kist/remote/pack"
	"github.com/kist-vcs/kist/remote/retry"
	"github.com/kist-vcs/kist/remote/transfer"
)

const (
	// minGain is the share of a pack's live bytes that must be nodes or compressed data.
	// With less, for example with media, repacking gains nothing.
	minGain = 0.25

	// Packs that were repacked before are repacked again together with new ones, the
	// smallest first, up to alwaysAgain bytes, or againRatio times the bytes of the new
	// ones. So new objects can become patches of theirs, and a few new files do not
	// rewrite a large remote.
	alwaysAgain = 64 << 20
	againRatio  = 8
)

// chooseRepacked chooses the packs to store as small as possible: none, if all packs that
// are worth it were repacked before.
func (c *Collection) chooseRepacked(ctx context.Context) error {
	if !c.o.Repack {
		return nil
	}
	some := slices.DeleteFunc(slices.Clone(c.packs), func(u *usage) bool {
		return u.gain == 0 || float64(u.gain) < minGain*float64(u.stored)
	})
	if err := c.readHeaders(ctx, some); err != nil {
		return err
	}

	var again []*usage
	fresh := int64(0)
	for _, u := range some {
		if c.repacked[u.Name] {
			again = append(again, u)
			continue
		}
		u.repack = true
		fresh += u.gain
	}
	if fresh == 0 {
		return nil
	}

	slices.SortFunc(again, func(a, b *usage) int {
		return cmp.Or(cmp.Compare(a.stored, b.stored), a.Name.Compare(b.Name))
	})
	left := max(alwaysAgain, againRatio*fresh)
	for _, u := range again {
		if left -= u.stored; left < 0 {
			break
		}
		u.repack = true
	}
	return nil
}

// readHeaders reads the headers of packs that are not known yet, and notes which packs were
// repacked. It reads small packs in full, so that copying needs no further request.
func (c *Collection) readHeaders(ctx context.Context, packs []*usage) error {
	packs = slices.DeleteFunc(slices.Clone(packs), func(u *usage) bool { _, known := c.repacked[u.Name]; return known })
	var mu sync.Mutex
	return transfer.Parallel(ctx, c.o.Jobs, len(packs), func(ctx context.Context, i int) error {
		u := packs[i]
		get := c.r.ReadPack
		if u.Size <= wholePack && !c.o.DryRun {
			get = c.marker.nodes.ReadPart // all of it, since the live part will be copied
		}

		var optimised bool
		err := retry.Verified(func() (err error) {
			optimised, err = pack.Optimised(u.Info, func(p []byte, off int64) (int, error) { return get(ctx, u.Info, p, off) })
			get = c.r.ReadPack
			return err
		})
		if c.mend != nil && (transfer.IsBadCopy(err) || errors.Is(err, object.ErrCorrupt)) {
			optimised, err = true, nil // then each value may be a patch
		}

		mu.Lock()
		defer mu.Unlock()
		c.repacked[u.Name] = optimised && err == nil
		return asNeeded(err)
	})
}

// countCopied counts a pack that is deleted, if its reachable objects were copied. If
// repack is set, they were stored as small as possible.
func (st *Stats) countCopied(u *usage, repack bool) {
	switch {
	case u.reached == 0:
	case repack:
		st.Repacked++
		st.RepackedBytes += int64(u.Size)
	default:
		st.Rewritten++
	}
}

const (
	// The most that is repacked at once: objects, which take about 100 bytes of memory
	// each, and bytes of packs, which lie in a temporary file.
	repackAtOnce = 1 << 19
	repackBytes  = 1 << 30
)

// outPacks is the number of packs that are being filled or sent.
const outPacks = 2

// copyOptimised copies the reachable objects of packs to packs with patches. If the
// collection repacks, the order is that of the history. Otherwise it is
// the present order, which keeps most patches.
func (c *Collection) copyOptimised(ctx context.Context, packs []*usage) error {
	slices.SortFunc(packs, func(a, b *usage) int { // keeps objects together that were sent together
		if a.nodes != b.nodes {
			if b.nodes {
				return -1
			}
			return 1
		}
		return cmp.Or(c.listed[a.Name.Path()].Modified.Compare(c.listed[b.Name.Path()].Modified), a.Name.Compare(b.Name))
	})
	return splitParts(packs, repackAtOnce, repackBytes, func(some []*usage) error {
		entries, err := c.takeReached(some)
		if err != nil {
			return err
		}
		var list iter.Seq[uint64]
		if c.o.Repack {
			if list, err = c.historyOrder(ctx, entries); err != nil {
				return err
			}
		}
		return c.optimise(ctx, entries, list)
	})
}

// historyOrder yields the numbers of the sorted entries in the order in which their objects take
// the least space.
func (c *Collection) historyOrder(ctx context.Context, entries []pack.Entry) (iter.Seq[uint64], error) {
	m := c.marker
	var roots []object.Key
	for _, key := range m.gcRoots() {
		roots = append(roots, key)
	}
	slices.SortFunc(roots, object.Key.Compare)
	seen := newEntrySet()
	seen.addFiles(c.snap)
	return optimise.Order(ctx, roots, optimise.OrderOptions{
		Nodes: neededNodes{m},
		Skips: c.snap.Records.Skips,
		Meet: func(key object.Key) (number uint64, wanted, first bool) {
			p, err := m.snap.Locate(key)
			if err != nil {
				return 0, false, false
			}
			i, wanted := slices.BinarySearchFunc(entries, p.Entry, comparePlaces)
			return uint64(i), wanted, seen.add(p)
		},
	})
}

// optimiser copies objects to optimised packs.
type optimiser struct {
	copyWriter
	entries []pack.Entry // as they lie
	list    iter.Seq[uint64]
	passed  keys.Set
	from    *transfer.NodePacks // copies of the packs

	out   *pack.Writer // nil: none is being filled
	nodes bool         // the open pack has nodes
	spare chan *pack.Writer
	begin func(out *pack.Writer) // begins to send a pack
}

// optimise copies the objects of entries to packs with patches, in the order of the
// numbers in list. Objects that list leaves out follow, in their present order.
func (c *Collection) optimise(ctx context.Context, entries []pack.Entry, list iter.Seq[uint64]) error {
	from, err := transfer.OpenNodePacks(c.r.Options().Dir, c.o.Jobs, c.r.ReadPack)
	if err != nil {
		return err
	}

	defer from.Close()
	from.LoadValues(ctx, entries)
	w := &optimiser{
		copyWriter: copyWriter{c: c}, entries: entries, list: list, passed: keys.NewSet(len(entries)),
		from: from, spare: make(chan *pack.Writer, outPacks),
	}

	size := pack.SizeOf(0, 0)
	for _, e := range entries {
		size += int64(e.Stored) + transfer.EntryRoom
	}

	for range outPacks {
		w.spare <- pack.NewWriter(make([]byte, 0, min(size, pack.TargetSize+2<<20)))
	}
	sending, ctx := errgroup.WithContext(ctx)
	w.begin = func(out *pack.Writer) {
		sending.Go(func() error {
			err := w.putPack(ctx, out)
			w.spare <- out
			return err
		})
	}

	err = optimise.Run(ctx, pack.MaxChain, w.readAll, w.addObject)
	if err == nil {
		w.sendOpen()
	}
	if serr := sending.Wait(); serr != nil {
		err = serr // the reason why the rest has ended
	}
	if err != nil {
		return err
	}
	return w.buildIndex()
}

// readAll calls next for all objects, nodes after all chunks.
func (w *optimiser) readAll(ctx context.Context, next func(*optimise.Object) error) error {
	for _, nodes := range []bool{false, true} {
		for i := range w.allNumbers() {
			if w.entries[i].Key.Kind.IsNode() != nodes || w.passed.Has(i) {
				continue
			}
			w.passed.Add(i)
			o, err := w.loadObject(ctx, w.entries[i])
			if err != nil {
				return err
			}
			w.reportCopied(int(w.entries[i].Stored))
			if err := next(o); err != nil {
				return err
			}
		}
	}
	return nil
}

// allNumbers yields the numbers in w.list, and then those of all entries.
func (w *optimiser) allNumbers() iter.Seq[int] {
	return func(yield func(int) bool) {
		if w.list != nil {
			for i := range w.list {
				if !yield(int(i)) {
					return
				}
			}
		}
		for i := range w.entries {
			if !yield(i) {
				return
			}
		}
	}
}

// loadObject reads an object. If it is damaged, load reads it from the remote once more.
func (w *optimiser) loadObject(ctx context.Context, e pack.Entry) (*optimise.Object, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	o := &optimise.Object{Key: e.Key}
	value, err := w.from.StoredValue(e)
	if err == nil {
		o.Data, err = w.from.Values.Decode(ctx, e, value, pack.Part{})
	}
	if err == nil {
		o.Best = w.c.repacked[e.Pack.Name]
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
func (w *optimiser) patchByID(e pack.Entry, value []byte) ([]byte, error) {
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
	if i, ok := slices.BinarySearchFunc(w.entries, at, comparePlaces); ok && w.entries[i].Key.Kind == e.Key.Kind {
		base = w.entries[i].Key.ID
	}
	return frame.AppendFar(make([]byte, 0, len(value)+len(base)), value, base)
}

// addObject adds an object to the open pack. It reports whether the next object starts another
// pack.
func (w *optimiser) addObject(ctx context.Context, o *optimise.Object) (full bool, err error) {
	if nodes := o.Key.Kind.IsNode(); nodes != w.nodes {
		w.sendOpen()
		w.nodes = nodes
	}
	if w.out == nil {
		select {
		case w.out = <-w.spare:
			w.out.ResetOptimised()
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
	if o.Fit(w.out.TakesPatch) {
		w.c.own.patches++
	}
	if err := w.out.Add(o.Key, o.Value, len(o.Data)); err != nil {
		return false, err
	}
	if full = w.out.Size() >= pack.TargetSize; full {
		w.sendOpen()
	}
	return full, nil
}

// sendOpen begins to send the open pack, if there is one.
func (w *optimiser) sendOpen() {
	if w.out != nil {
		w.begin(w.out)
		w.out = nil
	}
}

// neededNodes reads nodes from the repository or, if that does not have them, from the
// remote.
type neededNodes struct {
	*marker
}

// Get implements [object.Reader].
func (n neededNodes) Get(ctx context.Context, key object.Key) ([]byte, error) {
	data, err := n.localNode(ctx, key)
	if data != nil || err != nil {
		return data, err
	}
	p, err := n.snap.Locate(key)
	if err != nil {
		return nil, err
	}
	n.nodes.LoadValues(ctx, []pack.Entry{p.Entry})
	return n.remoteNode(ctx, p.Entry)
}

// Missing implements [object.Reader].
func (n neededNodes) Missing(ctx context.Context, keys []object.Key) ([]object.Key, error) {
	return n.snap.Missing(ctx, keys)
}

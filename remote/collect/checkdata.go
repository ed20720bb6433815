package collect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/graph"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/pack"
	"github.com/kist-vcs/kist/remote/retry"
	"github.com/kist-vcs/kist/remote/transfer"
)

// checkReachable checks that all objects that refs reach are in live packs. It reads nodes.
func (c *checker) checkReachable(ctx context.Context) error {
	nodes, err := transfer.OpenNodePacks(c.r.Options().Dir, c.r.Options().Jobs, c.readPack)
	if err != nil {
		return err
	}

	defer nodes.Close()
	var front []pack.Entry
	for name, key := range c.snap.State.Refs {
		if err := refs.CheckName(name); err != nil {
			c.addProblem(Problem{Key: key, Err: err})
		}
		if !key.Kind.IsNode() {
			c.addProblem(Problem{Key: key, Err: fmt.Errorf("%s names a %s", name, key.Kind)})
		} else if front, err = c.addReached(front, key); err != nil {
			return err
		}
	}

	for _, id := range c.snap.Records.Holds() {
		if front, err = c.addReached(front, object.Key{Kind: object.KindCommit, ID: id}); err != nil {
			return err
		}
	}

	return graph.Batches(ctx, front, transfer.BatchSize, func(batch []pack.Entry) (next []pack.Entry, err error) {
		links, err := c.readNodes(ctx, nodes, batch)
		if err != nil {
			return nil, err
		}
		for i := range links {
			for _, key := range links[i] {
				if next, err = c.addReached(next, key); err != nil {
					return nil, err
				}
			}
			links[i] = nil
		}
		return next, nil
	})
}

// addReached notes an object as reachable. If it is a node, and new, it appends the entry to next.
// It reports an object that is in no live pack.
func (c *checker) addReached(next []pack.Entry, key object.Key) ([]pack.Entry, error) {
	if c.absent[key] {
		return next, nil
	}
	p, err := c.snap.Locate(key)
	if err != nil {
		c.absent[key] = true
		c.totals.Objects++
		return next, c.addIfDamage("", key, err)
	}
	if !c.reached.add(p) {
		return next, nil
	}
	c.totals.Objects++
	if key.Kind.IsNode() {
		next = append(next, p.Entry)
	}
	return next, nil
}

// readNodes reads nodes and returns the links of each.
func (c *checker) readNodes(ctx context.Context, nodes *transfer.NodePacks, entries []pack.Entry) ([][]object.Key, error) {
	nodes.LoadValues(ctx, entries)
	lists := make([][]object.Key, len(entries))
	err := transfer.Parallel(ctx, c.r.Options().Jobs, len(entries), func(ctx context.Context, i int) error {
		e := entries[i]
		data, err := c.snap.ReadNode(ctx, nodes, e)
		if err == nil {
			lists[i], err = object.Links(e.Key.Kind, data)
		}
		if err != nil {
			if transfer.IsBadCopy(err) {
				err = transfer.CorruptAt(e, err)
			}
			if err := c.addIfDamage("", e.Key, err); err != nil {
				return err
			}
			lists[i], err = c.linksOfOtherCopy(ctx, e)
		}
		lists[i] = c.requiredLinks(e.Key, lists[i])
		return err
	})
	return lists, err
}

// requiredLinks returns the links of a node that lead to required objects.
func (c *checker) requiredLinks(from object.Key, links []object.Key) []object.Key {
	return slices.DeleteFunc(links, func(link object.Key) bool {
		skips := c.snap.Records.Skips(from, link)
		if skips && c.snap.IsLost(link) {
			c.addLost(link)
		}
		return skips
	})
}

// linksOfOtherCopy returns the links of a node that is damaged at e, from another pack that has
// it. So the objects below it are checked as well.
func (c *checker) linksOfOtherCopy(ctx context.Context, e pack.Entry) ([]object.Key, error) {
	entries, err := c.snap.EntriesOf(e.Key)
	if err != nil {
		return nil, c.addIfDamage("", e.Key, err)
	}
	for _, other := range entries {
		if other.Pack == e.Pack {
			continue
		}
		data, err := c.snap.ReadObject(ctx, other)
		if err == nil {
			return object.Links(e.Key.Kind, data)
		}
		if err := c.addIfDamage("", e.Key, err); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// readPacks reads live packs with all values in them, and checks that every reachable
// object lies where the indexes say. It does not read the packs in bad, which are known to
// be damaged. It counts the packs that have to be thawed first.
func (c *checker) readPacks(ctx context.Context, packs []pack.Info, bad map[string]bool) error {
	left := map[pack.Name]bool{}     // not to be read
	archived := map[pack.Name]bool{} // c.mu guards it
	for i, p := range packs {
		left[p.Name] = c.options.Subset != nil && !c.options.Subset(i, len(packs))
	}

	err := transfer.Parallel(ctx, c.r.Options().Jobs, len(packs), func(ctx context.Context, i int) error {
		p := packs[i]
		if bad[p.Name.Path()] || left[p.Name] {
			return nil
		}
		err := retry.Verified(func() error { return c.readWholePack(ctx, p) })
		if errors.Is(err, remote.ErrArchived) {
			c.mu.Lock()
			defer c.mu.Unlock()
			archived[p.Name] = true
			c.totals.addPack(int64(p.Size))
			return nil
		}
		return c.addIfDamage(p.Name.Path(), object.Key{}, err)
	})
	if err != nil {
		return err
	}

	// The remaining objects are not where the indexes say, or the pack's own index is
	// damaged.
	for e, err := range c.unconfirmed() {
		if err != nil || left[e.Pack.Name] || archived[e.Pack.Name] {
			continue // it was reported, or is not to be read
		}
		if bad[e.Pack.Name.Path()] {
			err = transfer.CorruptAt(e, errors.New("the pack is missing, or has another size"))
		} else {
			_, err = c.snap.ReadObject(ctx, e)
		}
		if err == nil || c.isReported(e) {
			continue
		}
		if err := c.addIfDamage("", e.Key, err); err != nil {
			return err
		}
	}
	return nil
}

// maxWholeRead is the size of the largest pack that is read by one request. A larger one
// takes a request for each part. There may be a great many small packs.
const maxWholeRead = 1 << 20

// readWholePack reads a pack. The error is about all of the pack.
func (c *checker) readWholePack(ctx context.Context, p pack.Info) error {
	get := func(b []byte, off int64) (int, error) { return c.readPack(ctx, p, b, off) }
	var held pack.Part
	if p.Size <= maxWholeRead {
		held.Data = make([]byte, p.Size)
		n, err := get(held.Data, 0)
		if err != nil {
			return err
		}
		held.Data = held.Data[:n]
		get = func(b []byte, off int64) (int, error) { return copy(b, held.Data[min(off, int64(n)):]), nil }
	}

	entries, err := pack.ReadIndex(p, get)
	if err != nil {
		return err
	}

	slices.SortFunc(entries, func(a, b pack.Entry) int { return cmp.Compare(a.Offset, b.Offset) })
	var buf []byte
	for len(entries) > 0 {
		n, size := neighbours(entries)
		buf = slices.Grow(buf[:0], size)[:size]
		got, err := get(buf, int64(entries[0].Offset))
		if err != nil {
			return err
		}
		if got < size {
			return transfer.ErrShortPack(p, int64(entries[0].Offset)+int64(got))
		}
		part := held
		if part.Data == nil {
			part = pack.Part{Off: int64(entries[0].Offset), Data: buf}
		}
		if err := c.readValues(ctx, entries[:n], part); err != nil {
			return err
		}
		entries = entries[n:]
	}
	return nil
}

// readValues checks the values of entries, which are all in held.
func (c *checker) readValues(ctx context.Context, entries []pack.Entry, held pack.Part) error {
	for _, e := range entries {
		value := held.Data[int64(e.Offset)-held.Off:][:e.Stored]
		data, err := c.values.Decode(ctx, e, value, held)
		if err == nil && e.Key.Kind.IsNode() {
			err = object.Check(e.Key.Kind, data)
		}
		if transfer.IsBadCopy(err) && !c.isReported(e) {
			_, err = c.snap.ReadChecked(ctx, e)
		}
		if err != nil && c.isReported(e) {
			continue
		}
		if err := c.addIfDamage("", e.Key, err); err != nil {
			return err
		}
		at, ok, ferr := c.snap.Find(e.Key)
		if ferr != nil {
			return c.addIfDamage("", e.Key, ferr)
		}
		if err == nil && ok && at.Entry == e {
			c.confirmPlace(at)
		}
	}
	return nil
}

// confirmPlace notes that an object lies where the indexes say.
func (c *checker) confirmPlace(p transfer.Place) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.confirmed.add(p)
}

// unconfirmed yields the entries of reachable objects that were not confirmed.
func (c *checker) unconfirmed() iter.Seq2[pack.Entry, error] {
	return func(yield func(pack.Entry, error) bool) {
		for key := range c.reached.inline {
			if p, _, err := c.snap.Find(key); !c.confirmed.inline[key] && !yield(p.Entry, err) {
				return
			}
		}
		for i, f := range c.snap.State.Indexes {
			for n := range c.reached.files[f.Name].All() {
				if c.confirmed.files[f.Name].Has(n) {
					continue
				}
				if e, err := c.snap.Indexes[i].At(n); !yield(e, err) {
					return
				}
			}
		}
	}
}

// isReported reports whether the check found the value at e damaged. It locks c.mu.
func (c *checker) isReported(e pack.Entry) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.problems, func(p Problem) bool {
		damage, ok := errors.AsType[*object.CorruptError](p.Err)
		return ok && p.Key == e.Key && damage.Where == transfer.CorruptAt(e, nil).(*object.CorruptError).Where
	})
}

// readPack reads from a pack.
func (c *checker) readPack(ctx context.Context, p pack.Info, b []byte, off int64) (int, error) {
	n, err := c.r.ReadPack(ctx, p, b, off)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.totals.Bytes += int64(n)
	if c.options.Progress != nil {
		c.options.Progress(c.totals.Bytes)
	}
	return n, err
}

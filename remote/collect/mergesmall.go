package collect

import (
	"context"
	"maps"
	"math/bits"
	"slices"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote/pack"
	"github.com/kist-vcs/kist/remote/rootlog"
	"github.com/kist-vcs/kist/remote/transfer"
)

// After a push, the remote may have many small packs or index files. Then the push
// merges some of them. So the requests of a clone grow with the logarithm of the number
// of pushes.
const (
	minPacksToMerge = 16      // fewer packs of about one size, of nodes or of chunks, are not merged
	maxPacksToMerge = 32      // packs of them that one push merges
	maxBytesToMerge = 8 << 20 // bytes of them that one push merges
	maxPackToMerge  = 1 << 20 // bytes of the largest pack that is merged
	maxAppendTries  = 3       // how often a push tries to append the root
)

// MergeSmall merges small packs, and index files of one size class, of the remote, which is at head. It
// follows the rules of a collection that rewrites packs: it claims the packs that it
// sends, and condemns the replaced packs. But it copies all objects, whether
// reachable or not. So a push that relies on one of them still finds it.
//
// It gives up if a pack is damaged, or after maxAppendTries roots of others.
func MergeSmall(ctx context.Context, r *transfer.Remote, head *rootlog.State) error {
	snap, err := r.SnapshotAt(ctx, head)
	if err != nil {
		return err
	}

	entries, err := entriesToMerge(snap)
	if err != nil || len(entries) == 0 && len(crowdedIndexes(snap.State.Indexes, pushedClasses)) == 0 {
		return err
	}

	c := newCollection(r, nil, Options{})
	defer c.Close()
	c.snap, c.claimSnap, c.newPacks = snap, snap, &newPacks{}
	emptied, err := c.copyToMerge(ctx, entries)
	if err != nil {
		return err
	}

	for range maxAppendTries {
		again, err := c.appendMerged(ctx, emptied)
		if !again || err != nil {
			return err
		}
	}
	return nil
}

// smallPack is a pack that is small enough to be merged, with its entries.
type smallPack struct {
	pack.Info
	entries []pack.Entry
	nodes   bool
	purged  bool // the pack has a purged object: only a collection rewrites it
}

// entriesToMerge returns the entries of the small packs to merge, in stored order.
func entriesToMerge(s *transfer.Snapshot) ([]pack.Entry, error) {
	small, err := smallPacks(s)
	if err != nil {
		return nil, err
	}

	type class struct {
		nodes bool
		size  int
	}

	classes := map[class][]*smallPack{}
	for _, p := range small {
		// The sizes in a class differ by a factor of at most 16.
		of := class{p.nodes, (bits.Len32(p.Size>>12) + 3) / 4}
		classes[of] = append(classes[of], p)
	}

	var entries []pack.Entry
	for _, list := range classes {
		if len(list) < minPacksToMerge {
			continue
		}
		slices.SortFunc(list, func(a, b *smallPack) int { return a.Name.Compare(b.Name) })
		bytes := 0
		for _, p := range list[:min(len(list), maxPacksToMerge)] {
			if bytes += int(p.Size); bytes > maxBytesToMerge {
				break
			}
			entries = append(entries, p.entries...)
		}
	}

	slices.SortFunc(entries, comparePlaces)
	return entries, nil
}

// smallPacks returns the small packs whose entries are all in the root or in small
// index files.
func smallPacks(s *transfer.Snapshot) (map[pack.Name]*smallPack, error) {
	large := map[pack.Name]bool{}
	small := map[pack.Name]*smallPack{}
	for i, f := range s.State.Indexes {
		if f.Size <= smallIndex {
			continue
		}
		for _, p := range s.Indexes[i].PackInfos {
			large[p.Name] = true
		}
	}

	for e, err := range s.EntriesIn(func(file int) bool { return s.State.Indexes[file].Size <= smallIndex }) {
		if err != nil {
			return nil, err
		}
		if large[e.Pack.Name] || e.Pack.Size > maxPackToMerge {
			continue
		}
		p := small[e.Pack.Name]
		if p == nil {
			p = &smallPack{Info: e.Pack}
			small[e.Pack.Name] = p
		}
		_, purged := s.Records.Purged(e.Key)
		p.purged = p.purged || purged
		p.nodes = p.nodes || e.Key.Kind.IsNode()
		p.entries = append(p.entries, e.Entry)
	}

	maps.DeleteFunc(small, func(_ pack.Name, p *smallPack) bool { return p.purged })
	return small, nil
}

// copyToMerge copies the objects of entries into new packs, and returns the packs that have no
// other objects. It leaves out repacked packs.
func (c *Collection) copyToMerge(ctx context.Context, entries []pack.Entry) (emptied map[pack.Name]bool, err error) {
	emptied = map[pack.Name]bool{}
	if len(entries) == 0 {
		return emptied, nil
	}
	if c.reach, err = newReachFinder(c.r, nil, c.options.Jobs); err != nil {
		return nil, err
	}

	var packs []*livePack
	for _, e := range entries {
		if !emptied[e.Pack.Name] {
			emptied[e.Pack.Name] = true
			packs = append(packs, &livePack{Info: e.Pack})
		}
	}
	if err := c.noteRepacked(ctx, packs); err != nil {
		return nil, err
	}

	maps.DeleteFunc(emptied, func(name pack.Name, _ bool) bool { return c.wasRepacked[name] })

	copied := map[object.Key]bool{}
	entries = slices.DeleteFunc(entries, func(e pack.Entry) bool {
		if !emptied[e.Pack.Name] || copied[e.Key] { // it may lie in two of the packs
			return true
		}
		copied[e.Key] = true
		return false
	})
	if len(entries) == 0 {
		return emptied, nil
	}

	w := &copyWriter{collection: c}
	if err := w.writeEntries(ctx, entries); err != nil {
		return nil, err
	}
	return emptied, w.buildIndex()
}

// appendMerged appends the root that names the new packs and condemns the packs in emptied.
// If another writer was first, and the copies are still useful, again is true.
func (c *Collection) appendMerged(ctx context.Context, emptied map[pack.Name]bool) (again bool, err error) {
	change := c.r.NewChange()
	for name := range emptied {
		change.Condemn = append(change.Condemn, name.Path())
	}

	var replaced []rootlog.File
	if crowded := crowdedIndexes(c.snap.State.Indexes, pushedClasses); len(crowded) > 0 {
		replaced = crowded[0] // a later push merges the others
	}
	if err := c.nameNewPacks(ctx, change, replaced, emptied); err != nil {
		return false, err
	}
	if len(change.Condemn) == 0 {
		return false, nil
	}

	next, later, err := c.r.AppendRoot(ctx, c.snap, change)
	switch {
	case err != nil:
		return false, err
	case next != nil:
		return false, c.moveToAppended(ctx, next)
	}

	// The claim requires that live(S) is in live(h). So all packs in emptied are still live.
	c.snap = later
	if !c.snap.State.Records.Equal(c.claimSnap.State.Records) || c.nextClaim().Check(c.snap.State, c.snap.Live) != nil || c.newPacks.areNamedIn(c.snap) {
		return false, nil
	}
	return true, nil
}

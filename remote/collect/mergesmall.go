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
	mergeFrom  = 16        // packs of about one size, of nodes or of chunks, that are merged
	mergeMost  = 32        // packs of them that one push merges
	mergeBytes = 8 << 20   // bytes of them that one push merges
	mergePack  = 1 << 20   // bytes of the largest pack that is merged
	mergeIndex = 256 << 10 // bytes of the largest index file that is merged
	mergeTries = 3         // how often a push tries to append the root
)

// MergeSmall merges small packs and index files of the remote, which is at head. It
// follows the rules of a collection that rewrites packs: it claims the packs that it
// sends, and marks the replaced packs for deletion. But it copies all objects, whether
// reachable or not. So a push that relies on one of them still finds it.
//
// It gives up if a pack is damaged, or after mergeTries roots of others.
func MergeSmall(ctx context.Context, r *transfer.Remote, head *rootlog.State) error {
	snap, err := r.SnapshotAt(ctx, head)
	if err != nil {
		return err
	}

	entries, err := mergeable(snap)
	if err != nil || len(entries) == 0 && len(smallIndexes(snap)) <= manyIndexes {
		return err
	}

	c := newCollection(r, nil, Options{})
	defer c.Close()
	c.snap, c.start, c.own = snap, snap, &copies{}
	emptied, err := c.copyAll(ctx, entries)
	if err != nil {
		return err
	}

	for range mergeTries {
		again, err := c.publishMerged(ctx, emptied)
		if !again || err != nil {
			return err
		}
	}
	return nil
}

// smallIndexes returns the live index files that may be merged.
func smallIndexes(s *transfer.Snapshot) []rootlog.File {
	return slices.DeleteFunc(slices.Clone(s.State.Indexes), func(f rootlog.File) bool { return f.Size > mergeIndex })
}

// tinyPack is a small pack with its entries.
type tinyPack struct {
	pack.Info
	entries []pack.Entry
	nodes   bool
	purged  bool // the pack has a purged object: only a collection rewrites it
}

// mergeable returns the entries of the small packs to merge, in stored order.
func mergeable(s *transfer.Snapshot) ([]pack.Entry, error) {
	small, err := smallPacks(s)
	if err != nil {
		return nil, err
	}

	type class struct {
		nodes bool
		size  int
	}

	classes := map[class][]*tinyPack{}
	for _, p := range small {
		// The sizes in a class differ by a factor of at most 16.
		of := class{p.nodes, (bits.Len32(p.Size>>12) + 3) / 4}
		classes[of] = append(classes[of], p)
	}

	var entries []pack.Entry
	for _, list := range classes {
		if len(list) < mergeFrom {
			continue
		}
		slices.SortFunc(list, func(a, b *tinyPack) int { return a.Name.Compare(b.Name) })
		bytes := 0
		for _, p := range list[:min(len(list), mergeMost)] {
			if bytes += int(p.Size); bytes > mergeBytes {
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
func smallPacks(s *transfer.Snapshot) (map[pack.Name]*tinyPack, error) {
	large := map[pack.Name]bool{}
	small := map[pack.Name]*tinyPack{}
	for i, f := range s.State.Indexes {
		if f.Size <= mergeIndex {
			continue
		}
		for _, p := range s.Indexes[i].PackInfos {
			large[p.Name] = true
		}
	}

	for e, err := range s.EntriesIn(func(file int) bool { return s.State.Indexes[file].Size <= mergeIndex }) {
		if err != nil {
			return nil, err
		}
		if large[e.Pack.Name] || e.Pack.Size > mergePack {
			continue
		}
		p := small[e.Pack.Name]
		if p == nil {
			p = &tinyPack{Info: e.Pack}
			small[e.Pack.Name] = p
		}
		_, purged := s.Records.Purged(e.Key)
		p.purged = p.purged || purged
		p.nodes = p.nodes || e.Key.Kind.IsNode()
		p.entries = append(p.entries, e.Entry)
	}

	maps.DeleteFunc(small, func(_ pack.Name, p *tinyPack) bool { return p.purged })
	return small, nil
}

// copyAll copies the objects of entries into new packs, and returns the packs that have no
// other objects. It leaves out repacked packs.
func (c *Collection) copyAll(ctx context.Context, entries []pack.Entry) (emptied map[pack.Name]bool, err error) {
	emptied = map[pack.Name]bool{}
	if len(entries) == 0 {
		return emptied, nil
	}
	if c.marker, err = newMarker(c.r, nil, c.o.Jobs); err != nil {
		return nil, err
	}

	var packs []*usage
	for _, e := range entries {
		if !emptied[e.Pack.Name] {
			emptied[e.Pack.Name] = true
			packs = append(packs, &usage{Info: e.Pack})
		}
	}
	if err := c.readHeaders(ctx, packs); err != nil {
		return nil, err
	}

	maps.DeleteFunc(emptied, func(name pack.Name, _ bool) bool { return c.repacked[name] })

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

	w := &copyWriter{c: c}
	if err := w.writeEntries(ctx, entries); err != nil {
		return nil, err
	}
	return emptied, w.buildIndex()
}

// publishMerged appends the root that names the new packs and marks the packs in emptied for
// deletion. If another writer was first, and the copies are still useful, again is true.
func (c *Collection) publishMerged(ctx context.Context, emptied map[pack.Name]bool) (again bool, err error) {
	change := c.r.NewChange()
	for name := range emptied {
		change.Condemn = append(change.Condemn, name.Path())
	}

	due := smallIndexes(c.snap)
	if len(due) <= manyIndexes {
		due = nil
	}
	if err := c.nameOwnPacks(ctx, change, due, emptied); err != nil {
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
	if !c.snap.State.Records.Equal(c.start.State.Records) || c.claimOfRoot().Check(c.snap.State, c.snap.Live) != nil || c.own.namedBy(c.snap) {
		return false, nil
	}
	return true, nil
}

package collect

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote/pack"
	"github.com/kist-vcs/kist/remote/rootlog"
	"github.com/kist-vcs/kist/remote/transfer"
)

const (
	manySmall   = 8 // small packs, of nodes or of chunks, that are left alone
	manyIndexes = 4 // index files that are left alone
)

// usage is the use of a live pack.
type usage struct {
	pack.Info
	objects int // with entries
	reached int // of these
	copied  int // of the reached
	stored  int64
	gain    int64 // of stored: nodes, and compressed values
	nodes   bool  // the pack has nodes
	rewrite bool  // the reachable objects are to be copied
	repack  bool  // together with other packs, in the order of the history, as small as possible
	purged  bool  // it has a purged object that nothing else needs
}

// liveSize returns the size of a pack with only the reachable objects.
func (u *usage) liveSize() int64 {
	if u.reached == 0 {
		return 0
	}
	return pack.SizeOf(u.reached, u.stored)
}

func (u *usage) waste() int64 { return int64(u.Size) - u.liveSize() }

// isEmptied reports whether a pack can be deleted: all its reachable objects were copied.
func (u *usage) isEmptied() bool { return u.reached == u.copied }

// countUse returns the use of each live pack, sorted by name.
func (m *marker) countUse() ([]*usage, error) {
	infos := m.snap.LivePacks()
	list := make([]*usage, len(infos))
	byName := make(map[pack.Name]*usage, len(infos))
	for i, p := range infos {
		list[i] = &usage{Info: p}
		byName[p.Name] = list[i]
	}

	for p, err := range m.snap.Entries() {
		if err != nil {
			return nil, err
		}
		u := byName[p.Pack.Name]
		u.objects++
		if !m.reached.has(p) {
			continue
		}
		u.reached++
		u.stored += int64(p.Stored)
		u.nodes = u.nodes || p.Key.Kind.IsNode()
		if p.Key.Kind.IsNode() || p.Stored < p.Raw {
			u.gain += int64(p.Stored)
		}
		if m.copied.has(p) {
			u.copied++
		}
	}
	return list, nil
}

// chooseRewritten chooses the packs to rewrite: packs to store as small as possible,
// packs with purged objects, and small packs if there are many. It adds the packs with
// the largest share of waste until at most maxWaste of the rest is waste.
func chooseRewritten(packs []*usage, maxWaste float64) {
	var some []*usage
	var left, waste int64
	small := map[bool][]*usage{} // by whether they are of nodes
	for _, u := range packs {
		if u.reached == 0 {
			continue
		}
		if u.rewrite = u.repack || u.purged; u.rewrite {
			left += u.liveSize()
			continue
		}
		some = append(some, u)
		left += int64(u.Size)
		waste += u.waste()
		if u.liveSize() < transfer.SmallPack {
			small[u.nodes] = append(small[u.nodes], u)
		}
	}

	for _, list := range small {
		if len(list) <= manySmall {
			continue
		}
		for _, u := range list {
			u.rewrite = true
			left -= u.waste()
			waste -= u.waste()
		}
	}

	slices.SortFunc(some, func(a, b *usage) int { // the largest share first
		return cmp.Or(cmp.Compare(float64(b.waste())/float64(b.Size), float64(a.waste())/float64(a.Size)), a.Name.Compare(b.Name))
	})
	for _, u := range some {
		if float64(waste) <= maxWaste*float64(left) || u.waste() <= 0 {
			break
		}
		if !u.rewrite {
			u.rewrite = true
			left -= u.waste()
			waste -= u.waste()
		}
	}
}

// dueIndexes returns the index files to replace by one new file: each that names a pack
// for which gone returns true, or all if there are many.
func dueIndexes(s *transfer.Snapshot, gone func(pack.Name) bool) (due []rootlog.File) {
	if len(s.Indexes) > manyIndexes {
		return s.State.Indexes
	}
	for i, x := range s.Indexes {
		if slices.ContainsFunc(x.PackInfos, func(p pack.Info) bool { return gone(p.Name) }) {
			due = append(due, s.State.Indexes[i])
		}
	}
	return due
}

// countWaiting counts the marked files that are not due yet.
func (c *Collection) countWaiting(ctx context.Context) error {
	aged, next, err := c.markedBefore(ctx, c.o.Grace)
	if err != nil {
		return err
	}
	st := &c.stats
	for name := range c.snap.State.Condemned {
		if _, old := slices.BinarySearch(aged, name); !old && c.mayExist(name) {
			st.Waiting++
			st.WaitingBytes += c.sizeOf(name)
		}
	}
	if st.Waiting > 0 && !next.IsZero() {
		st.Next = next.Add(c.o.Grace)
	}
	return nil
}

// countMarked counts files that are marked for deletion.
func (c *Collection) countMarked(names []string) {
	st := &c.stats
	for _, name := range names {
		st.Marked++
		st.MarkedBytes += c.sizeOf(name)
		if strings.HasPrefix(name, "index/") {
			st.Indexes++
		}
	}
}

// countPlanned fills in the totals of the plan.
func (c *Collection) countPlanned(ctx context.Context) error {
	st := &c.stats
	emptied := map[pack.Name]bool{}
	marked := c.orphanFiles()
	for _, u := range c.packs {
		if u.reached > 0 && !u.rewrite {
			continue
		}
		emptied[u.Name] = true
		marked = append(marked, u.Name.Path())
		st.Removed += int64(u.objects - u.reached)
		st.countCopied(u, u.repack)
		st.After += u.liveSize()
	}

	for _, f := range dueIndexes(c.snap, isGoneAfter(c.snap, emptied)) {
		marked = append(marked, f.Name.IndexPath())
	}
	c.countMarked(marked)
	if err := c.countWaiting(ctx); err != nil {
		return err
	}

	names, _, err := c.markedBefore(ctx, c.o.Grace)
	if err != nil {
		return err
	}
	if c.o.Grace <= 0 {
		names = append(names, marked...)
		slices.Sort(names)
	} else if len(marked) > 0 {
		st.Waiting += len(marked)
		st.WaitingBytes += st.MarkedBytes
		if st.Next.IsZero() {
			st.Next = c.r.Options().Now().Add(c.o.Grace)
		}
	}

	names = slices.DeleteFunc(names, func(name string) bool { return !c.mayExist(name) })
	if names, err = dropLocked(ctx, c, names); err != nil {
		return err
	}

	for _, name := range names {
		if _, listed := c.listed[name]; listed {
			st.Deleted++
			st.After -= c.sizeOf(name)
		}
	}

	old, _, err := c.markedBefore(ctx, c.o.ForgetAfter)
	if c.o.ForgetAfter <= 0 {
		old = append(old, marked...)
	}

	for _, name := range old {
		if _, now := slices.BinarySearch(names, name); now || !c.mayExist(name) {
			st.Forgotten++
		}
	}
	return err
}

// Usage is the space that a remote uses.
type Usage struct {
	Packs []PackUse // live ones, by name

	Indexes    int   // index files
	IndexBytes int64 // of these

	// The files that gc has marked for deletion and that still exist: packs, index files
	// and state files.
	Marked      int
	MarkedBytes int64
}

// PackUse is the use of a pack.
type PackUse struct {
	pack.Info
	Objects int // in it

	// The objects that refs and holds reach, and that are read from this pack.
	Needed int
	Stored int64 // bytes of their stored values

	Waste int64 // bytes that a pack of only the reachable objects would save
}

// ReadUsage returns the use of the remote's packs, as [PlanGarbage] finds it. It reads nodes
// from local, which may be nil, if that has them. Of an object in several packs, one copy
// is needed. The error is a [*NeededError] if a reachable object is damaged or missing.
func ReadUsage(ctx context.Context, r *transfer.Remote, local object.Reader) (*Usage, error) {
	head, err := r.Head(ctx)
	if err != nil {
		return nil, err
	}
	var u *Usage
	err = r.RetryAtHead(ctx, head, func(head *rootlog.State) error {
		snap, err := r.SnapshotAt(ctx, head)
		if err == nil {
			u, err = usageAt(ctx, r, snap, local)
		}
		return err
	})
	return u, err
}

func usageAt(ctx context.Context, r *transfer.Remote, s *transfer.Snapshot, local object.Reader) (*Usage, error) {
	m, err := newMarker(r, local, r.Options().Jobs)
	if err != nil {
		return nil, err
	}

	defer m.close()
	if _, err := m.moveTo(s); err != nil {
		return nil, err
	}
	if err := m.markRoots(ctx); err != nil {
		return nil, err
	}

	packs, err := m.countUse()
	if err != nil {
		return nil, err
	}

	u := &Usage{Indexes: len(s.State.Indexes)}
	for _, p := range packs {
		use := PackUse{Info: p.Info, Objects: p.objects, Needed: p.reached, Stored: p.stored, Waste: p.waste()}
		if p.reached == p.objects {
			use.Waste = 0
		}
		u.Packs = append(u.Packs, use)
	}

	for _, f := range s.State.Indexes {
		u.IndexBytes += f.Size
	}
	return u, countMarked(ctx, r, s.State, u)
}

// countMarked counts the files that are marked for deletion and still exist.
func countMarked(ctx context.Context, r *transfer.Remote, head *rootlog.State, u *Usage) error {
	sizes, err := sizesOf(ctx, r, slices.Collect(maps.Keys(head.Condemned)))
	for _, size := range sizes {
		u.Marked++
		u.MarkedBytes += size
	}
	return err
}

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

const maxSmallPacks = 8 // small packs, of nodes or of chunks, that are left alone

// livePack is a live pack, its use, and what the collection does with it.
type livePack struct {
	pack.Info
	objectCount     int // with entries
	reachedCount    int // of these
	copiedCount     int // of the reached
	reachedBytes    int64
	repackableBytes int64 // of stored: nodes, and compressed values
	hasNodes        bool  // the pack has nodes
	mustCopy        bool  // the reachable objects are to be copied
	mustRepack      bool  // together with other packs, in the order of the history, as small as possible
	hasPurged       bool  // it has a purged object that nothing else needs
	hasOldEpoch     bool  // it is to be encrypted with the newest key
	archived        bool  // the store has it in an archive: it may have to be thawed before it can be copied
}

// liveSize returns the size of a pack with only the reachable objects.
func (p *livePack) liveSize() int64 {
	if p.reachedCount == 0 {
		return 0
	}
	return pack.SizeOf(p.reachedCount, p.reachedBytes)
}

func (p *livePack) waste() int64 { return int64(p.Size) - p.liveSize() }

// isEmptied reports whether a pack can be deleted: all its reachable objects were copied.
func (p *livePack) isEmptied() bool { return p.reachedCount == p.copiedCount }

// countPackUse returns the use of each live pack, sorted by name.
func (f *reachFinder) countPackUse() ([]*livePack, error) {
	infos := f.snap.LivePacks()
	list := make([]*livePack, len(infos))
	byName := make(map[pack.Name]*livePack, len(infos))
	for i, info := range infos {
		list[i] = &livePack{Info: info}
		byName[info.Name] = list[i]
	}

	for at, err := range f.snap.Entries() {
		if err != nil {
			return nil, err
		}
		p := byName[at.Pack.Name]
		p.objectCount++
		if !f.reached.has(at) {
			continue
		}
		p.reachedCount++
		p.reachedBytes += int64(at.Stored)
		p.hasNodes = p.hasNodes || at.Key.Kind.IsNode()
		if at.Key.Kind.IsNode() || at.Stored < at.Raw {
			p.repackableBytes += int64(at.Stored)
		}
		if f.copied.has(at) {
			p.copiedCount++
		}
	}
	return list, nil
}

// choosePacksToRewrite sets mustCopy of the packs to rewrite: packs to repack,
// packs with purged objects or an old key, and small packs if there are many. It adds the packs with
// the largest share of waste until at most maxWaste of the rest is waste. For archived packs, see mustCopyArchived.
func choosePacksToRewrite(packs []*livePack, maxWaste float64) {
	var candidates []*livePack
	var kept, waste int64
	small := map[bool][]*livePack{} // by whether they are of nodes
	for _, p := range packs {
		if p.reachedCount == 0 {
			continue
		}
		if p.archived {
			p.mustCopy = mustCopyArchived(p)
			continue
		}
		if p.mustCopy = p.mustRepack || p.hasPurged || p.hasOldEpoch; p.mustCopy {
			kept += p.liveSize()
			continue
		}
		candidates = append(candidates, p)
		kept += int64(p.Size)
		waste += p.waste()
		if p.liveSize() < transfer.SmallPack {
			small[p.hasNodes] = append(small[p.hasNodes], p)
		}
	}

	for _, list := range small {
		if len(list) <= maxSmallPacks {
			continue
		}
		for _, p := range list {
			p.mustCopy = true
			kept -= p.waste()
			waste -= p.waste()
		}
	}

	slices.SortFunc(candidates, func(a, b *livePack) int { // the largest share first
		return cmp.Or(cmp.Compare(float64(b.waste())/float64(b.Size), float64(a.waste())/float64(a.Size)), a.Name.Compare(b.Name))
	})
	for _, p := range candidates {
		if float64(waste) <= maxWaste*float64(kept) || p.waste() <= 0 {
			break
		}
		if !p.mustCopy {
			p.mustCopy = true
			kept -= p.waste()
			waste -= p.waste()
		}
	}
}

// indexesToReplace returns the index files to replace by a new one: those of the function indexesToReplace, damaged
// ones, and those with an old key.
func (c *Collection) indexesToReplace(gone func(pack.Name) bool) ([]rootlog.File, error) {
	due, err := indexesToReplace(c.snap, gone)
	return withIndexes(c.snap.State, due, func(f rootlog.File) bool {
		return c.oldEpoch[f.Name.IndexPath()] || c.repair != nil && c.repair.damagedIndexes[f.Name]
	}), err
}

// withIndexes returns due and the index files of state for which wanted returns true.
func withIndexes(state *rootlog.State, due []rootlog.File, wanted func(rootlog.File) bool) []rootlog.File {
	due = slices.Clone(due)
	for _, f := range state.Indexes {
		if wanted(f) && !slices.ContainsFunc(due, func(d rootlog.File) bool { return d.Name == f.Name }) {
			due = append(due, f)
		}
	}
	return due
}

// countWaiting counts the condemned files that are not due yet.
func (c *Collection) countWaiting(ctx context.Context) error {
	aged, next, err := c.condemnedBefore(ctx, c.options.Grace)
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
		st.Next = next.Add(c.options.Grace)
	}
	return nil
}

// countCondemned adds condemned files to the totals.
func (c *Collection) countCondemned(names []string) {
	st := &c.stats
	for _, name := range names {
		st.Condemned++
		st.CondemnedBytes += c.sizeOf(name)
		if strings.HasPrefix(name, "index/") {
			st.Indexes++
		}
	}
}

// countPlanned fills in the totals of the plan.
func (c *Collection) countPlanned(ctx context.Context) error {
	st := &c.stats
	emptied := map[pack.Name]bool{}
	condemned := slices.Concat(c.orphanFiles(), statesToReplace(c))
	for _, p := range c.livePacks {
		if p.reachedCount > 0 && !p.mustCopy {
			continue
		}
		emptied[p.Name] = true
		condemned = append(condemned, p.Name.Path())
		st.Removed += int64(p.objectCount - p.reachedCount)
		st.countCopiedPack(p, p.mustRepack)
		st.After += p.liveSize()
	}

	due, err := c.indexesToReplace(isGoneAfter(c.snap, emptied))
	if err != nil {
		return err
	}
	for _, f := range due {
		condemned = append(condemned, f.Name.IndexPath())
	}
	c.countCondemned(condemned)
	if err := c.countWaiting(ctx); err != nil {
		return err
	}

	names, _, err := c.condemnedBefore(ctx, c.options.Grace)
	if err != nil {
		return err
	}
	if c.options.Grace <= 0 {
		names = append(names, condemned...)
		slices.Sort(names)
	} else if len(condemned) > 0 {
		st.Waiting += len(condemned)
		st.WaitingBytes += st.CondemnedBytes
		if st.Next.IsZero() {
			st.Next = c.r.Options().Now().Add(c.options.Grace)
		}
	}

	names = slices.DeleteFunc(names, func(name string) bool { return !c.mayExist(name) })
	if names, err = withoutLocked(ctx, c, names); err != nil {
		return err
	}

	for _, name := range names {
		if _, listed := c.listed[name]; listed {
			st.Deleted++
			st.After -= c.sizeOf(name)
		}
	}

	old, _, err := c.condemnedBefore(ctx, c.options.ForgetAfter)
	if c.options.ForgetAfter <= 0 {
		old = append(old, condemned...)
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

	// The files that gc has condemned and that still exist: packs, index files
	// and state files.
	Condemned      int
	CondemnedBytes int64
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
	f, err := newReachFinder(r, local, r.Options().Jobs)
	if err != nil {
		return nil, err
	}

	defer f.close()
	if _, err := f.moveToRoot(s); err != nil {
		return nil, err
	}
	if err := f.findFromRoots(ctx); err != nil {
		return nil, err
	}

	packs, err := f.countPackUse()
	if err != nil {
		return nil, err
	}

	u := &Usage{Indexes: len(s.State.Indexes)}
	for _, p := range packs {
		use := PackUse{Info: p.Info, Objects: p.objectCount, Needed: p.reachedCount, Stored: p.reachedBytes, Waste: p.waste()}
		if p.reachedCount == p.objectCount {
			use.Waste = 0
		}
		u.Packs = append(u.Packs, use)
	}

	for _, f := range s.State.Indexes {
		u.IndexBytes += f.Size
	}
	return u, countCondemned(ctx, r, s.State, u)
}

// countCondemned counts the condemned files that still exist, in u.
func countCondemned(ctx context.Context, r *transfer.Remote, head *rootlog.State, u *Usage) error {
	sizes, err := sizesOf(ctx, r, slices.Collect(maps.Keys(head.Condemned)))
	for _, size := range sizes {
		u.Condemned++
		u.CondemnedBytes += size
	}
	return err
}

package transfer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/pack"
	"github.com/kist-vcs/kist/remote/retry"
	"github.com/kist-vcs/kist/remote/rootlog"
)

const (
	smallPack   = 8 << 20 // bytes of the reachable objects of a small pack
	manySmall   = 8       // small packs, of nodes or of chunks, that may stay
	manyIndexes = 4       // index files that may stay
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

// live returns the size of a pack with only the reachable objects.
func (u *usage) live() int64 {
	if u.reached == 0 {
		return 0
	}
	return pack.SizeOf(u.reached, u.stored)
}

func (u *usage) waste() int64 { return int64(u.Size) - u.live() }

// goes reports whether a pack can be deleted: all its reachable objects were copied.
func (u *usage) goes() bool { return u.reached == u.copied }

// entries yields the entries of live packs, and where they are. The first error
// ends it.
func (s *snapshot) entries() iter.Seq2[place, error] {
	return func(yield func(place, error) bool) {
		for _, e := range s.inline {
			if s.has(e) && !yield(place{e, -1, 0}, nil) {
				return
			}
		}
		for i, x := range s.indexes {
			at := 0
			for e, err := range x.All() {
				if err != nil {
					yield(place{}, s.badIndex(i, err))
					return
				}
				if s.has(e) && !yield(place{e, i, at}, nil) {
					return
				}
				at++
			}
		}
	}
}

// infos returns the live packs, sorted by name.
func (s *snapshot) infos() []pack.Info {
	var all []pack.Info
	for _, x := range s.indexes {
		all = append(all, x.packs...)
	}
	for _, p := range s.state.Packs {
		all = append(all, p.Info)
	}
	all = slices.DeleteFunc(all, func(p pack.Info) bool {
		_, live := s.packs[p.Name]
		return !live
	})
	slices.SortFunc(all, func(a, b pack.Info) int { return a.Name.Compare(b.Name) })
	return slices.CompactFunc(all, func(a, b pack.Info) bool { return a.Name == b.Name })
}

// usage returns the use of each live pack, sorted by name.
func (m *marker) usage() ([]*usage, error) {
	infos := m.snap.infos()
	list := make([]*usage, len(infos))
	byName := make(map[pack.Name]*usage, len(infos))
	for i, p := range infos {
		list[i] = &usage{Info: p}
		byName[p.Name] = list[i]
	}
	for p, err := range m.snap.entries() {
		if err != nil {
			return nil, err
		}
		u := byName[p.Pack.Name]
		u.objects++
		mark := m.get(p)
		if !mark.reached {
			continue
		}
		u.reached++
		u.stored += int64(p.Stored)
		u.nodes = u.nodes || p.Key.Kind.IsNode()
		if p.Key.Kind.IsNode() || p.Stored < p.Raw {
			u.gain += int64(p.Stored)
		}
		if mark.copied {
			u.copied++
		}
	}
	return list, nil
}

// chooseRewritten chooses the packs to rewrite: packs to store as small as possible, packs
// with purged objects, the packs with the largest share of waste, until at most maxWaste
// of the rest is waste, and small packs, if there are many.
func chooseRewritten(packs []*usage, maxWaste float64) {
	var some []*usage
	var left, waste int64
	small := map[bool][]*usage{} // by whether they are of nodes
	for _, u := range packs {
		if u.reached == 0 {
			continue
		}
		if u.rewrite = u.repack || u.purged; u.rewrite {
			left += u.live()
			continue
		}
		some = append(some, u)
		left += int64(u.Size)
		waste += u.waste()
		if u.live() < smallPack {
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
func (s *snapshot) dueIndexes(gone func(pack.Name) bool) (due []rootlog.File) {
	if len(s.indexes) > manyIndexes {
		return s.state.Indexes
	}
	for i, x := range s.indexes {
		if slices.ContainsFunc(x.packs, func(p pack.Info) bool { return gone(p.Name) }) {
			due = append(due, s.state.Indexes[i])
		}
	}
	return due
}

// orphanLister is a store that keeps parts of failed or running uploads, which no list
// has.
type orphanLister interface {
	Orphans(ctx context.Context) iter.Seq2[remote.Info, error]
}

// tempRemover is a store in which a killed process leaves files without a name. They are
// useless.
type tempRemover interface {
	RemoveTemps(ctx context.Context, before time.Time) (removed int, err error)
}

// isFile reports whether a name is that of a pack, index or state file.
func isFile(name string) bool {
	n, err := pack.ParseName(path.Base(name))
	return err == nil && (name == n.Path() || name == n.IndexPath() || name == rootlog.StateName(n))
}

// list lists the files of the store, and returns their size. It may miss some files, and
// list deleted ones.
func (f *collectFiles) list(ctx context.Context, r *Remote) (bytes int64, err error) {
	listed := map[string]remote.Info{}
	for _, folder := range []string{"packs/", "index/", "state/"} {
		for info, err := range r.b.List(ctx, folder) {
			if err != nil {
				return 0, err
			}
			if isFile(info.Name) {
				listed[info.Name] = info
				bytes += info.Size
			}
		}
	}
	f.listed = listed
	store, ok := remote.As[orphanLister](r.b)
	if !ok {
		return bytes, nil
	}
	return bytes, retry.Do(ctx, r.o.Retry, "list", func(ctx context.Context) error {
		for info, err := range store.Orphans(ctx) {
			if err != nil {
				return err
			}
			if _, ok := f.listed[info.Name]; !ok && isFile(info.Name) {
				f.listed[info.Name] = info
			}
		}
		return nil
	})
}

// sizeOf returns the size of a file, or 0 if it is not known.
func (c *collectFiles) sizeOf(name string) int64 {
	if size, ok := c.made[name]; ok {
		return size
	}
	return c.listed[name].Size
}

// checkThere makes sure that the packs with reachable objects exist. A pack that the list
// does not have may exist nevertheless.
func (c *Collection) checkThere(ctx context.Context) error {
	return parallel(ctx, c.o.Jobs, len(c.packs), func(ctx context.Context, i int) error {
		u := c.packs[i]
		name := u.Name.Path()
		if info, ok := c.listed[name]; u.reached == 0 || ok && info.Size == int64(u.Size) || c.mend.has(u.Name) {
			return nil
		}
		err := c.r.checkSize(ctx, name, int64(u.Size))
		if errors.Is(err, remote.ErrNotFound) || errors.Is(err, remote.ErrDamaged) {
			err = &NeededError{Err: err}
		}
		return err
	})
}

// orphans returns the old files that no root has named, sorted. They are marked for
// deletion like any other file. Their sender learns of it before a root names them, or by
// the floor (CONDEMN_ORPHANS, IDX_CONDEMN_ORPHANS).
//
// A remote without a root has none: it has lost its roots, or its first push is under way.
// In both cases the files may be the rest of a history.
func (c *Collection) orphans() (names []string) {
	if c.snap.state.Seq == 0 {
		return nil
	}

	known := c.snap.files()
	now := c.r.o.Now()
	for name, info := range c.listed {
		if _, ours := c.made[name]; ours || known[name] {
			continue
		}
		if c.o.PruneAge <= 0 || now.Sub(info.Modified) >= c.o.PruneAge {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// files returns the files that the root names, marked ones included.
func (s *snapshot) files() map[string]bool {
	state, known := s.state, map[string]bool{}
	for name := range state.Condemned {
		known[name] = true
	}
	for _, name := range state.StateFiles() {
		known[name] = true
	}
	for i, f := range state.Indexes {
		known[f.Name.IndexPath()] = true
		for _, p := range s.indexes[i].packs {
			known[p.Name.Path()] = true
		}
	}
	for _, p := range state.Packs {
		known[p.Name.Path()] = true
	}
	return known
}

// aged returns the files that were marked at least age ago, sorted, and when the next one
// was marked. That is zero if there is none.
func (c *Collection) aged(ctx context.Context, age time.Duration) (names []string, next time.Time, err error) {
	now := c.r.o.Now()
	for name, seq := range c.snap.state.Condemned {
		if age <= 0 {
			names = append(names, name)
			continue
		}
		when, err := c.timeOf(ctx, c.r, c.snap.state, seq)
		if err != nil {
			return nil, time.Time{}, err
		}
		switch {
		case when.IsZero():
		case now.Sub(when) >= age:
			names = append(names, name)
		case next.IsZero() || when.Before(next):
			next = when
		}
	}
	slices.Sort(names)
	return names, next, nil
}

// timeOf returns the time of a root, as the root has it. For an unreadable root it returns
// zero.
func (f *collectFiles) timeOf(ctx context.Context, r *Remote, head *rootlog.State, seq uint64) (time.Time, error) {
	if when, ok := f.times[seq]; ok {
		return when, nil
	}
	if seq == head.Seq {
		return head.Time, nil
	}
	var when time.Time
	root, err := r.log.At(ctx, seq)
	switch {
	case err == nil:
		when = root.Time
	case errors.Is(err, remote.ErrDamaged), errors.Is(err, remote.ErrNotFound), errors.Is(err, rootlog.ErrFormat):
		r.o.Warn(fmt.Sprintf("files that root %d marked for deletion stay, because its date is unknown: %v", seq, err))
	default:
		return when, err
	}
	f.times[seq] = when
	return when, nil
}

// mayBeThere reports whether a marked file may still exist.
func (c *collectFiles) mayBeThere(name string) bool {
	_, listed := c.listed[name]
	return !c.deleted[name] && (listed || c.condemned[name])
}

// delete deletes the files that are due. Only deletions that the store has acknowledged
// count.
func (c *Collection) delete(ctx context.Context) error {
	names, _, err := c.aged(ctx, c.o.Grace)
	if err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !c.mayBeThere(name) })
	var mu sync.Mutex
	return parallel(ctx, c.o.Jobs, len(names), func(ctx context.Context, i int) error {
		if err := c.r.b.Delete(ctx, names[i]); err != nil {
			return fmt.Errorf("delete a marked file: %w", err)
		}
		mu.Lock()
		defer mu.Unlock()
		c.deleted[names[i]] = true
		c.stats.Deleted++
		c.stats.After -= c.sizeOf(names[i])
		return nil
	})
}

// countWaiting counts the marked files that are not due yet.
func (c *Collection) countWaiting(ctx context.Context) error {
	aged, next, err := c.aged(ctx, c.o.Grace)
	if err != nil {
		return err
	}
	st := &c.stats
	for name := range c.snap.state.Condemned {
		if _, old := slices.BinarySearch(aged, name); !old && c.mayBeThere(name) {
			st.Waiting++
			st.WaitingBytes += c.sizeOf(name)
		}
	}
	if st.Waiting > 0 && !next.IsZero() {
		st.Next = next.Add(c.o.Grace)
	}
	return nil
}

// countCondemned counts files that are marked for deletion.
func (c *Collection) countCondemned(names []string) {
	st := &c.stats
	for _, name := range names {
		st.Marked++
		st.MarkedBytes += c.sizeOf(name)
		if strings.HasPrefix(name, "index/") {
			st.Indexes++
		}
	}
}

// removeTemps removes the nameless files of killed writers.
func (r *Remote) removeTemps(ctx context.Context, age time.Duration) error {
	store, ok := remote.As[tempRemover](r.b)
	if !ok {
		return nil
	}
	_, err := store.RemoveTemps(ctx, r.o.Now().Add(-max(age, 0)))
	return err
}

// foresee fills in the totals of the plan.
func (c *Collection) foresee(ctx context.Context) error {
	st := &c.stats
	goes := map[pack.Name]bool{}
	condemn := c.orphans()
	for _, u := range c.packs {
		if u.reached > 0 && !u.rewrite {
			continue
		}
		goes[u.Name] = true
		condemn = append(condemn, u.Name.Path())
		st.Removed += int64(u.objects - u.reached)
		st.countCopied(u, u.repack)
		st.After += u.live()
	}
	for _, f := range c.snap.dueIndexes(c.snap.notLive(goes)) {
		condemn = append(condemn, f.Name.IndexPath())
	}
	c.countCondemned(condemn)
	if err := c.countWaiting(ctx); err != nil {
		return err
	}
	names, _, err := c.aged(ctx, c.o.Grace)
	if err != nil {
		return err
	}
	if c.o.Grace <= 0 {
		names = append(names, condemn...)
		slices.Sort(names)
	} else if len(condemn) > 0 {
		st.Waiting += len(condemn)
		st.WaitingBytes += st.MarkedBytes
		if st.Next.IsZero() {
			st.Next = c.r.o.Now().Add(c.o.Grace)
		}
	}
	for _, name := range names {
		if _, listed := c.listed[name]; listed {
			st.Deleted++
			st.After -= c.sizeOf(name)
		}
	}
	old, _, err := c.aged(ctx, c.o.ForgetAfter)
	if c.o.ForgetAfter <= 0 {
		old = append(old, condemn...)
	}
	for _, name := range old {
		if _, now := slices.BinarySearch(names, name); now || !c.mayBeThere(name) {
			st.Forgotten++
		}
	}
	return err
}

package transfer

import (
	"cmp"
	"iter"
	"slices"

	"github.com/kist-vcs/kist/remote/pack"
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

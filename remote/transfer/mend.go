package transfer

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote/pack"
	"github.com/kist-vcs/kist/remote/rootlog"
)

// mending is what makes a repair of a collection: packs that are damaged are
// condemned, and no others, after all that is needed of them was sent again; so
// are index files that are damaged. A nil mending is that of no repair.
type mending struct {
	source  Local // where what is damaged on the remote is taken from
	packs   map[pack.Name]bool
	indexes map[pack.Name]bool

	// lost are objects of damaged packs that no source has intact, and whose loss was
	// accepted here. They count as missing, unless another pack has them.
	lost map[object.Key]bool

	mu     sync.Mutex
	listed map[object.Key]bool // the lost objects that refs reach
}

// findLost fills m.lost.
func (m *mending) findLost(ctx context.Context, snap *snapshot) error {
	for p, err := range snap.entries() {
		if err != nil {
			return err
		}
		if !m.packs[p.Pack.Name] || !isLost(m.source, p.Key) {
			continue
		}
		value, _, err := snap.rescue(ctx, p.Key)
		if err != nil {
			return err
		}
		m.lost[p.Key] = value == nil
	}
	return nil
}

// isLost reports whether the damaged copies of an object count as missing.
func (m *mending) isLost(key object.Key) bool { return m != nil && m.lost[key] }

// list notes that refs reach a lost object.
func (m *mending) list(key object.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.listed[key] = true
}

// loses reports whether refs reach a lost object.
func (m *mending) loses() bool { return m != nil && len(m.listed) > 0 }

// lostAt returns the objects that the root after snap has to list as lost.
func (m *mending) lostAt(snap *snapshot) []object.Key {
	if m == nil {
		return nil
	}
	return slices.DeleteFunc(slices.SortedFunc(maps.Keys(m.listed), object.Key.Compare), func(key object.Key) bool { return !snap.isLost(key) })
}

// lostError says that what is needed of a damaged pack is whole nowhere.
type lostError struct {
	pack pack.Name
	err  error
}

func (e *lostError) Error() string { return e.err.Error() }
func (e *lostError) Unwrap() error { return e.err }

// has reports whether a pack is damaged.
func (m *mending) has(name pack.Name) bool { return m != nil && m.packs[name] }

// condemns reports whether a pack of which nothing is needed any more is to be
// condemned.
func (m *mending) condemns(name pack.Name) bool { return m == nil || m.packs[name] }

// choose has what is needed of damaged packs be sent again.
func (m *mending) choose(packs []*usage) {
	for _, u := range packs {
		u.repack = m.packs[u.Name] && u.reached > 0
	}
}

// due adds the index files that are damaged to those that are to be replaced.
func (m *mending) due(state *rootlog.State, due []rootlog.File) []rootlog.File {
	if m == nil {
		return due
	}
	due = slices.Clone(due)
	for _, f := range state.Indexes {
		if m.indexes[f.Name] && !slices.ContainsFunc(due, func(d rootlog.File) bool { return d.Name == f.Name }) {
			due = append(due, f)
		}
	}
	return due
}

// value returns the stored value of an object that is damaged at e: from here,
// or from another pack that has it.
func (m *mending) value(ctx context.Context, snap *snapshot, e pack.Entry) ([]byte, error) {
	value, raw, err := m.source.GetStored(ctx, e.Key, nil)
	if err == nil && raw == int(e.Raw) {
		return value, nil
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	value, other, rerr := snap.rescue(ctx, e.Key)
	if rerr != nil {
		return nil, rerr
	}
	if value == nil || other.Raw != e.Raw {
		return nil, &lostError{e.Pack.Name, err}
	}
	return value, nil
}

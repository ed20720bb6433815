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

// mending turns a collection into a repair. It marks damaged packs and index files for
// deletion, and nothing else, after it has sent the reachable objects of those packs
// again. A nil mending means no repair.
type mending struct {
	source  Local // the source of objects that are damaged on the remote
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

// lostError is the error for a damaged pack with a reachable object that no source has
// intact.
type lostError struct {
	pack pack.Name
	err  error
}

func (e *lostError) Error() string { return e.err.Error() }
func (e *lostError) Unwrap() error { return e.err }

// has reports whether a pack is damaged.
func (m *mending) has(name pack.Name) bool { return m != nil && m.packs[name] }

// condemns reports whether a pack without reachable objects is marked for deletion.
func (m *mending) condemns(name pack.Name) bool { return m == nil || m.packs[name] }

// choose chooses the damaged packs to be copied.
func (m *mending) choose(packs []*usage) {
	for _, u := range packs {
		u.rewrite = m.packs[u.Name] && u.reached > 0
	}
}

// due adds the damaged index files to the ones that are to be replaced.
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

// value returns the stored value of an object that is damaged at e: from the repository,
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

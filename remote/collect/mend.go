package collect

import (
	"context"
	"slices"

	"github.com/kist-vcs/kist/remote/pack"
	"github.com/kist-vcs/kist/remote/rootlog"
	"github.com/kist-vcs/kist/remote/transfer"
)

// mending turns a collection into a repair. It marks damaged packs and index files for
// deletion, and nothing else, after it has sent the reachable objects of those packs
// again. A nil mending means no repair.
type mending struct {
	*transfer.Damage
	source  transfer.Local // the source of objects that are damaged on the remote
	indexes map[pack.Name]bool
}

// findLost fills m.Lost.
func (m *mending) findLost(ctx context.Context, snap *transfer.Snapshot) error {
	for p, err := range snap.Entries() {
		if err != nil {
			return err
		}
		if !m.Packs[p.Pack.Name] || !transfer.IsLossAccepted(m.source, p.Key) {
			continue
		}
		value, _, err := snap.RescueValue(ctx, p.Key)
		if err != nil {
			return err
		}
		m.Lost[p.Key] = value == nil
	}
	return nil
}

// damage returns the damage that m repairs, or nil.
func (m *mending) damage() *transfer.Damage {
	if m == nil {
		return nil
	}
	return m.Damage
}

// lostError is the error for a damaged pack with a reachable object that no source has
// intact.
type lostError struct {
	pack pack.Name
	err  error
}

func (e *lostError) Error() string { return e.err.Error() }
func (e *lostError) Unwrap() error { return e.err }

// mayReplace reports whether a pack is marked for deletion when it has no reachable objects
// left.
func (m *mending) mayReplace(name pack.Name) bool { return m == nil || m.Packs[name] }

// chooseDamaged chooses the damaged packs to be copied.
func (m *mending) chooseDamaged(packs []*usage) {
	for _, u := range packs {
		u.rewrite = m.Packs[u.Name] && u.reached > 0
	}
}

// dueIndexes adds the damaged index files to the ones to replace.
func (m *mending) dueIndexes(state *rootlog.State, due []rootlog.File) []rootlog.File {
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

// findValue returns the stored value of an object that is damaged at e: from the repository,
// or from another pack that has it.
func (m *mending) findValue(ctx context.Context, snap *transfer.Snapshot, e pack.Entry) ([]byte, error) {
	value, raw, err := m.source.GetStored(ctx, e.Key, nil)
	if err == nil && raw == int(e.Raw) {
		return value, nil
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	value, other, rerr := snap.RescueValue(ctx, e.Key)
	if rerr != nil {
		return nil, rerr
	}
	if value == nil || other.Raw != e.Raw {
		return nil, &lostError{e.Pack.Name, err}
	}
	return value, nil
}

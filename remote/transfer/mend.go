package transfer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/frame"
	"github.com/kist-vcs/kist/refs/record"
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

// replaces reports whether a pack is marked for deletion when it has no reachable objects
// left.
func (m *mending) replaces(name pack.Name) bool { return m == nil || m.packs[name] }

// choose chooses the damaged packs to be copied.
func (m *mending) choose(packs []*usage) {
	for _, u := range packs {
		u.rewrite = m.packs[u.Name] && u.reached > 0
	}
}

// due adds the damaged index files to the ones to replace.
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

// Rescue implements [Source]. It warns of damaged copies.
func (r *Remote) Rescue(ctx context.Context, keys []object.Key, take func(key object.Key, value []byte, raw int) error) error {
	snap, err := r.snapshot(ctx)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	return parallel(ctx, r.o.Jobs, len(keys), func(ctx context.Context, i int) error {
		value, e, err := snap.rescue(ctx, keys[i])
		if err != nil || value == nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		return take(keys[i], value, int(e.Raw))
	})
}

// readPlain returns a verified stored value of the object of e that is no patch.
func (s *snapshot) readPlain(ctx context.Context, e pack.Entry) ([]byte, error) {
	value, data, err := s.readValue(ctx, e)
	if err == nil && frame.IsNear(value) {
		value = frame.NewEncoder(frame.Default).Append(nil, data)
	}
	return value, err
}

// rescue returns the stored value of an object from the first place where it is intact,
// or nil if there is none. It warns of the damaged places.
func (s *snapshot) rescue(ctx context.Context, key object.Key) (value []byte, at pack.Entry, err error) {
	entries, err := s.all(key)
	if err != nil {
		return nil, at, err
	}
	for _, e := range entries {
		value, err := s.readPlain(ctx, e)
		switch {
		case err == nil:
			return value, e, nil
		case !isBad(err) && !errors.Is(err, object.ErrCorrupt):
			return nil, at, fmt.Errorf("read %s: %w", key, err)
		}
		s.r.o.Warn(err.Error())
	}
	return nil, at, nil
}

// refill sends the objects that refs and holds of the remote need and that no live pack
// has. Then it appends a root that names the new packs. It assumes no object to be present
// because a ref reaches it. The error for an object that local does not have is an
// [*object.NotFoundError], unless local accepted the loss: then the root lists the object
// as lost. refill returns the number of objects that it sent.
func (r *Remote) refill(ctx context.Context, local Local, progress func(Progress)) (objects int64, err error) {
	p := &push{
		Remote: r, local: local, opt: PushOptions{Records: &record.Set{}, Jobs: DefaultPushJobs},
		meter: &meter{report: progress}, refill: true,
	}
	if p.own, err = r.takeOver(ctx); err != nil {
		return 0, err
	}
	defer p.close()
	head, err := r.Head(ctx)
	if err == nil {
		err = p.run(ctx, head, p.attemptRefill)
	}
	return p.result.Objects, err
}

// attemptRefill is attempt for a refill.
func (p *push) attemptRefill(ctx context.Context) error {
	snap := p.snap
	p.records = &pushRecords{merged: snap.state.Records}
	p.dropUnusable(snap)
	want := slices.Collect(maps.Values(snap.state.Refs))
	for _, id := range snap.records.Holds() {
		want = append(want, object.Key{Kind: object.KindCommit, ID: id})
	}
	plan, err := p.newPlan(ctx, want, snap.records)
	if err != nil || plan.objects() == 0 && len(plan.kept) == 0 && len(plan.lost) == 0 {
		return err
	}
	p.result.Lost = slices.SortedFunc(maps.Keys(plan.lost), object.Key.Compare)
	return p.carryOut(ctx, plan)
}

package collect

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/graph"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/pack"
	"github.com/kist-vcs/kist/remote/transfer"
)

// NeededError is a reachable object that is damaged or missing, so that the objects below
// it are unknown and nothing can be collected. It matches [object.ErrCorrupt].
type NeededError struct {
	// By is the full name of the ref that reaches it, or a hold; empty: unknown.
	By  string
	Err error
}

func (e *NeededError) Error() string {
	if e.By == "" {
		return e.Err.Error()
	}
	return fmt.Sprintf("needed by %s: %v", e.By, e.Err)
}

// Is makes errors.Is(err, object.ErrCorrupt) true.
func (e *NeededError) Is(target error) bool { return target == object.ErrCorrupt }

// Unwrap returns the cause.
func (e *NeededError) Unwrap() error { return e.Err }

// asNeeded makes damage of a reachable object a [*NeededError]. It returns other errors
// unchanged.
func asNeeded(err error) error {
	if errors.Is(err, object.ErrCorrupt) || errors.Is(err, remote.ErrDamaged) {
		return &NeededError{Err: err}
	}
	return err
}

// marker finds the objects that refs reach. It reads nodes and no chunks, and remembers
// two bits for every entry of every index file. If an object lies in several packs, it is
// marked in one of them.
type marker struct {
	r     *transfer.Remote
	local object.Reader // may be nil
	jobs  int
	mends bool // a damaged node is read from another pack, if one has it
	snap  *transfer.Snapshot
	nodes *transfer.NodePacks

	reached *entrySet // reachable objects
	copied  *entrySet // of these, the ones that were copied into new packs
	kept    int64     // number of reachable objects
}

func newMarker(r *transfer.Remote, local object.Reader, jobs int) (*marker, error) {
	nodes, err := transfer.OpenNodePacks(r.Options().Dir, jobs, r.ReadPack)
	if err != nil {
		return nil, err
	}
	return &marker{r: r, local: local, jobs: jobs, nodes: nodes, reached: newEntrySet(), copied: newEntrySet()}, nil
}

func (m *marker) close() { m.nodes.Close() }

// moveTo moves the marker to a later root. It reports whether that is possible: all marked
// objects must be in live packs there.
func (m *marker) moveTo(snap *transfer.Snapshot) (bool, error) {
	m.reached.addFiles(snap)
	m.copied.addFiles(snap)
	if len(m.reached.files) > len(snap.State.Indexes) {
		return false, nil // an index file was replaced
	}
	if m.snap != nil {
		if !m.snap.State.Records.Equal(snap.State.Records) {
			return false, nil // an object that was given up may be needed again
		}
		for name := range m.snap.Live {
			if !snap.IsLive(name) {
				return false, nil // though an index file may still name it
			}
		}
	}

	m.snap = snap

	for _, set := range []*entrySet{m.reached, m.copied} {
		for key := range set.inline {
			p, ok, err := snap.Find(key)
			if err != nil || !ok {
				return false, err
			}
			if !p.IndexFile.IsZero() { // a push has put it into an index file
				delete(set.inline, key)
				set.add(p)
			}
		}
	}
	return true, nil
}

// markRoots marks the objects that refs of the root and holds reach.
func (m *marker) markRoots(ctx context.Context) error {
	roots := m.gcRoots()
	for _, name := range slices.Sorted(maps.Keys(roots)) {
		err := m.markFrom(ctx, roots[name])
		if transfer.IsBadCopy(err) || transfer.IsAbsent(err) {
			err = &NeededError{name, err}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// gcRoots returns the objects that refs and holds name, by the name of the ref or hold.
func (m *marker) gcRoots() map[string]object.Key {
	roots := map[string]object.Key{}
	maps.Copy(roots, m.snap.State.Refs)
	for _, id := range m.snap.Records.Holds() {
		roots["the hold of "+id.String()] = object.Key{Kind: object.KindCommit, ID: id}
	}
	return roots
}

// markFrom marks an object and everything below it. It walks the last nodes first, so that
// few wait.
func (m *marker) markFrom(ctx context.Context, key object.Key) error {
	top, err := m.snap.Locate(key)
	if err != nil || !m.markObject(top) {
		return err
	}
	return graph.Batches(ctx, []pack.Entry{top.Entry}, transfer.BatchSize, func(batch []pack.Entry) (next []pack.Entry, err error) {
		lists, err := m.readPlaces(ctx, batch)
		if err != nil {
			return nil, err
		}
		for _, p := range slices.Concat(lists...) {
			if m.markObject(p) && p.Key.Kind.IsNode() {
				next = append(next, p.Entry)
			}
		}
		return next, nil
	})
}

// markObject marks an object, and reports whether that was the first time.
func (m *marker) markObject(p transfer.Place) (first bool) {
	if first = m.reached.add(p); first {
		m.kept++
	}
	return first
}

// readPlaces reads nodes and returns the places of the objects that they link to.
func (m *marker) readPlaces(ctx context.Context, batch []pack.Entry) ([][]transfer.Place, error) {
	links, err := m.readLinks(ctx, batch, func(err error) error { return err })
	if err != nil {
		return nil, err
	}
	lists := make([][]transfer.Place, len(batch))
	return lists, transfer.Parallel(ctx, m.jobs, len(batch), func(ctx context.Context, i int) error {
		for _, link := range links[i] {
			if m.snap.Records.Skips(batch[i].Key, link) {
				continue // it was given up on purpose
			}
			p, err := m.snap.Locate(link)
			if err != nil {
				return err
			}
			lists[i] = append(lists[i], p)
		}
		return nil
	})
}

// readLinks returns the links of nodes. It returns no links of a node for whose error failed
// returns nil.
func (m *marker) readLinks(ctx context.Context, batch []pack.Entry, failed func(error) error) ([][]object.Key, error) {
	data := make([][]byte, len(batch))
	err := transfer.Parallel(ctx, m.jobs, len(batch), func(ctx context.Context, i int) (err error) {
		data[i], err = m.localNode(ctx, batch[i].Key)
		return err
	})
	if err != nil {
		return nil, err
	}

	var away []pack.Entry
	for i, e := range batch {
		if data[i] == nil {
			away = append(away, e)
		}
	}

	m.nodes.LoadValues(ctx, away)
	links := make([][]object.Key, len(batch))
	return links, transfer.Parallel(ctx, m.jobs, len(batch), func(ctx context.Context, i int) (err error) {
		if data[i] == nil {
			data[i], err = m.remoteNode(ctx, batch[i])
		}
		if err == nil {
			links[i], err = object.Links(batch[i].Key.Kind, data[i])
		}
		if err != nil {
			err = failed(err)
		}
		return err
	})
}

// localNode returns a node from the repository, or nil if that does not have it intact.
func (m *marker) localNode(ctx context.Context, key object.Key) ([]byte, error) {
	if m.local == nil {
		return nil, nil
	}
	data, err := m.local.Get(ctx, key)
	if transfer.IsAbsent(err) {
		return nil, nil
	}
	return data, err
}

// remoteNode returns a node from the remote, where its pack was taken. In a repair, it may
// come from another pack.
func (m *marker) remoteNode(ctx context.Context, e pack.Entry) ([]byte, error) {
	data, err := m.snap.ReadNode(ctx, m.nodes, e)
	if err == nil {
		return data, nil
	}
	if !transfer.IsBadCopy(err) {
		return nil, fmt.Errorf("read %s: %w", e.Key, err)
	}
	if !m.mends {
		return nil, err
	}
	value, e, rerr := m.snap.RescueValue(ctx, e.Key)
	if rerr != nil {
		return nil, rerr
	}
	if value == nil {
		return nil, err
	}
	e.Stored = uint32(len(value))
	return pack.Decode(e, value)
}

// notePurged notes which packs still have purged objects that nothing else needs. They are
// rewritten, however small these are.
func (m *marker) notePurged(ctx context.Context, packs []*usage) error {
	left, err := m.purgedLeft(ctx)
	if err != nil || len(left) == 0 {
		return err
	}
	byName := make(map[pack.Name]*usage, len(packs))
	for _, u := range packs {
		byName[u.Name] = u
	}
	for p, err := range m.snap.Entries() {
		if err != nil {
			return err
		}
		if u := byName[p.Pack.Name]; u != nil && left[p.Key] {
			u.purged = true
		}
	}
	return nil
}

// purgedLeft returns the purged objects that still exist and that nothing else needs.
func (m *marker) purgedLeft(ctx context.Context) (map[object.Key]bool, error) {
	left := map[object.Key]bool{}
	for keys := m.snap.Records.AllPurged(); len(keys) > 0; {
		from := max(0, len(keys)-transfer.BatchSize)
		var lists []pack.Entry
		for _, key := range keys[from:] {
			p, there, err := m.snap.Find(key)
			if err != nil {
				return nil, err
			}
			if !there || left[key] || m.reached.has(p) {
				continue
			}
			left[key] = true
			if key.Kind.IsNode() {
				lists = append(lists, p.Entry)
			}
		}
		keys = keys[:from]
		links, err := m.purgedLinks(ctx, lists)
		if err != nil {
			return nil, err
		}
		for _, list := range links {
			keys = append(keys, list...)
		}
	}
	return left, nil
}

// purgedLinks returns the links of lists of chunks. An unreadable list has none: its
// chunks cannot be found.
func (m *marker) purgedLinks(ctx context.Context, lists []pack.Entry) ([][]object.Key, error) {
	return m.readLinks(ctx, lists, func(err error) error {
		if !errors.Is(err, remote.ErrNotFound) && (transfer.IsBadCopy(err) || errors.Is(err, object.ErrCorrupt)) {
			return nil
		}
		return err // if a pack is gone, the head may be outdated
	})
}

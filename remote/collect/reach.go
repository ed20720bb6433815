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

// reachFinder finds the objects that refs and holds reach. It reads nodes and no chunks, and
// remembers two bits for every entry of every index file. If an object lies in several packs, one
// of its entries is in reached.
type reachFinder struct {
	r                *transfer.Remote
	local            object.Reader // may be nil
	jobs             int
	readsOtherCopies bool // a damaged node is read from another pack, if one has it
	snap             *transfer.Snapshot
	nodePacks        *transfer.NodePacks

	reached      *entrySet // reachable objects
	copied       *entrySet // of these, the ones that were copied into new packs
	reachedCount int64     // number of reachable objects
}

func newReachFinder(r *transfer.Remote, local object.Reader, jobs int) (*reachFinder, error) {
	nodes, err := transfer.OpenNodePacks(r.Options().Dir, jobs, r.ReadPack)
	if err != nil {
		return nil, err
	}
	return &reachFinder{r: r, local: local, jobs: jobs, nodePacks: nodes, reached: newEntrySet(), copied: newEntrySet()}, nil
}

func (f *reachFinder) close() { f.nodePacks.Close() }

// moveToRoot moves the finder to a later root and keeps the objects in reached. It reports whether
// that is possible: they must all be in live packs there.
func (f *reachFinder) moveToRoot(snap *transfer.Snapshot) (bool, error) {
	f.reached.addFiles(snap)
	f.copied.addFiles(snap)
	if len(f.reached.files) > len(snap.State.Indexes) {
		return false, nil // an index file was replaced
	}
	if f.snap != nil {
		if !f.snap.State.Records.Equal(snap.State.Records) {
			return false, nil // an object that was given up may be needed again
		}
		for name := range f.snap.Live {
			if !snap.IsLive(name) {
				return false, nil // though an index file may still name it
			}
		}
	}

	f.snap = snap

	for _, set := range []*entrySet{f.reached, f.copied} {
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

// findFromRoots adds the objects that refs of the root and holds reach to reached. The error is a
// [*NeededError] if one is damaged or missing.
func (f *reachFinder) findFromRoots(ctx context.Context) error {
	roots := f.gcRoots()
	for _, name := range slices.Sorted(maps.Keys(roots)) {
		err := f.findFrom(ctx, roots[name])
		if transfer.IsBadCopy(err) || object.IsUnreadable(err) {
			err = &NeededError{name, err}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// gcRoots returns the objects that refs and holds name, by the name of the ref or hold.
func (f *reachFinder) gcRoots() map[string]object.Key {
	roots := map[string]object.Key{}
	maps.Copy(roots, f.snap.State.Refs)
	for _, id := range f.snap.Records.Holds() {
		roots["the hold of "+id.String()] = object.Key{Kind: object.KindCommit, ID: id}
	}
	return roots
}

// findFrom adds an object and everything below it to reached. It walks the last nodes first, so that
// few wait.
func (f *reachFinder) findFrom(ctx context.Context, key object.Key) error {
	top, err := f.snap.Locate(key)
	if err != nil || !f.addReached(top) {
		return err
	}
	return graph.Batches(ctx, []pack.Entry{top.Entry}, transfer.BatchSize, func(batch []pack.Entry) (next []pack.Entry, err error) {
		lists, err := f.placesOfLinks(ctx, batch)
		if err != nil {
			return nil, err
		}
		for _, p := range slices.Concat(lists...) {
			if f.addReached(p) && p.Key.Kind.IsNode() {
				next = append(next, p.Entry)
			}
		}
		return next, nil
	})
}

// addReached adds an object to reached, and reports whether it is new.
func (f *reachFinder) addReached(p transfer.Place) (first bool) {
	if first = f.reached.add(p); first {
		f.reachedCount++
	}
	return first
}

// placesOfLinks reads nodes and returns the places of the objects that they link to, by node.
func (f *reachFinder) placesOfLinks(ctx context.Context, batch []pack.Entry) ([][]transfer.Place, error) {
	links, err := f.readLinks(ctx, batch, func(err error) error { return err })
	if err != nil {
		return nil, err
	}
	lists := make([][]transfer.Place, len(batch))
	return lists, transfer.Parallel(ctx, f.jobs, len(batch), func(ctx context.Context, i int) error {
		for _, link := range links[i] {
			if f.snap.Records.Skips(batch[i].Key, link) {
				continue // it was given up on purpose
			}
			p, err := f.snap.Locate(link)
			if err != nil {
				return err
			}
			lists[i] = append(lists[i], p)
		}
		return nil
	})
}

// readLinks returns the links of nodes, by node. An unreadable node ends it with the error that
// keepError returns for the cause. If that is nil, the node has no links.
func (f *reachFinder) readLinks(ctx context.Context, batch []pack.Entry, keepError func(error) error) ([][]object.Key, error) {
	data := make([][]byte, len(batch))
	err := transfer.Parallel(ctx, f.jobs, len(batch), func(ctx context.Context, i int) (err error) {
		data[i], err = f.localNode(ctx, batch[i].Key)
		return err
	})
	if err != nil {
		return nil, err
	}

	var onRemote []pack.Entry
	for i, e := range batch {
		if data[i] == nil {
			onRemote = append(onRemote, e)
		}
	}

	f.nodePacks.LoadValues(ctx, onRemote)
	links := make([][]object.Key, len(batch))
	return links, transfer.Parallel(ctx, f.jobs, len(batch), func(ctx context.Context, i int) (err error) {
		if data[i] == nil {
			data[i], err = f.remoteNode(ctx, batch[i])
		}
		if err == nil {
			links[i], err = object.Links(batch[i].Key.Kind, data[i])
		}
		if err != nil {
			err = keepError(err)
		}
		return err
	})
}

// localNode returns a node from the repository, or nil if that does not have it intact.
func (f *reachFinder) localNode(ctx context.Context, key object.Key) ([]byte, error) {
	if f.local == nil {
		return nil, nil
	}
	data, err := f.local.Get(ctx, key)
	if object.IsUnreadable(err) {
		return nil, nil
	}
	return data, err
}

// remoteNode returns a node from the remote, after f.nodePacks has loaded it. In a repair, it may
// come from another pack.
func (f *reachFinder) remoteNode(ctx context.Context, e pack.Entry) ([]byte, error) {
	data, err := f.snap.ReadNode(ctx, f.nodePacks, e)
	if err == nil {
		return data, nil
	}
	if !transfer.IsBadCopy(err) {
		return nil, fmt.Errorf("read %s: %w", e.Key, err)
	}
	if !f.readsOtherCopies {
		return nil, err
	}
	value, e, rerr := f.snap.RescueValue(ctx, e.Key)
	if rerr != nil {
		return nil, rerr
	}
	if value == nil {
		return nil, err
	}
	e.Stored = uint32(len(value))
	return pack.Decode(e, value)
}

// notePurged notes which packs still have unreachable purged objects. These packs are rewritten,
// however small the objects are.
func (f *reachFinder) notePurged(ctx context.Context, packs []*livePack) error {
	remaining, err := f.purgedLeft(ctx)
	if err != nil || len(remaining) == 0 {
		return err
	}
	byName := make(map[pack.Name]*livePack, len(packs))
	for _, p := range packs {
		byName[p.Name] = p
	}
	for at, err := range f.snap.Entries() {
		if err != nil {
			return err
		}
		if p := byName[at.Pack.Name]; p != nil && remaining[at.Key] {
			p.hasPurged = true
		}
	}
	return nil
}

// purgedLeft returns the purged objects that still exist and are unreachable.
func (f *reachFinder) purgedLeft(ctx context.Context) (map[object.Key]bool, error) {
	remaining := map[object.Key]bool{}
	for keys := f.snap.Records.AllPurged(); len(keys) > 0; {
		from := max(0, len(keys)-transfer.BatchSize)
		var lists []pack.Entry
		for _, key := range keys[from:] {
			p, found, err := f.snap.Find(key)
			if err != nil {
				return nil, err
			}
			if !found || remaining[key] || f.reached.has(p) {
				continue
			}
			remaining[key] = true
			if key.Kind.IsNode() {
				lists = append(lists, p.Entry)
			}
		}
		keys = keys[:from]
		links, err := f.purgedLinks(ctx, lists)
		if err != nil {
			return nil, err
		}
		for _, list := range links {
			keys = append(keys, list...)
		}
	}
	return remaining, nil
}

// purgedLinks returns the links of lists of chunks. An unreadable list has none: its
// chunks cannot be found.
func (f *reachFinder) purgedLinks(ctx context.Context, lists []pack.Entry) ([][]object.Key, error) {
	return f.readLinks(ctx, lists, func(err error) error {
		if !errors.Is(err, remote.ErrNotFound) && (transfer.IsBadCopy(err) || errors.Is(err, object.ErrCorrupt)) {
			return nil
		}
		return err // if a pack is gone, the head may be outdated
	})
}

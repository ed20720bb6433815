package transfer

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote/pack"
	"github.com/kist-vcs/kist/remote/rootlog"
)

// Locator finds objects of a remote at one root, in the cheapest way: unlike a [Snapshot], it reads only parts of large
// index files. It is safe for concurrent use until its Remote makes another Locator or snapshot, which closes index
// files.
type Locator struct {
	atRoot
	whole []wholeIndex
	parts []*indexParts

	mu     sync.Mutex         // guards the following
	recent []*knownPack       // packs whose own index was read, the last one first
	bad    map[pack.Name]bool // packs whose own index cannot be read
}

// wholeIndex is an index file with a complete copy here.
type wholeIndex struct {
	rootlog.File
	*IndexFile
}

// knownPack has the entries of a pack, sorted by key.
type knownPack struct {
	name    pack.Name
	entries []pack.Entry
}

// The rules for reading indexes of packs.
const (
	fewKeys      = 2        // keys that are looked up one by one
	someKeys     = 8        // of more keys, four are looked up next
	probes       = 4        // keys that are looked up to find the packs of the others
	knownPacks   = 1024     // indexes of packs in memory
	knownEntries = 200_000  // of them, at 68 bytes each
	leastIndex   = 16 << 10 // bytes of a pack's end that are read for its index
)

// LocatorAt returns a Locator at head, or at a later head if an index file is missing. See [Remote.SnapshotAt].
func (r *Remote) LocatorAt(ctx context.Context, head *rootlog.State) (*Locator, error) {
	return locatorAt(ctx, r, head, r.o.CopiedIndexes)
}

// locatorAt is LocatorAt, with the limit of [IndexFiles.openSome].
func locatorAt(ctx context.Context, r *Remote, head *rootlog.State, limit int64) (l *Locator, err error) {
	err = r.RetryAtHead(ctx, head, func(head *rootlog.State) error {
		whole, parts, err := r.indexes.openSome(ctx, head.Indexes, limit)
		if err == nil {
			l = newLocator(r, head, whole, parts)
		}
		return err
	})
	return l, asDamage(err)
}

// newLocator returns a Locator at head. Each index file is in whole, if it is not in parts.
func newLocator(r *Remote, head *rootlog.State, whole []*IndexFile, parts []*indexParts) *Locator {
	l := &Locator{bad: map[pack.Name]bool{}}
	var named [][]pack.Info
	for i := range whole {
		if x := whole[i]; x != nil {
			l.whole, named = append(l.whole, wholeIndex{head.Indexes[i], x}), append(named, x.PackInfos)
		} else {
			l.parts, named = append(l.parts, parts[i]), append(named, parts[i].Packs())
		}
	}
	l.atRoot = newAtRoot(r, head, named)
	return l
}

// Locate returns the entry of each of keys, which must be sorted. The entry of an object that is in no live pack is
// zero.
func (l *Locator) Locate(ctx context.Context, keys []object.Key) ([]pack.Entry, error) {
	found := make([]pack.Entry, len(keys))
	var open []int // the keys that were not found
	for i, key := range keys {
		if e, ok := l.inline[key]; ok && l.hasEntry(e) {
			found[i] = e
			continue
		}
		e, err := l.findInWhole(key)
		if err != nil {
			return nil, err
		}
		if found[i] = e; e.Key.IsZero() {
			open = append(open, i)
		}
	}
	if len(l.parts) == 0 || len(open) == 0 {
		return found, ctx.Err()
	}

	open = l.findInPacks(l.knownPacks(), keys, open, found)
	open, err := l.findByNeighbours(ctx, keys, open, found)
	if err != nil {
		return nil, err
	}
	_, err = l.findInParts(ctx, keys, open, found)
	return found, err
}

// ownIndexSize estimates the size of a pack's own index in bytes: as if all chunks were as large as the one of e. Nodes lie beside nodes, and
// have some KiB on average.
func ownIndexSize(e pack.Entry) int64 {
	const perObject = 50
	size := e.Stored
	if e.Key.Kind.IsNode() {
		size = max(size, 4<<10)
	}
	return int64(e.Pack.Size)/int64(size+perObject)*perObject + leastIndex
}

// findInWhole returns the entry of an object by the index files that are here, or a zero one.
func (l *Locator) findInWhole(key object.Key) (pack.Entry, error) {
	for _, x := range l.whole {
		e, ok, err := x.Find(key)
		if err != nil {
			return e, l.r.indexes.damagedCopy(x.File, x.IndexFile, err)
		}
		if ok && l.hasEntry(e) {
			return e, nil
		}
	}
	return pack.Entry{}, nil
}

// findInParts looks for open keys in the index files in parts. It returns the keys that are in none.
func (l *Locator) findInParts(ctx context.Context, keys []object.Key, open []int, found []pack.Entry) ([]int, error) {
	for _, x := range l.parts {
		if len(open) == 0 {
			break
		}
		wanted := make([]object.Key, len(open))
		for i, at := range open {
			wanted[i] = keys[at]
		}
		entries, err := x.find(ctx, wanted)
		if err != nil {
			return nil, err
		}
		var left []int
		for i, at := range open {
			if e := entries[i]; !e.Key.IsZero() && l.hasEntry(e) {
				found[at] = e
			} else {
				left = append(left, at)
			}
		}
		open = left
	}
	return open, ctx.Err()
}

// findInPacks looks for open keys in packs. It returns the keys that are in none.
func (l *Locator) findInPacks(packs []*knownPack, keys []object.Key, open []int, found []pack.Entry) (left []int) {
	for _, at := range open {
		for _, p := range packs {
			i, ok := slices.BinarySearchFunc(p.entries, keys[at], func(e pack.Entry, key object.Key) int { return e.Key.Compare(key) })
			if ok && l.hasEntry(p.entries[i]) {
				found[at] = p.entries[i]
				break
			}
		}
		if found[at].Key.IsZero() {
			left = append(left, at)
		}
	}
	return left
}

// findByNeighbours looks up one of several keys, and then a few, and looks for the others in the indexes of the same packs: neighbours in a
// folder or a file are neighbours in a pack. It goes on while that finds more than it costs. It returns the keys that were not found.
func (l *Locator) findByNeighbours(ctx context.Context, keys []object.Key, open []int, found []pack.Entry) ([]int, error) {
	for n := 1; len(open) > fewKeys; {
		var tried []int
		for i := range n {
			tried = append(tried, open[i*len(open)/n])
		}
		if _, err := l.findInParts(ctx, keys, tried, found); err != nil {
			return nil, err
		}
		open = slices.DeleteFunc(open, func(at int) bool { return !found[at].Key.IsZero() })

		var packs []pack.Entry
		for _, at := range tried {
			e := found[at]
			same := func(have pack.Entry) bool { return have.Pack.Name == e.Pack.Name }
			if !e.Key.IsZero() && !slices.ContainsFunc(packs, same) && ownIndexSize(e) <= int64(len(open))*2*requestCost {
				packs = append(packs, e)
			}
		}
		known, cost, err := l.readPackIndexes(ctx, packs)
		if err != nil {
			return nil, err
		}
		before := len(open)
		open = l.findInPacks(known, keys, open, found)
		if int64(before-len(open))*2*requestCost <= cost {
			if n == probes || len(open) <= someKeys {
				break
			}
			n = probes
		}
	}
	return open, nil
}

// knownPacks returns the packs whose indexes were read.
func (l *Locator) knownPacks() []*knownPack {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.recent)
}

// readPackIndexes reads the own indexes of the packs of entries, and returns their cost. No two entries are in one pack. It passes over packs
// whose index is known, or cannot be read: the index files have their entries, too.
func (l *Locator) readPackIndexes(ctx context.Context, entries []pack.Entry) (read []*knownPack, cost int64, err error) {
	l.mu.Lock()
	entries = slices.DeleteFunc(entries, func(e pack.Entry) bool {
		return l.bad[e.Pack.Name] || slices.ContainsFunc(l.recent, func(k *knownPack) bool { return k.name == e.Pack.Name })
	})
	l.mu.Unlock()

	lists, costs := make([]*knownPack, len(entries)), make([]int64, len(entries))
	err = Parallel(ctx, l.r.o.Jobs, len(entries), func(ctx context.Context, i int) error {
		info := entries[i].Pack
		list, err := pack.ReadIndexOnly(info, int(ownIndexSize(entries[i])), func(p []byte, off int64) (int, error) {
			costs[i] += requestCost + int64(len(p))
			return l.r.ReadPack(ctx, info, p, off)
		})
		if err != nil && !IsBadCopy(err) && !object.IsUnreadable(err) {
			return fmt.Errorf("read pack %s: %w", info.Name, err)
		}
		if err == nil {
			lists[i] = &knownPack{info.Name, list}
		}
		return nil
	})
	if err != nil {
		return nil, 0, err
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	for i, k := range lists {
		cost += costs[i]
		if k == nil {
			l.bad[entries[i].Pack.Name] = true
			continue
		}
		read = append(read, k)
		l.recent = slices.Insert(l.recent, 0, k)
	}
	total := 0
	for i, k := range l.recent {
		if total += len(k.entries); i == knownPacks || i > 0 && total > knownEntries {
			l.recent = l.recent[:i]
			break
		}
	}
	return read, cost, nil
}

// locateAny is Locate for keys in any order.
func (l *Locator) locateAny(ctx context.Context, keys []object.Key) (map[object.Key]pack.Entry, error) {
	sorted := slices.SortedFunc(slices.Values(keys), object.Key.Compare)
	entries, err := l.Locate(ctx, slices.Compact(sorted))
	if err != nil {
		return nil, err
	}
	found := make(map[object.Key]pack.Entry, len(entries))
	for _, e := range entries {
		if !e.Key.IsZero() {
			found[e.Key] = e
		}
	}
	return found, nil
}

// locateOne returns the entry of an object. The error for one that is in no live pack is an [*object.AbsentError].
func (l *Locator) locateOne(ctx context.Context, key object.Key) (pack.Entry, error) {
	entries, err := l.Locate(ctx, []object.Key{key})
	if err != nil {
		return pack.Entry{}, err
	}
	if entries[0].Key.IsZero() {
		return pack.Entry{}, &object.AbsentError{Key: key}
	}
	return entries[0], nil
}

// entriesIn yields the live entries in the root, and in the index files that are here and have at most so many.
func (l *Locator) entriesIn(most int) iter.Seq2[pack.Entry, error] {
	return func(yield func(pack.Entry, error) bool) {
		for _, e := range l.inline {
			if l.hasEntry(e) && !yield(e, nil) {
				return
			}
		}
		for _, x := range l.whole {
			if x.Len() > most {
				continue
			}
			for e, err := range x.All() {
				if err != nil {
					yield(e, l.r.indexes.damagedCopy(x.File, x.IndexFile, err))
					return
				}
				if l.hasEntry(e) && !yield(e, nil) {
					return
				}
			}
		}
	}
}

// mostNodes is the number of bytes of an index file up to which readNodes reads all that look-ups of nodes need: that of some two million
// files.
const mostNodes = 4 << 20

// readNodes reads and keeps the parts of index files that have nodes, and the tables. Then a look-up of a node needs no request, and one
// of a chunk a single one. It does nothing without a copy, and for larger parts.
func (l *Locator) readNodes(ctx context.Context) error {
	for _, x := range l.parts {
		if x.copy == nil {
			continue
		}
		if err := x.ReadNodes(ctx, mostNodes); err != nil && !IsBadCopy(err) { // a look-up finds the damage
			return err
		}
	}
	return nil
}

// ofKind returns the live entries of all objects of a kind, some of them twice. Complete is false if an index file has so many
// that they cost too much.
func (l *Locator) ofKind(ctx context.Context, k object.Kind) (entries []pack.Entry, complete bool, err error) {
	for _, e := range l.inline {
		if e.Key.Kind == k && l.hasEntry(e) {
			entries = append(entries, e)
		}
	}
	for _, x := range l.whole {
		for e, err := range x.OfKind(k) {
			if err != nil {
				return nil, false, l.r.indexes.damagedCopy(x.File, x.IndexFile, err)
			}
			if l.hasEntry(e) {
				entries = append(entries, e)
			}
		}
	}
	for _, x := range l.parts {
		found, complete, err := x.OfKind(ctx, k)
		if err != nil || !complete {
			return nil, false, err
		}
		for _, e := range found {
			if l.hasEntry(e) {
				entries = append(entries, e)
			}
		}
	}
	return entries, true, ctx.Err()
}

// Get implements [object.Reader].
func (l *Locator) Get(ctx context.Context, key object.Key) ([]byte, error) {
	e, err := l.locateOne(ctx, key)
	if err != nil {
		return nil, err
	}
	return l.ReadObject(ctx, e)
}

// Missing implements [object.Reader].
func (l *Locator) Missing(ctx context.Context, keys []object.Key) ([]object.Key, error) {
	found, err := l.locateAny(ctx, keys)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(keys), func(key object.Key) bool { _, ok := found[key]; return ok }), nil
}

// EntriesOf returns the entries of an object in all live packs.
func (l *Locator) EntriesOf(ctx context.Context, key object.Key) (entries []pack.Entry, err error) {
	add := func(e pack.Entry) {
		if e.Key == key && l.IsLive(e.Pack.Name) && !slices.ContainsFunc(entries, func(have pack.Entry) bool { return have.Pack.Name == e.Pack.Name }) {
			entries = append(entries, e)
		}
	}
	for _, p := range l.State.Packs {
		for _, e := range p.Entries {
			add(e)
		}
	}
	for _, x := range l.whole {
		e, _, err := x.Find(key)
		if err != nil {
			return nil, l.r.indexes.damagedCopy(x.File, x.IndexFile, err)
		}
		add(e)
	}
	for _, x := range l.parts {
		found, err := x.find(ctx, []object.Key{key})
		if err != nil {
			return nil, err
		}
		add(found[0])
	}
	return entries, nil
}

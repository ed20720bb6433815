package transfer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote/pack"
)

// packGiver gives the objects in the packs of a remote.
type packGiver struct {
	*fetch
	r      *Remote
	where  *Locator                  // of the objects at the last known head
	placed map[object.Key]pack.Entry // the nodes of the last prepareNodes
	moved  bool                      // the head has changed since the fetch began
	nodes  *NodePacks
	values *pack.Values
	plan   *readPlan // of a window
	window int       // see planWindow
	ahead  ahead     // of the walk
	past   *pastCommits
	begun  bool // BeginChunks was called
}

// planAndCopy plans the fetch at the last known head and carries it out.
func (g *packGiver) planAndCopy(ctx context.Context) error {
	limit := g.r.o.CopiedIndexes
	if g.wantsAll() {
		limit = math.MaxInt64
	}
	where, err := locatorAt(ctx, g.r, g.at, limit)
	if err != nil {
		return err
	}
	g.moved = g.moved || where.State.Seq != g.at.Seq
	g.where, g.at, g.placed = where, where.State, nil
	g.plan, g.ahead, g.past = newReadPlan(), ahead{}, nil
	if g.o.CommitsOnly {
		g.past = newPastCommits(g)
	}
	if g.o.CommitsOnly && len(g.o.Have) == 0 { // a clone, which soon needs trees
		if err := where.readNodes(ctx); err != nil {
			return err
		}
	}
	if err := g.receiveAll(ctx); err != nil {
		return err
	}
	return g.copyChunks(ctx)
}

// wantsAll reports whether nothing is here, and the fetch brings all that refs reach: it needs complete index files.
func (g *packGiver) wantsAll() bool {
	for _, key := range g.at.Refs {
		if !slices.Contains(g.o.Want, key) {
			return false
		}
	}
	return len(g.o.Have) == 0 && !g.o.CommitsOnly
}

func (g *packGiver) giverName() string { return "remote" }

// Get implements [object.Reader].
func (g *packGiver) Get(ctx context.Context, key object.Key) ([]byte, error) {
	return g.where.Get(ctx, key)
}

// Missing implements [object.Reader].
func (g *packGiver) Missing(ctx context.Context, keys []object.Key) ([]object.Key, error) {
	return g.where.Missing(ctx, keys)
}

// prepareNodes reads the packs of nodes, several at once.
func (g *packGiver) prepareNodes(ctx context.Context, nodes []object.Key) error {
	if g.past != nil {
		nodes = slices.DeleteFunc(slices.Clone(nodes), isHistory)
	}
	found, entries, err := g.locate(ctx, nodes)
	if err != nil {
		return err
	}
	g.placed = found
	g.nodes.LoadValues(ctx, entries)
	return nil
}

// locate returns the entries of objects, in their order, and by key.
func (g *packGiver) locate(ctx context.Context, keys []object.Key) (map[object.Key]pack.Entry, []pack.Entry, error) {
	found, err := g.where.locateAny(ctx, keys)
	if err != nil {
		return nil, nil, err
	}
	entries := make([]pack.Entry, len(keys))
	for i, key := range keys {
		var ok bool
		if entries[i], ok = found[key]; !ok {
			return nil, nil, &object.AbsentError{Key: key}
		}
	}
	return found, entries, nil
}

func (g *packGiver) giveNode(ctx context.Context, key object.Key) (data []byte, err error) {
	if g.past != nil && isHistory(key) {
		return g.past.give(ctx, key)
	}
	e, ok := g.placed[key]
	if !ok {
		if e, err = g.where.locateOne(ctx, key); err != nil {
			return nil, err
		}
	}
	entries := []pack.Entry{e}
	if key.Kind == object.KindCommit { // the walk asks for commits one by one
		if entries, err = g.entriesAhead(ctx, e); err != nil {
			return nil, err
		}
	}
	g.nodes.LoadValues(ctx, entries)
	return g.receiveNode(ctx, e)
}

// planWindow is the number of chunks from which on a walk receives them before it goes on.
const planWindow = 1_000_000

// giveChunks adds the absent chunks to the plan. If these are many, it receives them.
func (g *packGiver) giveChunks(ctx context.Context, keys []object.Key) error {
	keys = slices.DeleteFunc(keys, func(key object.Key) bool { return g.plan.has(key) })
	absent, err := g.absentHere(ctx, keys)
	if err != nil {
		return err
	}
	_, entries, err := g.locate(ctx, absent)
	if err != nil {
		return err
	}
	for _, e := range entries {
		g.plan.add(e)
	}
	if g.plan.n < g.window {
		return nil
	}
	return g.copyWindow(ctx)
}

// receiveNode stores a node whose pack was taken, and returns it.
func (g *packGiver) receiveNode(ctx context.Context, e pack.Entry) ([]byte, error) {
	value, err := g.nodes.StoredValue(e)
	if err == nil {
		var data []byte
		if data, err = g.decodeAndStore(ctx, g.nodes.Values, e, value); err == nil {
			return data, nil
		}
	}
	if !IsBadCopy(err) {
		return nil, fmt.Errorf("read %s: %w", e.Key, err)
	}
	return g.rereadObject(ctx, e.Key)
}

// explainDeleted returns the error for an object that is missing on the remote, after the
// head has changed since the fetch began. The error matches [ErrDeleted] if no ref
// reaches a wanted commit, or names another wanted object, any more. Packs may be
// deleted again by now: then it matches [remote.ErrNotFound], too.
func (g *packGiver) explainDeleted(ctx context.Context, missing error) error {
	named := map[object.Key]bool{}
	var refs []object.Key
	for _, key := range g.at.Refs {
		named[key] = true
		refs = append(refs, key)
	}

	var history *walker
	for _, key := range g.o.Want {
		if named[key] {
			continue
		}
		if history == nil && key.Kind == object.KindCommit {
			history = newWalker(g.fetch, g.records.views)
			if _, err := history.walkHistory(ctx, refs, nil); err != nil {
				return errors.Join(missing, err)
			}
		}
		if key.Kind != object.KindCommit || history.past[key.ID] == nil {
			return fmt.Errorf("%s: %w", key, ErrDeleted)
		}
	}
	return missing
}

// readCounted reads from a pack and counts the bytes. It returns fewer bytes than asked
// for if the pack ends there.
func (g *packGiver) readCounted(ctx context.Context, p pack.Info, b []byte, off int64) (int, error) {
	n, err := g.r.ReadPack(ctx, p, b, off)
	if err != nil {
		return 0, err
	}
	g.meter.Update(func(at *Progress) { at.Bytes += int64(n) })
	return n, nil
}

// readBases reads patch bases that are not part of the plan, and adds their bytes
// to the progress total.
func (g *packGiver) readBases(ctx context.Context, p pack.Info, b []byte, off int64) (int, error) {
	n, err := g.readCounted(ctx, p, b, off)
	g.meter.Update(func(at *Progress) {
		if at.TotalBytes > 0 {
			at.TotalBytes += int64(n)
		}
	})
	return n, err
}

// The walk of a history reads one commit after the other. After small pushes, each
// commit may be in another pack, and each pack costs a request. So the more packs the
// walk had to wait for, the more it reads ahead.
const (
	aheadPack    = 1 << 20 // bytes of the largest pack that is taken ahead
	aheadEntries = 50_000  // of the largest index file that is looked through for some
	aheadMost    = 64      // packs at once
)

// ahead knows packs that hold commits which are not here.
type ahead struct {
	waited int          // packs that were not taken when they were needed
	packs  []pack.Entry // a commit of each; not known until the second was waited for
}

// entriesAhead returns the entries whose packs the walk reads together: the entry of a
// commit, and about as many others as packs were waited for so far.
func (g *packGiver) entriesAhead(ctx context.Context, e pack.Entry) ([]pack.Entry, error) {
	entries := []pack.Entry{e}
	if g.nodes.IsPackOpened(e) {
		return entries, nil
	}
	g.ahead.waited++
	switch g.ahead.waited {
	case 1:
		return entries, nil
	case 2:
		if err := g.findPacksAhead(ctx); err != nil {
			return nil, err
		}
	}
	for len(g.ahead.packs) > 0 && len(entries) < min(1<<min(g.ahead.waited, 10), aheadMost) {
		next := g.ahead.packs[0]
		g.ahead.packs = g.ahead.packs[1:]
		if !g.nodes.IsPackOpened(next) {
			entries = append(entries, next)
		}
	}
	return entries, nil
}

// findPacksAhead finds small packs with commits that are not here.
func (g *packGiver) findPacksAhead(ctx context.Context) error {
	found := map[object.Key]pack.Entry{}
	for e, err := range g.where.entriesIn(aheadEntries) {
		if err != nil {
			return err
		}
		if e.Key.Kind == object.KindCommit && e.Pack.Size <= aheadPack {
			found[e.Key] = e
		}
	}

	absent, err := g.absentHere(ctx, slices.Collect(maps.Keys(found)))
	if err != nil {
		return err
	}

	seen := map[pack.Name]bool{}
	for _, key := range absent {
		if e := found[key]; !seen[e.Pack.Name] {
			seen[e.Pack.Name] = true
			g.ahead.packs = append(g.ahead.packs, e)
		}
	}
	return nil
}

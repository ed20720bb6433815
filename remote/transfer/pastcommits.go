package transfer

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/remote/pack"
)

// pastCommits gives the commits and tags to a fetch without their content. The walk of a history reads one after the other. So from some
// commits on, pastCommits reads all that are not here: in the index and in the packs they are mostly neighbours.
type pastCommits struct {
	g      *packGiver
	blocks *pack.Values // of the commits that are read one by one
	waited int          // commits that were not in memory
	asked  bool         // all commits were looked for
	found  map[object.Key]pastCommit
}

// pastCommit is a commit or tag in memory.
type pastCommit struct {
	entry pack.Entry
	data  []byte
}

const (
	pastBlock  = 16 << 10  // bytes that are read for one commit
	pastSingly = 3         // commits that are read so
	pastMost   = 64 << 20  // stored bytes of commits in memory
	pastNumber = 1_000_000 // of them
)

func newPastCommits(g *packGiver) *pastCommits {
	return &pastCommits{g: g, blocks: pack.NewValues(g.readCounted, pastBlock), found: map[object.Key]pastCommit{}}
}

// isHistory reports whether key is of a commit or tag.
func isHistory(key object.Key) bool {
	return key.Kind == object.KindCommit || key.Kind == object.KindTag
}

// give stores a commit or tag, and returns it.
func (p *pastCommits) give(ctx context.Context, key object.Key) ([]byte, error) {
	c, ok := p.found[key]
	if !ok {
		if p.waited++; !p.asked && (len(p.g.o.Have) == 0 || p.waited > pastSingly) {
			if err := p.readAll(ctx); err != nil {
				return nil, err
			}
			c, ok = p.found[key]
		}
	}
	if ok {
		delete(p.found, key)
		return c.data, p.g.storeObject(ctx, c.entry, c.data)
	}

	e, err := p.g.where.locateOne(ctx, key)
	if err != nil {
		return nil, err
	}
	value, err := p.blocks.ReadStored(ctx, e)
	if err == nil {
		var data []byte
		if data, err = p.g.decodeAndStore(ctx, p.blocks, e, value); err == nil {
			return data, nil
		}
	}
	if !IsBadCopy(err) {
		return nil, err
	}
	p.blocks.DropPack(e.Pack.Name)
	return p.g.rereadObject(ctx, key)
}

// withoutKeeps returns entries without those of the commits that keep refs name: each lies in a pack of its own, and is not wanted.
func (p *pastCommits) withoutKeeps(entries []pack.Entry) []pack.Entry {
	kept := map[object.Key]bool{}
	for name, key := range p.g.at.Refs {
		if strings.HasPrefix(name, refs.Keep) {
			kept[key] = true
		}
	}
	return slices.DeleteFunc(entries, func(e pack.Entry) bool { return kept[e.Key] })
}

// readAll reads all commits and tags of the remote that are not here, unless there are too many.
func (p *pastCommits) readAll(ctx context.Context) error {
	p.asked = true
	entries := map[object.Key]pack.Entry{}
	stored := 0
	for _, kind := range []object.Kind{object.KindCommit, object.KindTag} {
		list, complete, err := p.g.where.ofKind(ctx, kind)
		if err != nil && !IsBadCopy(err) {
			return err
		}
		if err != nil || !complete {
			p.blocks = pack.NewValues(p.g.readCounted, nodeBlock)
			return nil
		}
		var keys []object.Key
		for _, e := range p.withoutKeeps(list) {
			if _, twice := entries[e.Key]; !twice {
				entries[e.Key] = e
				keys = append(keys, e.Key)
			}
		}
		absent, err := p.g.absentHere(ctx, keys)
		if err != nil {
			return err
		}
		wanted := make(map[object.Key]bool, len(absent))
		for _, key := range absent {
			wanted[key] = true
			stored += int(entries[key].Stored)
		}
		for _, key := range keys {
			if !wanted[key] {
				delete(entries, key)
			}
		}
	}
	if stored > pastMost || len(entries) > pastNumber {
		p.blocks = pack.NewValues(p.g.readCounted, nodeBlock)
		return nil
	}

	plan := newReadPlan()
	for _, e := range entries {
		plan.add(e)
	}
	plan.sortRecords()
	var mu sync.Mutex // guards p.found
	return plan.readAll(ctx, p.g.jobs, p.g.readCounted, func(ctx context.Context, v readValue) error {
		if v.err != nil {
			return nil // give reads it once more
		}
		data, err := p.g.values.Decode(ctx, v.Entry, v.value, v.held)
		if err != nil {
			if IsBadCopy(err) {
				return nil
			}
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		p.found[v.Key] = pastCommit{v.Entry, append([]byte(nil), data...)}
		return nil
	})
}

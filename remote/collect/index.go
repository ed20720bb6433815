package collect

import (
	"context"
	"iter"
	"maps"
	"slices"

	"github.com/kist-vcs/kist/remote/pack"
	"github.com/kist-vcs/kist/remote/rootlog"
	"github.com/kist-vcs/kist/remote/transfer"
)

// nameNewPacks adds to change the new packs, and the replacement of the index files in replaced. The root
// itself lists the packs, or a new index file does, which nameNewPacks sends. It makes that file if index
// files are replaced, or if the packs are too many.
//
// The new index file has the entries of all live packs that the replaced ones or the root name,
// except packs in emptied. Unreachable entries of live packs are included: a push may rely on all
// that is live.
func (c *Collection) nameNewPacks(ctx context.Context, change *rootlog.Change, replaced []rootlog.File, emptied map[pack.Name]bool) error {
	gone := func(name pack.Name) bool { return emptied[name] }
	inline := c.inlineNewPacks(emptied)
	needsIndex := len(replaced) > 0 || len(inline) < len(c.newPacks.infos)
	if c.newIndex != nil && (!needsIndex || !c.newIndex.FitsAfter(c.snap, replaced, gone)) {
		c.abandonNewIndex()
	}
	if !needsIndex {
		change.AddPacks = inline
		return nil
	}
	if c.newIndex == nil {
		var err error
		if c.newIndex, err = c.mergeIndexes(ctx, replaced, gone); err != nil {
			return err
		}
	}
	if c.newIndex != nil {
		replaced = c.newIndex.Replaced
		change.AddIndexes = c.newIndex.Listed()
		change.Merged = c.newIndex.Inline
	}

	for _, f := range replaced {
		change.Condemn = append(change.Condemn, f.Name.IndexPath())
	}
	return nil
}

// inlineNewPacks returns the new packs as a root holds them, or nil if there are none, or too
// many.
func (c *Collection) inlineNewPacks(emptied map[pack.Name]bool) []rootlog.Inline {
	stay := slices.DeleteFunc(slices.Clone(c.snap.State.Packs), func(p rootlog.Inline) bool { return emptied[p.Name] })
	if c.newPacks.objectCount > transfer.MaxInlineEntries || rootlog.InlineSize(c.newPacks.inline)+rootlog.InlineSize(stay) > rootlog.MaxInline {
		return nil
	}
	return c.newPacks.inline
}

// mergeIndexes returns index files in place of those in replaced, after it has sent them: one, unless it were too large. It
// returns nil if no pack is left to name.
func (c *Collection) mergeIndexes(ctx context.Context, replaced []rootlog.File, gone func(pack.Name) bool) (*transfer.BuiltIndexes, error) {
	var inline []pack.Name
	named := map[pack.Name]struct{}{}
	infos := map[pack.Name]pack.Info{}
	add := func(p pack.Info) bool {
		if !c.snap.IsLive(p.Name) || gone(p.Name) { // IDX_LIVE_ONLY
			return false
		}
		infos[p.Name] = p
		named[p.Name] = struct{}{}
		return true
	}

	n := c.newPacks.objectCount
	var sources []iter.Seq2[pack.Entry, error]
	for i, f := range c.snap.State.Indexes {
		if !slices.ContainsFunc(replaced, func(d rootlog.File) bool { return d.Name == f.Name }) {
			continue
		}
		for _, p := range c.snap.Indexes[i].PackInfos {
			add(p)
		}
		n += c.snap.Indexes[i].Len()
		sources = append(sources, func(yield func(pack.Entry, error) bool) {
			for e, err := range c.snap.Indexes[i].All() {
				if err != nil {
					err = c.snap.IndexDamage(i, err)
				}
				if !yield(e, err) {
					return
				}
			}
		})
	}

	for _, p := range c.snap.State.Packs {
		if add(p.Info) {
			inline = append(inline, p.Name)
			n += len(p.Entries)
			sources = append(sources, withoutErrors(p.Entries))
		}
	}

	for _, own := range c.newPacks.indexes {
		sources = append(sources, own.Entries())
	}
	for _, p := range c.newPacks.infos {
		infos[p.Name] = p
	}
	if len(infos) == 0 {
		return nil, nil
	}

	x, err := c.r.Indexes().BuildMerged(slices.Collect(maps.Values(infos)), n, sources...)
	if err != nil {
		return nil, err
	}

	x.Replaced, x.Inline, x.Named = replaced, inline, named
	if err := x.Send(ctx, c.r); err != nil {
		return nil, err
	}

	for _, f := range x.Files {
		noteSent(c, f.Name.IndexPath(), f.Size)
	}
	return x, nil
}

func withoutErrors(entries []pack.Entry) iter.Seq2[pack.Entry, error] {
	return func(yield func(pack.Entry, error) bool) {
		for _, e := range entries {
			if !yield(e, nil) {
				return
			}
		}
	}
}

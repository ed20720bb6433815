package transfer

import (
	"context"
	"fmt"
	"slices"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote/pack"
	"github.com/kist-vcs/kist/remote/retry"
	"github.com/kist-vcs/kist/remote/rootlog"
)

// atRoot is what a [Snapshot] and a [Locator] know of the content of a remote at one root.
type atRoot struct {
	r      *Remote
	State  *rootlog.State
	Live   map[pack.Name]struct{}
	packs  []pack.Info // live, sorted by name
	inline map[object.Key]pack.Entry
}

// newAtRoot returns the content at head. Named has the packs of each index file.
func newAtRoot(r *Remote, head *rootlog.State, named [][]pack.Info) atRoot {
	a := atRoot{r: r, State: head, Live: head.Live(named...), inline: map[object.Key]pack.Entry{}}
	for _, p := range a.inlinePacks() {
		named = append(named, []pack.Info{p.Info})
		for _, e := range p.Entries {
			a.inline[e.Key] = e
		}
	}

	all := slices.DeleteFunc(slices.Concat(named...), func(p pack.Info) bool { return !a.IsLive(p.Name) })
	slices.SortFunc(all, func(a, b pack.Info) int { return a.Name.Compare(b.Name) })
	a.packs = slices.CompactFunc(all, func(a, b pack.Info) bool { return a.Name == b.Name })
	return a
}

// inlinePacks returns the live packs whose entries lie in the root.
func (a *atRoot) inlinePacks() []rootlog.Inline {
	return slices.DeleteFunc(slices.Clone(a.State.Packs), func(p rootlog.Inline) bool { return !a.IsLive(p.Name) })
}

// LivePacks returns the live packs, sorted by name. The caller owns the slice.
func (a *atRoot) LivePacks() []pack.Info { return slices.Clone(a.packs) }

// IsLive reports whether a pack is live.
func (a *atRoot) IsLive(name pack.Name) bool {
	_, live := a.Live[name]
	return live
}

// hasEntry reports whether e is in a live pack. A repair hides the lost objects of damaged
// packs.
func (a *atRoot) hasEntry(e pack.Entry) bool {
	return a.IsLive(e.Pack.Name) && !(a.r.damage.HasPack(e.Pack.Name) && a.r.damage.hidesObject(e.Key))
}

// ReadObject returns the verified object of e. The error for a damaged one is an
// [*object.CorruptError] that names the pack.
func (a *atRoot) ReadObject(ctx context.Context, e pack.Entry) ([]byte, error) {
	_, data, err := a.readValue(ctx, e)
	return data, err
}

// readValue is ReadObject that also returns the stored value.
func (a *atRoot) readValue(ctx context.Context, e pack.Entry) (value, data []byte, err error) {
	err = retry.Verified(func() error {
		value = make([]byte, e.Stored)
		n, err := a.r.ReadPack(ctx, e.Pack, value, int64(e.Offset))
		if err != nil {
			return fmt.Errorf("read %s: %w", e.Key, err)
		}
		data, err = a.r.values.Decode(ctx, e, value[:n], pack.Part{})
		return err
	})
	return value, data, err
}

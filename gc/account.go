package gc

import (
	"context"
	"errors"
	"slices"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/graph"
	"github.com/kist-vcs/kist/object/volume"
)

// Amount is the number and size of a set of objects, each counted once.
type Amount struct {
	Objects int64
	Raw     int64 // bytes of the objects
	Stored  int64 // bytes of the stored values: compressed, without the overhead of a volume
}

func (a *Amount) add(raw, stored int64) {
	a.Objects++
	a.Raw += raw
	a.Stored += stored
}

// Share is the amount that one holder has.
type Share struct {
	All Amount
	Own Amount // objects that no other holder has: garbage without this holder
}

// Holder keeps objects from being garbage: a branch, say, or a commit.
// [Holders.Members] lists its objects.
type Holder struct {
	// Outside excludes the holder's objects from [Account.Together].
	Outside bool

	// Weak gives shared objects to the others: an object that one other holder
	// has is its own, as if this holder did not have it. At most one holder can
	// be weak.
	Weak bool
}

// Member is an object that holders have, with all objects below it except
// commits. Each commit needs a Member of its own.
type Member struct {
	Key     object.Key
	Holders uint64 // a set of 64: bit i is the holder of number first+i
	Hint    bool   // it may be missing, or damaged
}

// Holders lists all holders of a store's objects.
type Holders struct {
	List []Holder

	// Members visits the objects of up to 64 holders, from number first on. It
	// is called once for every 64 holders.
	Members func(ctx context.Context, first int, visit func(Member) error) error

	// Index and Head are numbers of two of the first 64 holders. An object of
	// both belongs to Head alone. If they are equal, there is no such pair.
	Index, Head int

	// Skips, if not nil, reports whether a link from a node to an object is
	// not followed.
	Skips func(from, to object.Key) bool

	// Progress, if not nil, receives the number of objects visited so far.
	Progress func(objects int64)
}

// Account is the use of a store by its holders, exact to the byte.
type Account struct {
	Shares   []Share // by number of the holder
	Together Amount  // objects with a holder that is not weak, and none that is outside
	Held     Amount  // objects with a holder
	Unheld   Amount  // objects without a holder
	Copies   Amount  // second and further copies of held objects
	Volumes  []VolumeUse
	Left     int64 // bytes that interrupted writes left on the disk

	// Incomplete is set if a held object is missing from the store.
	Incomplete bool
}

// VolumeUse is the used part of a volume.
type VolumeUse struct {
	volume.Info
	Held Amount // its held objects, without further copies
}

// Waste returns how many bytes the volume would shrink by, approximately, if it
// had only its held objects.
func (v *VolumeUse) Waste() int64 {
	return v.Bytes - liveBytes(&v.Info, v.Held.Objects, v.Held.Stored)
}

// NewAccount computes which holders have which objects. It waits for no other
// process and changes nothing.
//
// It needs 12 bytes of memory for every object of every volume. It reads nodes
// but no chunks: each node once for every 64 holders, or a few times if it lies
// at different depths. It returns a [*NeededError] if an object is damaged.
func NewAccount(ctx context.Context, store *volume.Store, h Holders) (*Account, error) {
	view, err := store.Look(ctx)
	if err != nil {
		if aborts(ctx, err) {
			return nil, err
		}
		return nil, &NeededError{Err: err}
	}

	t := &teller{view: view, objects: store, h: h, account: &Account{Shares: make([]Share, len(h.List))}}
	t.grow()

	for first := 0; first < len(h.List); first += 64 {
		for _, use := range t.use {
			clear(use.holders)
		}

		visit := func(m Member) error { return t.visit(ctx, m) }
		if err := h.Members(ctx, first, visit); err != nil {
			return nil, err
		}
		for hint := range t.front {
			if err := t.walk(ctx, hint == 1); err != nil {
				return nil, err
			}
		}
		if err := t.assign(ctx, first); err != nil {
			return nil, err
		}
	}
	return t.account, t.total(ctx)
}

// leftover lists the volumes that still have purged objects that nothing else
// needs. gc removes these objects however small they are.
type leftover struct {
	volumes map[int]bool
	lists   map[int]bool // volumes with purged nodes, which lead to the other purged objects
	held    bool         // a volume with purged objects stays for now, so lists must stay too
}

// leftover finds the remaining purged objects.
func (m *marker) leftover(ctx context.Context) (*leftover, error) {
	l := &leftover{volumes: map[int]bool{}, lists: map[int]bool{}}
	err := graph.Walk(ctx, map[object.Key]bool{}, m.records.AllPurged(), func(key object.Key) ([]object.Key, error) {
		places, err := m.view.Find(key, nil)
		if damaged := (*object.CorruptError)(nil); errors.As(err, &damaged) {
			return nil, nil // no part of it can be read
		}
		if err != nil {
			return nil, err
		}
		places = slices.DeleteFunc(places, func(p volume.Place) bool { return p.Gone })
		// A marked object is live for another reason, with all objects below it.
		if len(places) == 0 || slices.ContainsFunc(places, func(p volume.Place) bool { return m.use[p.Volume].has(p.Index) }) {
			return nil, nil
		}
		for _, p := range places {
			l.volumes[p.Volume] = true
			l.held = l.held || m.use[p.Volume].stays
			if key.Kind.IsNode() {
				l.lists[p.Volume] = true
			}
		}
		links, err := graph.Links(ctx, m.objects, key)
		if err != nil && !aborts(ctx, err) && !errors.Is(err, object.ErrNewerFormat) {
			err = nil // the links of a damaged node cannot be found
		}
		return links, err
	})
	return l, err
}

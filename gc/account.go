package gc

import (
	"context"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
)

// Amount is how much some objects are, each counted once.
type Amount struct {
	Objects int64
	Raw     int64 // bytes of the objects
	Stored  int64 // bytes of the stored values: compressed, without what a volume adds
}

func (a *Amount) add(raw, stored int64) {
	a.Objects++
	a.Raw += raw
	a.Stored += stored
}

// Share is what one holder has.
type Share struct {
	All Amount
	Own Amount // what no other holder has: what would be garbage without it
}

// Holder is somebody who keeps objects from being garbage: a branch, say, or a
// commit. What it has is told by [Holders.Members].
type Holder struct {
	// Outside: what it has is not part of [Account.Together].
	Outside bool

	// Weak: what others have is theirs alone, as if this one did not have it.
	// At most one holder can be weak.
	Weak bool
}

// Member is an object that holders have, with all below it except commits,
// which have to be told one by one.
type Member struct {
	Key     object.Key
	Holders uint64 // a set of 64: bit i is the holder of number first+i
	Hint    bool   // it may be missing, or damaged
}

// Holders are all who have something in a store.
type Holders struct {
	List []Holder

	// Members tells what up to 64 holders have, those from number first on. It
	// is called once for every 64 holders.
	Members func(ctx context.Context, first int, visit func(Member) error) error

	// Index and Head are two of the first 64 holders: what both have is only
	// Head's. Equal: there are no such.
	Index, Head int

	// Skips, if not nil, says which links from a node to an object are not
	// followed.
	Skips func(from, to object.Key) bool

	// Progress, if not nil, is told how many objects were looked at.
	Progress func(objects int64)
}

// Account tells who has what in a store, to the byte.
type Account struct {
	Shares   []Share // by number of the holder
	Together Amount  // what some have, but none that is outside, or weak
	Held     Amount  // what anybody has
	Unheld   Amount  // what nobody has
	Copies   Amount  // second and further copies of what is held
	Volumes  []VolumeUse
	Left     int64 // bytes on the disk that interrupted writes left

	// Incomplete says that something that is held is not in the store.
	Incomplete bool
}

// VolumeUse is what of a volume is used.
type VolumeUse struct {
	volume.Info
	Held Amount // what of it is held, and not a further copy
}

// Waste returns how many bytes the volume has for nothing: about as many would
// it be smaller by if it had only what is held.
func (v *VolumeUse) Waste() int64 {
	return v.Bytes - liveBytes(&v.Info, v.Held.Objects, v.Held.Stored)
}

// NewAccount finds out who has what. It waits for nobody and changes nothing.
// It remembers 12 bytes for every object of every volume, and reads nodes and
// no chunks: each once for every 64 holders, or a few times if it lies at
// different depths. A [*NeededError] says that something is damaged.
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

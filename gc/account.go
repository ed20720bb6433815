package gc

import (
	"context"
	"errors"
	mathbits "math/bits"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/graph"
	"github.com/kist-vcs/kist/object/keys"
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

	// Weak gives shared objects to the other holders: if one other holder has an object,
	// the object is its own. At most one holder can be weak.
	Weak bool
}

// Member is an object that holders have, with all objects below it except
// commits. Each commit needs a Member of its own.
type Member struct {
	Key     object.Key
	Holders uint64 // a set of 64: bit i is the holder of number first+i
	Hint    bool   // the object may be missing or damaged
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

	// Skips, if not nil, reports whether to ignore a link from a node to an
	// object.
	Skips func(from, to object.Key) bool

	// Progress, if not nil, receives the number of objects visited so far.
	Progress func(objects int64)
}

// Account is the use of a store by its holders, exact to the byte.
type Account struct {
	Shares   []Share // by number of the holder
	Together Amount  // objects with a holder that is not weak, and with no outside holder
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
	inventory, err := store.Inventory(ctx)
	if err != nil {
		return nil, neededError(ctx, "", err)
	}

	t := &accountant{inventory: inventory, objects: store, h: h, account: &Account{Shares: make([]Share, len(h.List))}}
	t.addVolumes()

	for first := 0; first < len(h.List); first += 64 {
		for _, use := range t.use {
			clear(use.holders)
		}

		visit := func(m Member) error { return t.visitMember(ctx, m) }
		if err := h.Members(ctx, first, visit); err != nil {
			return nil, err
		}
		for hint := range t.front {
			if err := t.walkWaiting(ctx, hint == 1); err != nil {
				return nil, err
			}
		}
		if err := t.assignOwners(ctx, first); err != nil {
			return nil, err
		}
	}

	return t.account, t.computeTotals(ctx)
}

// accountant computes an [Account].
type accountant struct {
	inventory *volume.Inventory
	objects   object.Reader
	h         Holders
	account   *Account
	use       []volumeHolders // by number of the volume

	front  [2]map[object.Key]uint64 // holders of nodes to walk; the second map is for hints
	places []volume.Place           // a buffer for findPlace and computeTotals
	looked int64

	settled bool // no volume has appeared since the first listing
}

// volumeHolders lists the holders of the objects of a volume, by position. Only the
// first copy of an object has holders.
type volumeHolders struct {
	holders []uint64 // a set of the present 64
	owner   []uint32
}

// An owner is noOwner, manyOwners, or firstOwner plus the number of the
// only holder. It may have the flags isOutside and isWeak.
const (
	noOwner    = 0
	manyOwners = 1
	firstOwner = 2

	onlyOwner = 1<<30 - 1
	isOutside = 1 << 30
	isWeak    = 1 << 31
)

// maxFront is the most nodes that wait for a walk while members are visited.
const maxFront = 1 << 16

func (t *accountant) addVolumes() {
	for i := len(t.use); i < t.inventory.Len(); i++ {
		n := t.inventory.Volume(i).Objects
		t.use = append(t.use, volumeHolders{make([]uint64, n), make([]uint32, n)})
	}
}

func (t *accountant) visitMember(ctx context.Context, m Member) error {
	if t.h.Skips != nil && t.h.Skips(object.Key{}, m.Key) {
		return nil
	}
	i := 0
	if m.Hint {
		i = 1
	}
	if !m.Key.Kind.IsNode() {
		_, err := t.addHolders(ctx, m.Key, m.Holders, m.Hint)
		return err
	}
	if t.front[i] == nil {
		t.front[i] = map[object.Key]uint64{}
	}
	t.front[i][m.Key] |= m.Holders
	if len(t.front[i]) >= maxFront {
		return t.walkWaiting(ctx, m.Hint)
	}
	return nil
}

// walkWaiting adds the waiting nodes, and all objects below them, to their holders. Unlike
// [graph.Walk] it descends level by level and collects the holders of a level first.
// So it visits an object of several holders only once, as a rule.
func (t *accountant) walkWaiting(ctx context.Context, hint bool) error {
	front := t.front[0]
	if hint {
		front = t.front[1]
	}
	defer clear(front)
	for level := front; len(level) > 0; {
		next := map[object.Key]uint64{}
		for key, holders := range level {
			if err := ctx.Err(); err != nil {
				return err
			}
			holders, err := t.addHolders(ctx, key, holders, hint)
			if err != nil {
				return err
			}
			if holders == 0 {
				continue
			}
			links, err := t.readLinks(ctx, key, hint)
			if err != nil {
				return err
			}
			for _, link := range links {
				switch {
				case link.Kind == object.KindCommit, t.h.Skips != nil && t.h.Skips(key, link):
				case link.Kind.IsNode():
					next[link] |= holders
				default:
					if _, err := t.addHolders(ctx, link, holders, hint); err != nil {
						return err
					}
				}
			}
		}
		level = next
	}

	return nil
}

func (t *accountant) readLinks(ctx context.Context, key object.Key, hint bool) ([]object.Key, error) {
	links, err := graph.Links(ctx, t.objects, key)
	if hint && !endsWalk(ctx, err) {
		err = nil
	}
	return links, neededError(ctx, "", err)
}

// addHolders adds holders to an object, and returns the holders that are new to it.
func (t *accountant) addHolders(ctx context.Context, key object.Key, holders uint64, hint bool) (uint64, error) {
	p, ok, err := t.findPlace(ctx, key)
	switch {
	case err != nil && hint && !endsWalk(ctx, err):
		return 0, nil
	case err != nil:
		return 0, neededError(ctx, "", err)
	case !ok:
		t.account.Incomplete = t.account.Incomplete || !hint
		return 0, nil
	}

	has := &t.use[p.Volume].holders[p.Index]
	added := holders &^ *has
	*has |= holders
	if t.looked++; t.h.Progress != nil && t.looked%1024 == 0 {
		t.h.Progress(t.looked)
	}
	return added, nil
}

// findPlace returns the first place of an object, and whether the object is present.
func (t *accountant) findPlace(ctx context.Context, key object.Key) (volume.Place, bool, error) {
	for {
		places, err := t.inventory.Find(key, t.places[:0])
		t.places = places
		if err != nil {
			return volume.Place{}, false, err
		}
		if len(places) > 0 {
			return places[0], true, nil
		}
		if t.settled {
			return volume.Place{}, false, nil
		}

		// Another process may have replaced a volume while the inventory was read.
		if err := t.inventory.Refresh(ctx); err != nil {
			return volume.Place{}, false, err
		}
		t.settled = t.inventory.Len() == len(t.use)
		t.addVolumes()
	}
}

// assignOwners counts the objects of up to 64 holders, from number first on, and
// records the only holder of an object.
func (t *accountant) assignOwners(ctx context.Context, first int) error {
	var weak, outside uint64
	for i, h := range t.h.List[first:min(first+64, len(t.h.List))] {
		if h.Weak {
			weak |= 1 << i
		}
		if h.Outside {
			outside |= 1 << i
		}
	}

	var yields, to uint64
	if first == 0 && t.h.Index != t.h.Head {
		yields, to = 1<<t.h.Index, 1<<t.h.Head
	}
	return t.eachObject(ctx, func(i int, rec keys.Record) error {
		raw, stored := int64(rec.Raw), int64(rec.Stored)
		use := &t.use[i]
		has := use.holders[rec.Index]
		for left := has; left != 0; left &= left - 1 {
			t.account.Shares[first+mathbits.TrailingZeros64(left)].All.add(raw, stored)
		}
		if has&to != 0 {
			has &^= yields
		}
		owner := &use.owner[rec.Index]
		if has&weak != 0 {
			*owner |= isWeak
		}
		if has&outside != 0 {
			*owner |= isOutside
		}
		switch has &^= weak; {
		case has == 0:
		case *owner&onlyOwner == noOwner && has&(has-1) == 0:
			*owner |= uint32(first + mathbits.TrailingZeros64(has) + firstOwner)
		default:
			*owner = *owner&^onlyOwner | manyOwners
		}
		return nil
	})
}

// computeTotals computes the sums that need the owners of all objects. It runs after
// assignOwners has seen all holders.
func (t *accountant) computeTotals(ctx context.Context) error {
	a := t.account
	left, err := t.inventory.Leftovers(ctx)
	if err != nil {
		return err
	}
	for _, l := range left {
		a.Left += l.Bytes
	}

	weak := -1
	for i, h := range t.h.List {
		if h.Weak {
			weak = i
		}
	}

	for i := range t.inventory.Len() {
		a.Volumes = append(a.Volumes, VolumeUse{Info: t.inventory.Volume(i).Info})
	}

	return t.eachObject(ctx, func(i int, rec keys.Record) error {
		raw, stored := int64(rec.Raw), int64(rec.Stored)
		owner := t.use[i].owner[rec.Index]
		switch only := owner & onlyOwner; {
		case only >= firstOwner:
			a.Shares[only-firstOwner].Own.add(raw, stored)
		case only == noOwner && owner&isWeak != 0:
			a.Shares[weak].Own.add(raw, stored)
		}
		if owner&onlyOwner != noOwner && owner&isOutside == 0 {
			a.Together.add(raw, stored)
		}
		if owner != noOwner {
			a.Held.add(raw, stored)
			a.Volumes[i].Held.add(raw, stored)
			return nil
		}
		places, err := t.inventory.Find(rec.Key, t.places[:0])
		t.places = places
		switch {
		case err != nil && !errors.Is(err, object.ErrCorrupt):
			return &NeededError{Err: err}
		case err == nil && (places[0].Volume != i || places[0].Index != rec.Index):
			a.Copies.add(raw, stored)
		default:
			a.Unheld.add(raw, stored)
		}
		return nil
	})
}

// eachObject visits the objects of all volumes.
func (t *accountant) eachObject(ctx context.Context, visit func(volume int, rec keys.Record) error) error {
	for i := range t.inventory.Len() {
		for rec, err := range objectsFrom(ctx, t.inventory, i, object.KindChunk) {
			if err == nil {
				err = visit(i, rec)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

package volume

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/object/keys"
)

// Inventory lists the volumes of a store, and finds the places of objects in them. It
// numbers the volumes from 0. Volumes that appear later get the next numbers. It is not safe
// for concurrent use.
type Inventory struct {
	store   *Store
	locked  bool // only this process removes volumes
	volumes []*listedVolume
	names   map[string]bool
}

// listedVolume is a volume of an inventory.
type listedVolume struct {
	v    *sealedVolume
	o    *openVolume
	gone bool
}

// Listed describes a volume of an inventory.
type Listed struct {
	Info
	InUse bool // the session that wrote it is not closed: the volume cannot be removed
	Gone  bool // the sweep removed it
}

// Place is the place of a copy of an object.
type Place struct {
	Volume int   // number of the volume
	Index  int   // number of the object in the order of the volume's keys, from 0
	Stored int64 // bytes of the stored value
	Gone   bool  // the sweep removed the volume
}

// Inventory returns the volumes of the store. Other processes may remove volumes, or maintain
// the store: the inventory still finds the objects in removed volumes. It need not be closed.
func (s *Store) Inventory(ctx context.Context) (*Inventory, error) {
	inv := &Inventory{store: s, names: map[string]bool{}}
	return inv, inv.Refresh(ctx)
}

// Refresh adds the volumes that have appeared. It returns an error if one cannot be
// searched: a [*object.DamageError] if it is damaged.
func (inv *Inventory) Refresh(ctx context.Context) error {
	for {
		err := inv.takeUp(ctx)
		if _, damaged := err.(*object.DamageError); err == nil || damaged || inv.locked || !isGone(err) {
			return err
		}
		// Another process removed a volume after it was listed.
	}
}

// takeUp adds the volumes that have appeared, once.
func (inv *Inventory) takeUp(ctx context.Context) error {
	l, err := inv.store.listVolumes()
	if err != nil {
		return fmt.Errorf("list volumes: %w", err)
	}
	for _, v := range l.volumes {
		if err := ctx.Err(); err != nil {
			return err
		}
		if inv.names[v.name] {
			continue
		}
		o, err := v.ensureOpen()
		if err == nil {
			_, err = v.describe()
		}
		if err == nil && v.info.Load().Objects != o.index.Len() {
			err = damageError(v.name, keysFile, errors.New("its number of objects is not that of the seal"))
		}
		if err != nil {
			return err
		}
		inv.names[v.name] = true
		inv.volumes = append(inv.volumes, &listedVolume{v: v, o: o})
	}
	return nil
}

// Len returns the number of volumes, including removed ones.
func (inv *Inventory) Len() int { return len(inv.volumes) }

// Volume describes volume i.
func (inv *Inventory) Volume(i int) Listed {
	e := inv.volumes[i]
	info := *e.v.info.Load()
	return Listed{Info: info, Gone: e.gone, InUse: !e.gone && disk.IsLocked(inv.store.lockPath(info.Session))}
}

// Find appends the places of all copies of an object to places. It skips copies that are
// known to be damaged. If there are no others, it reads these once more, because a damaged
// patch becomes readable if its base does. If it can read none of them, it returns an
// [*object.CorruptError]. It fetches nothing: an evicted copy that no remote has counts if
// there is no other.
func (inv *Inventory) Find(key object.Key, places []Place) ([]Place, error) {
	n := len(places)
	var bad, lost []Place
	for i, e := range inv.volumes {
		rec, ok, err := e.o.index.Find(key)
		at := Place{i, rec.Index, int64(rec.Stored), e.gone}
		switch {
		case err != nil:
			return places, e.v.indexError(err)
		case !ok || e.v.isDropped(key):
		case !e.v.isBad(key):
			places = append(places, at)
		case rec.File == notHere:
			lost = append(lost, at)
		default:
			bad = append(bad, at)
		}
	}

	switch {
	case len(places) > n:
		return places, nil
	case len(bad) == 0:
		return append(places, lost...), nil
	}
	return inv.rereadDamaged(bad, places)
}

// rereadDamaged appends the readable copies of bad to places.
func (inv *Inventory) rereadDamaged(bad, places []Place) ([]Place, error) {
	n := len(places)
	var failed error
	for _, at := range bad {
		e := inv.volumes[at.Volume]
		rec, err := e.o.index.At(at.Index)
		if err == nil {
			_, err = e.v.readObject(rec)
		}
		if err != nil && isGone(err) {
			err = e.v.corruptError(rec, err)
		}
		if err != nil {
			failed = err
			continue
		}
		e.v.clearBad(rec.Key)
		places = append(places, at)
	}
	if len(places) > n {
		return places, nil
	}
	return places, failed
}

// Damaged returns the objects that are known to be damaged in volume i. Patches
// of these objects in the volume are readable only with copies in other volumes.
func (inv *Inventory) Damaged(i int) []object.Key {
	v := inv.volumes[i].v
	v.badMu.Lock()
	defer v.badMu.Unlock()
	var list []object.Key
	if v.info.Load().Evicted {
		return nil // it has no values that could be damaged
	}
	for key, bad := range v.bad {
		if bad {
			list = append(list, key)
		}
	}
	slices.SortFunc(list, object.Key.Compare)
	return list
}

// Dropped returns the number of dropped objects in volume i.
func (inv *Inventory) Dropped(i int) int {
	if dropped := inv.volumes[i].v.dropped.Load(); dropped != nil {
		return len(*dropped)
	}
	return 0
}

// Keys yields the records of one kind in volume i.
func (inv *Inventory) Keys(i int, kind object.Kind) iter.Seq2[keys.Record, error] {
	o := inv.volumes[i].o
	return o.withoutDropped(o.index.Prefix(kind, nil, 0))
}

// Leftovers describes the volumes of dead writers that were not salvaged.
func (inv *Inventory) Leftovers(ctx context.Context) ([]Leftover, error) {
	return deadWriters{inv.store}.leftovers(ctx)
}

// TrashSize returns the number of bytes that [Sweep.EmptyTrash] would free.
func (inv *Inventory) TrashSize() (int64, error) { return trashBin{inv.store}.trashSize() }

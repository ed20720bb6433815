package transfer

import (
	"maps"
	"slices"
	"sync"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote/pack"
)

// Damage is the damage that a repair replaces. It changes what snapshots of a Remote show.
// A nil Damage is none.
type Damage struct {
	Packs map[pack.Name]bool // damaged

	// Lost are objects of damaged packs that no source has intact, and whose loss was
	// accepted here. They count as missing, unless another pack has them.
	Lost map[object.Key]bool

	mu     sync.Mutex
	listed map[object.Key]bool // the lost objects that refs reach
}

// NewDamage returns an empty Damage.
func NewDamage() *Damage {
	return &Damage{Packs: map[pack.Name]bool{}, Lost: map[object.Key]bool{}, listed: map[object.Key]bool{}}
}

// SetDamage sets the damage that snapshots hide, until the next call. D may be nil.
func (r *Remote) SetDamage(d *Damage) { r.damage = d }

// HasPack reports whether a pack is damaged.
func (d *Damage) HasPack(name pack.Name) bool { return d != nil && d.Packs[name] }

// hidesObject reports whether the damaged copies of an object count as missing.
func (d *Damage) hidesObject(key object.Key) bool { return d != nil && d.Lost[key] }

// listLost notes that refs reach a lost object.
func (d *Damage) listLost(key object.Key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.listed[key] = true
}

// ReachesLost reports whether refs reach a lost object.
func (d *Damage) ReachesLost() bool { return d != nil && len(d.listed) > 0 }

// LostAt returns the lost objects that the root after snap has to list.
func (d *Damage) LostAt(snap *Snapshot) []object.Key {
	if d == nil {
		return nil
	}
	return slices.DeleteFunc(slices.SortedFunc(maps.Keys(d.listed), object.Key.Compare), func(key object.Key) bool { return !snap.IsLost(key) })
}

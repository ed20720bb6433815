package collect

import (
	"context"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote/pack"
	"github.com/kist-vcs/kist/remote/transfer"
)

// repair turns a collection into a repair. The collection then sends the reachable objects of
// damaged packs again, and condemns the damaged packs and index files, and nothing else. A nil
// repair means a collection of garbage.
type repair struct {
	*transfer.Damage
	local          transfer.Local // the source of objects that are damaged on the remote
	damagedIndexes map[pack.Name]bool
}

// noteLost notes in rep.Lost the objects of damaged packs whose loss was accepted: true if no pack
// has them intact.
func (rep *repair) noteLost(ctx context.Context, snap *transfer.Snapshot) error {
	for p, err := range snap.Entries() {
		if err != nil {
			return err
		}
		if !rep.Packs[p.Pack.Name] || !object.IsLost(rep.local, p.Key) {
			continue
		}
		value, _, err := snap.RescueValue(ctx, p.Key)
		if err != nil {
			return err
		}
		rep.Lost[p.Key] = value == nil
	}
	return nil
}

// damage returns the damage that m repairs, or nil.
func (rep *repair) damage() *transfer.Damage {
	if rep == nil {
		return nil
	}
	return rep.Damage
}

// lostError is the error for a damaged pack with a reachable object that no source has
// intact.
type lostError struct {
	pack pack.Name
	err  error
}

func (e *lostError) Error() string { return e.err.Error() }
func (e *lostError) Unwrap() error { return e.err }

// mayReplace reports whether a pack may be condemned once it has no reachable objects left.
func (rep *repair) mayReplace(name pack.Name) bool { return rep == nil || rep.Packs[name] }

// chooseDamaged sets mustCopy of the damaged packs with reachable objects, and of no others.
func (rep *repair) chooseDamaged(packs []*livePack) {
	for _, p := range packs {
		p.mustCopy = rep.Packs[p.Name] && p.reachedCount > 0
	}
}

// findValue returns the stored value of an object that is damaged at e: from the repository,
// or from another pack that has it.
func (rep *repair) findValue(ctx context.Context, snap *transfer.Snapshot, e pack.Entry) ([]byte, error) {
	value, raw, err := rep.local.GetStored(ctx, e.Key, nil)
	if err == nil && raw == int(e.Raw) {
		return value, nil
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	value, other, rerr := snap.RescueValue(ctx, e.Key)
	if rerr != nil {
		return nil, rerr
	}
	if value == nil || other.Raw != e.Raw {
		return nil, &lostError{e.Pack.Name, err}
	}
	return value, nil
}

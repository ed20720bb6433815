package collect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/keyset"
	"github.com/kist-vcs/kist/remote/pack"
	"github.com/kist-vcs/kist/remote/retry"
	"github.com/kist-vcs/kist/remote/rootlog"
	"github.com/kist-vcs/kist/remote/transfer"
)

// RepairOptions say how [Repair] works.
type RepairOptions struct {
	DryRun   bool                    // only report the planned repairs
	Plugins  keyset.Plugins          // of the recipients of an encrypted remote
	Progress func(transfer.Progress) // called with the progress of sending, one call at a time; may be nil
}

// RepairResult describes the outcome of a repair.
type RepairResult struct {
	Found    []Problem // before the repair
	Repaired []string  // names of the packs, index files and roots that were replaced
	Objects  int64     // sent again
	Lost     []Problem // still damaged or missing

	ArchiveStats // of the check before the repair
}

// Repair checks all of the remote, as [Check] does, and replaces damaged
// files. It sends everything that refs and holds need of a damaged pack again, in
// new packs. Values that are intact there are copied; others come from local, or
// from other packs. Packs that have to be thawed first are counted, and not checked. A damaged
// index file is rebuilt from its copy here, or from the indexes in the packs. Then a root condemns the damaged files, and gc deletes them
// when they are due. Repair does not replace a pack with an object that no source has intact, unless local accepted the loss: then that root lists the object as lost.
//
// A damaged root is put back if it is the newest that was seen here: see
// [rootlog.Log.PutBack]. If a copy of the keyset is damaged, both are replaced by
// new ones: see [transfer.RenewKeyset]. Other roots, state files and kist.json are never replaced.
//
// Repair may run at the same time as pushes, fetches, collections and other
// repairs, and may be stopped at any moment. If an object is missing that is needed
// to find the reachable objects, the error is a [*NeededError], and nothing was
// changed.
func Repair(ctx context.Context, r *transfer.Remote, local transfer.Local, o RepairOptions) (*RepairResult, error) {
	if err := transfer.NeedFolder(r, "repair"); err != nil {
		return nil, err
	}
	result := &RepairResult{}
	if err := putBack(ctx, r, o, result); err != nil {
		return nil, err
	}
	if o.DryRun && len(result.Repaired) > 0 {
		return result, nil // without the root, nothing else can be checked
	}
	if err := renewKeyset(ctx, r, o, result); err != nil {
		return nil, err
	}

	head, err := r.Head(ctx)
	if err == nil && !o.DryRun {
		err = r.CheckWritable(ctx, head)
	}
	if err != nil {
		return nil, err
	}

	rep := &repair{Damage: transfer.NewDamage(), local: local, damagedIndexes: map[pack.Name]bool{}}
	if err := replaceInMemory(ctx, r, head, rep); err != nil {
		return nil, err
	}
	checked, err := Check(ctx, r, CheckOptions{ReadData: true}, func(p Problem) { result.Found = append(result.Found, p) })
	if err != nil {
		return nil, err
	}
	result.ArchiveStats = checked.ArchiveStats
	if err := findDamagedPacks(ctx, r, result.Found, rep); err != nil {
		return nil, err
	}
	if o.DryRun {
		result.Repaired = append(result.Repaired, rep.damagedNames()...)
		result.Lost = rep.unsolvedProblems(ctx, result.Found, result.Repaired)
		return result, nil
	}

	r.SetDamage(rep.Damage)
	err = repairAll(ctx, r, rep, o, result)
	r.SetDamage(nil)
	if err != nil {
		return nil, err
	}

	result.Repaired = append(result.Repaired, rep.damagedNames()...)
	slices.Sort(result.Repaired)

	_, err = Check(ctx, r, CheckOptions{ReadData: true}, func(p Problem) { result.Lost = append(result.Lost, p) })
	return result, err
}

// putBack puts a damaged root back, if it is the newest that was seen here.
func putBack(ctx context.Context, r *transfer.Remote, o RepairOptions, result *RepairResult) error {
	known, err := r.KnownHead()
	if err != nil {
		return err
	}
	seq, err := r.Log().PutBack(ctx, known, o.DryRun)
	if err != nil || seq == 0 {
		return err
	}
	name := rootlog.RootName(seq)
	result.Repaired = append(result.Repaired, name)
	result.Found = append(result.Found, Problem{Blob: name, Err: &object.DamageError{Name: name, Err: errors.New("its copy here is intact"), Kind: remote.ErrDamaged}})
	return nil
}

// renewKeyset replaces both copies of the keyset if one is damaged, and the keyset of the head is known from the other, from the
// clone, or from an export.
func renewKeyset(ctx context.Context, r *transfer.Remote, o RepairOptions, result *RepairResult) error {
	if !r.IsEncrypted() {
		return nil
	}
	_, head, err := r.Keyset(ctx)
	if err != nil {
		return err
	}
	stored, err := r.Log().Stored(ctx, head)
	if err != nil {
		return err
	}
	var damaged []Problem
	for _, damage := range stored {
		if slices.Contains(head.Keys.Keyset.Copies(), damage.Name) {
			damaged = append(damaged, Problem{Blob: damage.Name, Err: damage.Err})
		}
	}
	if len(damaged) == 0 {
		return nil
	}

	err = transfer.RenewKeyset(ctx, r, o.Plugins, o.DryRun)
	if errors.Is(err, transfer.ErrOtherKeyset) {
		return nil // Check reports the damage
	}
	if err != nil {
		return err
	}
	for _, p := range damaged {
		result.Repaired = append(result.Repaired, p.Blob)
	}
	if !o.DryRun {
		result.Found = append(result.Found, damaged...) // Check finds it no more
	}
	return nil
}

// repairAll sends the missing objects and replaces the damaged files, except packs
// with an object that no source has intact.
func repairAll(ctx context.Context, r *transfer.Remote, rep *repair, o RepairOptions, result *RepairResult) error {
	if slices.ContainsFunc(result.Found, func(p Problem) bool { return errors.Is(p.Err, object.ErrNotFound) }) {
		objects, err := r.Refill(ctx, rep.local, o.Progress)
		if object.IsUnreadable(err) {
			err = &NeededError{Err: err}
		}
		if err != nil {
			return err
		}
		result.Objects += objects
	}

	for len(rep.Packs)+len(rep.damagedIndexes) > 0 {
		objects, again, err := repairRound(ctx, r, rep, o)
		if lost, ok := errors.AsType[*lostError](err); ok {
			delete(rep.Packs, lost.pack)
			continue
		}
		result.Objects += objects
		if !again || err != nil {
			return err
		}
	}
	return nil
}

// replaceInMemory finds the index files that are damaged on the remote, and replaces them
// in memory, so that the objects they list can be found.
func replaceInMemory(ctx context.Context, r *transfer.Remote, head *rootlog.State, rep *repair) error {
	var missing []rootlog.File // damaged, without an intact copy here
	for _, f := range head.Indexes {
		err := r.Indexes().CheckFile(ctx, f)
		if err == nil {
			continue
		}
		if !transfer.IsBadCopy(err) {
			return err
		}
		rep.damagedIndexes[f.Name] = true
		if x := r.Indexes().OpenIntactCopy(f); x != nil {
			r.Indexes().Replace(f, x)
		} else {
			missing = append(missing, f)
		}
	}
	if len(missing) == 0 {
		return nil
	}

	x, err := indexOfPacks(ctx, r, head, rep)
	if err != nil {
		return err
	}

	for _, f := range missing {
		r.Indexes().Replace(f, x)
	}
	return nil
}

// indexOfPacks builds an index of the packs that are neither condemned nor named by
// the head or a readable index file. It reads the indexes in those packs. A pack
// that was sent and never published may be among them. That does no harm: its
// objects match their hashes, and gc condemns the pack if nothing needs it.
func indexOfPacks(ctx context.Context, r *transfer.Remote, head *rootlog.State, rep *repair) (*transfer.IndexFile, error) {
	intact := slices.DeleteFunc(slices.Clone(head.Indexes), func(f rootlog.File) bool { return rep.damagedIndexes[f.Name] })
	indexes, err := r.Indexes().OpenAll(ctx, intact)
	if err != nil {
		return nil, err
	}

	known := filesOf(head, indexes)

	var entries []pack.Entry
	for info, err := range r.Backend().List(ctx, "packs/") {
		if err != nil {
			return nil, err
		}
		name, ok := pack.ParsePath(info.Name)
		if !ok || known[info.Name] {
			continue
		}
		var list []pack.Entry
		err := retry.Verified(func() error {
			size, err := remote.PlainSize(ctx, r.Backend(), info)
			if err != nil || size > math.MaxUint32 {
				return err
			}
			p := pack.Info{Name: name, Size: uint32(size)}
			list, err = pack.ReadIndex(p, func(b []byte, off int64) (int, error) { return r.ReadPack(ctx, p, b, off) })
			return err
		})
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			r.Options().Warn(fmt.Sprintf("%s: %v", info.Name, err))
			continue
		}
		entries = append(entries, list...)
	}

	var b bytes.Buffer
	if err := pack.WriteIndex(&b, entries); err != nil {
		return nil, fmt.Errorf("make an index of the packs: %w", err)
	}
	return transfer.NewIndexFile(rootlog.File{Size: int64(b.Len())}, bytes.NewReader(b.Bytes()), nil)
}

// findDamagedPacks adds the damaged packs, and packs with damaged values, to m.
func findDamagedPacks(ctx context.Context, r *transfer.Remote, found []Problem, rep *repair) error {
	if len(found) == 0 {
		return nil
	}
	snap, err := r.Snapshot(ctx)
	if err != nil {
		return err
	}

	for _, p := range found {
		if name, ok := pack.ParsePath(p.Blob); ok {
			rep.Packs[name] = true
		}
		if p.Key.IsZero() {
			continue
		}
		entries, err := snap.EntriesOf(p.Key)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if rep.Packs[e.Pack.Name] {
				continue
			}
			_, err := snap.ReadObject(ctx, e)
			if errors.Is(err, remote.ErrArchived) {
				continue // nobody can know
			}
			if err != nil && !transfer.IsBadCopy(err) {
				return err
			}
			rep.Packs[e.Pack.Name] = rep.Packs[e.Pack.Name] || err != nil
		}
	}

	maps.DeleteFunc(rep.Packs, func(_ pack.Name, bad bool) bool { return !bad })
	return rep.noteLost(ctx, snap)
}

// repairRound carries out one round of the repair, and returns the number of objects it
// sent. It reports whether another round is due, because a push has come to need
// more of a damaged pack.
func repairRound(ctx context.Context, r *transfer.Remote, rep *repair, o RepairOptions) (objects int64, again bool, err error) {
	c := newCollection(r, rep.local, Options{Progress: o.Progress})
	c.repair = rep
	defer c.Close()
	head, err := r.Head(ctx)
	if err == nil {
		err = c.planFrom(ctx, head)
	}
	if err == nil {
		err = c.condemnGarbage(ctx)
	}
	again = slices.ContainsFunc(c.livePacks, func(p *livePack) bool { return rep.Packs[p.Name] && !p.isEmptied() })
	return c.meter.Now().Objects, again, err
}

// damagedNames returns the names of the damaged packs and index files, sorted.
func (rep *repair) damagedNames() []string {
	var names []string
	for name := range rep.Packs {
		names = append(names, name.Path())
	}
	for name := range rep.damagedIndexes {
		names = append(names, name.IndexPath())
	}
	slices.Sort(names)
	return names
}

// unsolvedProblems returns the problems that a repair would not solve, which replaces the files in names.
func (rep *repair) unsolvedProblems(ctx context.Context, found []Problem, names []string) (list []Problem) {
	for _, p := range found {
		switch {
		case !p.Key.IsZero() && object.IsLost(rep.local, p.Key):
			continue
		case !p.Key.IsZero():
			if missing, err := rep.local.Missing(ctx, []object.Key{p.Key}); err == nil && len(missing) == 0 {
				continue
			}
		case slices.Contains(names, p.Blob):
			continue
		}
		list = append(list, p)
	}
	return list
}

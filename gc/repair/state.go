package repair

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/history"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/remote/exchange"
	"github.com/kist-vcs/kist/remote/exchange/registry"
	"github.com/kist-vcs/kist/remote/rootlog"
	"github.com/kist-vcs/kist/remote/transfer"
)

// repairRecords replaces damaged records. If one bit changed, it restores them
// exactly. Otherwise it rebuilds them from the readable records and those of
// the remotes. If no remote can be reached, the damaged file stays, unless
// AcceptLoss is set: without a lost hold, gc might remove held content.
//
// This step comes before the others, because they need the records to know
// which objects must be here.
func (p *repairer) repairRecords(ctx context.Context) error {
	_, damage := p.repo.Records().Load()
	if damage == nil {
		return repairCopy(ctx, p)
	}
	if !errors.Is(damage, record.ErrDamaged) {
		return nil // verify reports other errors
	}

	set, from, err := p.repo.Records().Salvage()
	if err != nil {
		return err
	}

	how, done := "one bit of it had changed", p.addRepaired
	switch from {
	case record.FromCopy:
		how = "restored from " + record.CopyFile
	case record.FromReadable:
		done = p.addLossy
		readable := set.Len()
		reached, err := p.addRecords(ctx, set)
		if err != nil {
			return err
		}
		switch {
		case reached:
			how = fmt.Sprintf("rebuilt from remotes and its readable part (records: %d): others that were not pushed are lost", readable)
		case p.o.AcceptLoss:
			p.unsure = true
			how = fmt.Sprintf("rebuilt from its readable part (records: %d): others are lost", readable)
		default:
			return nil
		}
	}

	p.damage = append(p.damage, &gc.Problem{Err: damage})
	if p.o.DryRun {
		p.dryRecords = set.View()
	} else if replaced, err := p.repo.Records().Replace(ctx, set, func() error { return p.quarantineFile(record.FileName) }); err != nil || !replaced {
		return err
	}

	done(record.FileName, how)
	return nil
}

// repairCopy writes a damaged copy of the records again.
func repairCopy(ctx context.Context, p *repairer) error {
	damage := p.repo.Records().CheckCopy()
	if !errors.Is(damage, record.ErrDamaged) {
		return nil
	}
	if !p.o.DryRun {
		p.damage = append(p.damage, &gc.Problem{Err: damage})
		if err := p.repo.Records().RenewCopy(ctx, func() error { return p.quarantineFile(record.CopyFile) }); err != nil {
			return err
		}
	}
	p.addRepaired(record.CopyFile, "copied from "+record.FileName)
	return nil
}

// addRecords adds the records of the remotes to set. It reports whether it
// reached a remote.
func (p *repairer) addRecords(ctx context.Context, set *record.Set) (reached bool, err error) {
	sources, err := p.openRemotes(ctx)
	if err != nil {
		return false, err
	}

	for _, s := range sources {
		head, err := s.remote.Head(ctx)
		if err != nil {
			p.repo.Options().Warn(fmt.Sprintf("remote %q: %v", s.name, err))
			continue
		}
		reached = true
		j, err := exchange.NewJudge(p.repo, set.Clone(), exchange.Ask)
		if err != nil {
			return reached, err
		}
		newer := head.Records.Newer(set)
		waiting, err := j.Waits(ctx, newer)
		if err != nil {
			return reached, err
		}
		waits := map[string]bool{} // the next fetch asks the user about these
		for _, r := range waiting {
			waits[r.Name()] = true
		}
		for _, r := range newer {
			if !waits[r.Name()] {
				set.Merge(r)
			}
		}
	}

	return reached, ctx.Err()
}

// currentRecords returns the records of the repository. In a dry run it returns the
// repaired ones.
func (p *repairer) currentRecords() (*record.Effects, error) {
	if p.dryRecords != nil {
		return p.dryRecords, nil
	}
	return p.repo.RecordView()
}

// repairLostList repairs a damaged list of accepted losses if one bit of it
// has changed. Otherwise it moves the list to the quarantine, and missing
// objects count as damage again.
func (p *repairer) repairLostList(context.Context) error {
	if _, err := kist.ReadLost(p.repo.Dir()); !errors.Is(err, kist.ErrLostList) {
		return err
	}

	how, done := "removed: missing objects count as damage again, until their loss is accepted", p.addLossy
	data, err := disk.ReadFile(p.absPath(kist.LostFile))
	mended := err == nil && len(data) < 1<<16 && disk.Mend(data, func(data []byte) bool {
		_, err := kist.DecodeLost(data)
		return err == nil
	})
	if mended {
		how, done = "one bit of it had changed", p.addRepaired
	}
	if !p.o.DryRun {
		p.damage = append(p.damage, &gc.Problem{Where: kist.LostFile, Err: kist.ErrLostList})
		if err := p.quarantineFile(kist.LostFile); err != nil {
			return err
		}
		if mended {
			err = disk.WriteFile(p.absPath(kist.LostFile), data)
		} else {
			err = disk.Remove(p.absPath(kist.LostFile))
		}
		if err != nil {
			return err
		}
		lost, err := kist.ReadLost(p.repo.Dir())
		if err != nil {
			return err
		}
		p.repo.Objects().SetLost(lost)
	}

	done(kist.LostFile, how)
	return nil
}

// repairRemoteState repairs the local files about remotes. It comes before all
// steps that read from remotes.
func (p *repairer) repairRemoteState(ctx context.Context) error {
	for _, m := range registry.All(p.repo) {
		problems, err := gc.CheckRemoteState(ctx, p.repo, m)
		if err != nil {
			return err
		}
		for _, problem := range problems {
			if err := p.repairState(ctx, m, problem); err != nil {
				return err
			}
		}
	}
	return nil
}

// repairState repairs one local file about a remote, if possible. Otherwise
// verify reports it at the end.
func (p *repairer) repairState(ctx context.Context, m registry.Remote, problem *gc.Problem) error {
	var damage *object.DamageError
	if !errors.Is(problem.Err, transfer.ErrState) || !errors.As(problem.Err, &damage) {
		return nil
	}

	keep := func() error { return p.quarantineFile(problem.Where) }
	how, err := transfer.RepairState(ctx, registry.Dir(p.repo, m.Name), damage, p.o.DryRun, keep)
	switch isHead := filepath.Base(problem.Where) == "head"; {
	case errors.Is(err, transfer.ErrHeadLost):
		how, err = p.rebuildHead(ctx, m, keep)
	case err == nil && isHead && p.o.DryRun: // the rest of the dry run uses the remote
		_, err = p.rebuildHead(ctx, m, keep)
	}

	if err != nil || how == "" {
		return err
	}
	if !p.o.DryRun {
		p.damage = append(p.damage, problem)
	}

	p.addRepaired(problem.Where, how)
	return nil
}

// rebuildHead replaces the damaged copy of a remote's head by the remote's
// present head. It returns a description of the repair, or "" if it did
// nothing. It does not trust a remote that seems to have been rolled back,
// unless AcceptLoss is set.
func (p *repairer) rebuildHead(ctx context.Context, m registry.Remote, keep func() error) (how string, err error) {
	sources, err := p.openRemotes(ctx)
	if err != nil {
		return "", err
	}

	for _, s := range sources {
		store, ok := s.remote.(*transfer.Remote)
		if s.name != m.Name || !ok {
			continue
		}
		head, err := store.FirstHead(ctx)
		if err != nil {
			p.repo.Options().Warn(fmt.Sprintf("remote %q: %v", m.Name, err))
			return "", ctx.Err()
		}
		rolled, err := p.rolledBack(ctx, m.Name, head)
		if err != nil {
			return "", err
		}
		if rolled != "" && !p.o.AcceptLoss {
			p.repo.Options().Warn(fmt.Sprintf("remote %q seems to have been rolled back, so kist does not trust its head: %s", m.Name, rolled))
			return "", nil
		}
		how = fmt.Sprintf("rebuilt from the remote, which is at root %d now; a rollback before that would not be noticed", head.Seq)
		return how, store.RebuildHead(ctx, head, p.o.DryRun, keep)
	}

	return "", nil
}

// rolledBack describes a branch that is missing on the remote, or at an
// earlier commit than the remote-tracking branch. It returns "" if there is
// none. A branch that others deleted or moved back by force looks the same.
func (p *repairer) rolledBack(ctx context.Context, name string, head *rootlog.State) (string, error) {
	prefix := refs.Remotes + name + "/"
	list, err := p.repo.Refs().List(prefix)
	if err != nil {
		return "", nil // damaged refs are repaired later
	}

	for _, ref := range list {
		if ref.Target != "" {
			continue
		}
		branch := strings.TrimPrefix(ref.Name, prefix)
		now, ok := head.Refs[refs.Heads+branch]
		switch {
		case !ok:
			return fmt.Sprintf("the branch %q is missing there, and was at %s before", branch, ref.ID.Short()), nil
		case now.ID == ref.ID:
			continue
		}
		back, err := history.IsAncestor(ctx, p.repo.Objects(), now.ID, ref.ID)
		if back {
			return fmt.Sprintf("the branch %q is at %s there, and was at the later %s before", branch, now.ID.Short(), ref.ID.Short()), nil
		}
		if err != nil && ctx.Err() != nil { // other errors: the remote has commits that are not here
			return "", err
		}
	}

	return "", nil
}

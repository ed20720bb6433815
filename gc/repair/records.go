package repair

import (
	"context"
	"fmt"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/remote/tracking"
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
	if !kist.IsRecordDamage(damage) {
		return nil // verify reports other errors
	}

	set, exact, err := p.repo.Records().Salvage()
	if err != nil {
		return err
	}

	how := "one bit of it had changed"
	if !exact {
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
	} else if replaced, err := p.repo.Records().Replace(ctx, set, func() error { return p.quarantine(record.File) }); err != nil || !replaced {
		return err
	}

	p.fixed(record.File, how)
	return nil
}

// addRecords adds the records of the remotes to set. It reports whether it
// reached a remote.
func (p *repairer) addRecords(ctx context.Context, set *record.Set) (reached bool, err error) {
	sources, err := p.remotes(ctx)
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
		j, err := tracking.NewJudge(p.repo, set.Clone(), tracking.Ask)
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

// verify is [gc.Verify] with the records that a dry run would write.
func (p *repairer) verify(ctx context.Context, o gc.VerifyOptions) (*gc.Report, error) {
	records, err := p.records()
	return gc.VerifyBy(ctx, p.repo, records, err, o)
}

// records returns the records of the repository, or those that a dry run would
// write.
func (p *repairer) records() (*record.View, error) {
	if p.dryRecords != nil {
		return p.dryRecords, nil
	}
	return p.repo.RecordView()
}

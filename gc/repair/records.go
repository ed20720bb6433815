package repair

import (
	"context"
	"fmt"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/remote/tracking"
)

// repairRecords makes damaged records anew: as they were, if that is known, else
// from those that can be read and those that remotes have. If there is no remote
// to ask, the file stays, unless AcceptLoss is set: without a hold, what is held
// might be taken for garbage. It comes before all else: what has to be here is not
// known without.
func (p *repairer) repairRecords(ctx context.Context) error {
	_, damage := p.repo.Records().Load()
	if !kist.IsRecordDamage(damage) {
		return nil // verify tells of other errors
	}
	set, exact, err := p.repo.Records().Salvage()
	if err != nil {
		return err
	}
	how := "one bit of it had changed"
	if !exact {
		readable := set.Len()
		asked, err := p.addRecords(ctx, set)
		if err != nil {
			return err
		}
		switch {
		case asked:
			how = fmt.Sprintf("put together from remotes and what can be read of it (records: %d): others that were not pushed are lost", readable)
		case p.o.AcceptLoss:
			p.unsure = true
			how = fmt.Sprintf("made anew from what can be read of it (records: %d): others are lost", readable)
		default:
			return nil
		}
	}
	p.damage = append(p.damage, &gc.Problem{Err: damage})
	if p.o.DryRun {
		p.view = set.View()
	} else if replaced, err := p.repo.Records().Replace(ctx, set, func() error { return p.keep(record.File) }); err != nil || !replaced {
		return err
	}
	p.fixed(record.File, how)
	return nil
}

// addRecords adds the records that remotes have. It reports whether one could be
// asked.
func (p *repairer) addRecords(ctx context.Context, set *record.Set) (asked bool, err error) {
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
		asked = true
		j, err := tracking.NewJudge(p.repo, set.Clone(), tracking.Ask)
		if err != nil {
			return asked, err
		}
		news := head.Records.Newer(set)
		waiting, err := j.Waits(ctx, news)
		if err != nil {
			return asked, err
		}
		waits := map[string]bool{} // the next fetch asks for these
		for _, r := range waiting {
			waits[r.Name()] = true
		}
		for _, r := range news {
			if !waits[r.Name()] {
				set.Merge(r)
			}
		}
	}
	return asked, ctx.Err()
}

// verify is Verify by the records that a dry run would have made.
func (p *repairer) verify(ctx context.Context, o gc.VerifyOptions) (*gc.Report, error) {
	said, err := p.said()
	return gc.VerifyBy(ctx, p.repo, said, err, o)
}

// said is Said by the records that a dry run would have made.
func (p *repairer) said() (*record.View, error) {
	if p.view != nil {
		return p.view, nil
	}
	return p.repo.RecordView()
}

package repair

import (
	"context"
	"errors"
	"slices"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
)

// repairLostList repairs a damaged list of accepted losses if one bit of it
// has changed. Otherwise it moves the list to the quarantine, and missing
// objects count as damage again.
func (p *repairer) repairLostList(context.Context) error {
	if _, err := kist.ReadLost(p.repo.Dir()); !errors.Is(err, kist.ErrLostList) {
		return err
	}

	how := "removed: missing objects count as damage again, until their loss is accepted"
	data, err := disk.ReadFile(p.path(kist.LostFile))
	mended := err == nil && len(data) < 1<<16 && disk.Mend(data, func(data []byte) bool {
		_, err := kist.DecodeLost(data)
		return err == nil
	})
	if mended {
		how = "one bit of it had changed"
	}
	if !p.o.DryRun {
		p.damage = append(p.damage, &gc.Problem{Where: kist.LostFile, Err: kist.ErrLostList})
		if err := p.quarantine(kist.LostFile); err != nil {
			return err
		}
		if mended {
			err = disk.WriteFile(p.path(kist.LostFile), data)
		} else {
			err = disk.Remove(p.path(kist.LostFile))
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

	p.fixed(kist.LostFile, how)
	return nil
}

// acceptLoss accepts the loss of the objects that are still missing, if
// AcceptLoss is set. It does not if records were lost in this run, because the
// objects may have expired: a person should look first. It also removes
// restored objects from the list of losses.
func (p *repairer) acceptLoss(ctx context.Context) error {
	if p.o.AcceptLoss && !p.unsure {
		missing := func(problem *gc.Problem) bool {
			return !problem.Key.IsZero() && errors.Is(problem.Err, object.ErrNotFound)
		}
		for _, problem := range p.result.Lost {
			if missing(problem) {
				p.result.Accepted = append(p.result.Accepted, problem)
			}
		}
		p.result.Lost = slices.DeleteFunc(p.result.Lost, missing)
	}
	if p.o.DryRun {
		return nil
	}

	before, err := kist.ReadLost(p.repo.Dir())
	if err != nil {
		return err
	}

	lost, err := p.repo.Objects().Lost(ctx)
	if err != nil || len(lost) == len(before) && len(p.result.Accepted) == 0 {
		return err
	}

	for _, problem := range p.result.Accepted {
		lost = append(lost, problem.Key)
	}

	if len(lost) == 0 {
		return disk.Remove(p.path(kist.LostFile))
	}

	p.repo.Objects().SetLost(lost)
	return disk.WriteFile(p.path(kist.LostFile), kist.EncodeLost(lost))
}

package kist

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/refs/record"
)

// repairRecords takes what is held, has expired or was purged from the remotes.
// If none can be asked, the file stays: without it, what has expired would seem
// lost, and what is held might be taken for garbage.
func (p *repairer) repairRecords(ctx context.Context, report *gc.Report) (bool, error) {
	if !slices.ContainsFunc(report.Problems, func(problem *gc.Problem) bool { return isRecordDamage(problem.Err) }) {
		return false, nil
	}
	sources, err := p.remotes(ctx)
	if err != nil {
		return false, err
	}
	all, asked := &record.Set{}, false
	all = all.Clone()
	for _, s := range sources {
		head, err := s.remote.Head(ctx)
		if err != nil {
			p.opt.Warn(fmt.Sprintf("remote %q: %v", s.name, err))
			continue
		}
		asked = true
		for r := range head.Records.All() {
			all.Merge(r)
		}
	}
	if !asked || !p.try(record.File) {
		return false, ctx.Err()
	}
	if !p.o.DryRun {
		replaced, err := p.Records().Replace(ctx, all, func() error { return p.keep(record.File) })
		if err != nil || !replaced {
			return false, err
		}
	}
	p.fixed(record.File, fmt.Sprintf("replaced by the %d records that the remotes have: what was not pushed is lost", all.Len()))
	return true, nil
}

func isRecordDamage(err error) bool {
	var damage *record.CorruptError
	return errors.As(err, &damage)
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// bench is a run of the benchmark.
type bench struct {
	*runner
	opts   *options
	dir    string // to work in
	tools  []tool // kist first
	report *Report
	log    io.Writer
	settle func(context.Context) error // called before each command
	forget func() error                // empties the page cache
}

// stage is a part of each round.
type stage struct {
	name string
	run  roundOf
}

// measureAll makes a run and returns its report. If ctx ends before the run does, measureAll
// returns the report so far and the error.
func measureAll(ctx context.Context, opts *options, log io.Writer) (_ *Report, err error) {
	began := time.Now()
	dir, err := os.MkdirTemp(opts.dir, "kistbench-")
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	r, err := newRunner(dir)
	if err != nil {
		return nil, err
	}
	report := &Report{Version: reportVersion, Began: began.UTC().Truncate(time.Second), Quick: opts.quick, Machine: thisMachine(ctx, dir)}
	b := &bench{runner: r, opts: opts, dir: dir, report: report, log: log, settle: settle, forget: dropCaches}
	if b.tools, err = findTools(ctx, opts, r, report); err != nil {
		return nil, err
	}
	stages, cleanup, err := b.prepare(ctx)
	defer cleanup()
	if err != nil {
		return nil, err
	}
	if err = b.rounds(ctx, stages, began); err != nil && ctx.Err() == nil {
		return nil, err
	}
	if err != nil {
		report.skip("the rest", "the run was stopped")
	}
	for _, s := range report.Skipped {
		fmt.Fprintf(log, "not measured: %s: %s\n", s.What, s.Why)
	}
	report.Seconds = time.Since(began).Round(time.Second).Seconds()
	return report, err
}

// rounds runs all stages in each round. It makes the number of rounds that the options ask for,
// or fewer if the time limit is near, but at least one.
func (b *bench) rounds(ctx context.Context, stages []stage, began time.Time) error {
	for round := 1; round <= b.opts.rounds; round++ {
		roundBegan := time.Now()
		for _, s := range stages {
			if err := s.run(ctx, round); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
		}
		b.report.Rounds = round
		if another := time.Since(began) + time.Since(roundBegan); b.opts.limit > 0 && another > b.opts.limit {
			fmt.Fprintf(b.log, "no time for another round\n")
			return nil
		}
	}
	return nil
}

// prepare makes the data sets and returns the stages that use them. It first checks that the
// disk has enough space. Stages that are impossible on this machine go to the skipped ones of
// the report. The caller calls cleanup at the end, also after an error.
func (b *bench) prepare(ctx context.Context) (stages []stage, cleanup func(), err error) {
	p := &schedule{bench: b}
	cleanup = p.plan(ctx)
	if err := p.checkRoom(); err != nil {
		return nil, cleanup, err
	}
	for _, f := range p.folders {
		fmt.Fprintf(b.log, "making %s: %s\n", f.name, f.title)
		if err := f.prepare(ctx); err != nil {
			return nil, cleanup, err
		}
	}
	return p.stages, cleanup, nil
}

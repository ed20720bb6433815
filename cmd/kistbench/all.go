package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// bench is a run that is under way.
type bench struct {
	*runner
	opts   *options
	dir    string // to work in
	tools  []tool // kist first
	report *Report
	log    io.Writer
	settle func(context.Context) error // is done before each command
}

// stage is a part of a run that every round has.
type stage struct {
	name string
	room int64 // bytes of free disk that it needs, beyond its files
	run  func(ctx context.Context, round int) error
}

// measureAll makes a run and returns what it measured.
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
	b := &bench{runner: r, opts: opts, dir: dir, report: report, log: log, settle: settle}
	if b.tools, err = findTools(ctx, opts, r, report); err != nil {
		return nil, err
	}
	stages, cleanup, err := b.prepare(ctx)
	defer cleanup()
	if err != nil {
		return nil, err
	}
	if err := b.rounds(ctx, stages, began); err != nil {
		return nil, err
	}
	for _, s := range report.Skipped {
		fmt.Fprintf(log, "not measured: %s: %s\n", s.What, s.Why)
	}
	report.Seconds = time.Since(began).Round(time.Second).Seconds()
	return report, nil
}

// rounds runs all stages as often as the options say, or as there is time for:
// at least once.
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

// prepare makes the data sets, after it has seen whether there is room for all,
// and returns what is to be done with them. What cannot be done here is noted
// in the report. cleanup is for the end.
func (b *bench) prepare(ctx context.Context) (stages []stage, cleanup func(), err error) {
	cleanup = func() {}
	var folders []*folder
	var files, most int64 // bytes: of all sets, and that one stage needs beyond
	use := func(set dataSet) *folder {
		if i := slices.IndexFunc(folders, func(f *folder) bool { return f.name == set.name }); i >= 0 {
			return folders[i]
		}
		about, err := set.about(ctx)
		if err != nil {
			b.report.skip(set.name, err.Error())
			return nil
		}
		f := &folder{dataSet: set, path: filepath.Join(b.dir, "data-"+set.name), held: about}
		files += about.disk
		folders = append(folders, f)
		return f
	}
	add := func(name string, set dataSet, run func(*folder) func(context.Context, int) error) {
		if f := use(set); f != nil {
			room := b.room(f)
			most = max(most, room)
			stages = append(stages, stage{name, room, run(f)})
		}
	}
	wanted := func(name string) bool { return slices.Contains(b.opts.sets, name) }
	race := func(server *server) func(*folder) func(context.Context, int) error {
		return func(f *folder) func(context.Context, int) error {
			e := b.event(f, server)
			return func(ctx context.Context, round int) error { return e.run(ctx, round, e.standard) }
		}
	}
	for _, set := range dataSets(b.opts) {
		if wanted(set.stage) {
			add(set.name, set, race(nil))
		}
	}
	if wanted(setVersions) {
		set, dirs := releasesSet(ctx, b.opts.releases)
		add(set.name, set, func(f *folder) func(context.Context, int) error {
			e := b.event(f, nil)
			return func(ctx context.Context, round int) error {
				return e.run(ctx, round, func(ctx context.Context) error { return e.releases(ctx, dirs) })
			}
		})
	}
	if wanted(setGrowth) {
		add(curveHistory, historySet(), func(f *folder) func(context.Context, int) error {
			return func(ctx context.Context, round int) error {
				if round > 1 {
					return nil
				}
				return b.growHistory(ctx, f)
			}
		})
	}
	if wanted(setS3) {
		switch server, err := findServer(); {
		case err != nil:
			b.report.skip(setS3, err.Error())
		default:
			cleanup = server.close
			for _, set := range dataSets(b.opts) {
				if set.name == "media" || set.name == "src" {
					add(set.name+onServer, set, race(server))
				}
			}
		}
	}
	room, err := free(b.dir)
	if err != nil {
		return nil, cleanup, err
	}
	if files+most > room {
		return nil, cleanup, fmt.Errorf("this needs %s of free disk, and there are %s: name another folder with -dir, or fewer sets with -sets",
			byteSize(files+most), byteSize(room))
	}
	for _, f := range folders {
		fmt.Fprintf(b.log, "making %s: %s\n", f.name, f.title)
		if err := f.prepare(ctx); err != nil {
			return nil, cleanup, err
		}
	}
	return stages, cleanup, nil
}

// room returns how much disk a race needs beyond its files: a repository for
// each tool, and one copy at a time.
func (b *bench) room(f *folder) int64 {
	tools := len(b.tools)
	if f.alone {
		tools = 1
	}
	need := f.held.disk * int64(1+tools)
	return need + need/8 + 64*mib
}

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Names of curves.
const (
	curveHistory = "history"
	curveFiles   = "files"
)

// Pieces of work that only curves have.
const (
	workCommit = "commit" // add and commit one changed file
	workLog    = "log"    // log -n 1
)

// filesWork is the work with a curve over the number of files.
var filesWork = []string{workFirst, workUnchanged, workStatus, workChanged, workRestore}

// historyFiles is the number of files in the folder whose history grows.
const historyFiles = 1000

// historyNote returns the path of a file of the history.
func historyNote(i int) string {
	return filepath.FromSlash(fmt.Sprintf("d%02d/note-%03d.txt", i%historyFiles/100, i%historyFiles))
}

func historySet() dataSet {
	return dataSet{
		name:  curveHistory,
		title: fmt.Sprintf("%s text files; one of them changes before each commit", thousands(historyFiles)),
		stage: setGrowth,
		alone: true,
		about: known(historyFiles, historyFiles*smallFile/2),
		make: func(_ context.Context, dir string) error {
			return writeTexts(dir, historyFiles, smallFile, 50, historyNote)
		},
	}
}

// growHistory measures commits of one changed file, status and log, while the history grows.
func (b *bench) growHistory(ctx context.Context, f *folder) (err error) {
	if err := f.age(ctx, b.log); err != nil {
		return err
	}
	dir := filepath.Join(b.dir, "of-history")
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	t := b.tools[0]
	opened, err := t.open(ctx, opening{b.runner, t.program, dir, f.path, nil})
	if err != nil {
		return err
	}
	repository := opened.(kistRepository)
	if _, err := repository.save(ctx, "first"); err != nil {
		return err
	}
	if err := b.settle(ctx); err != nil {
		return err
	}
	window := max(1, b.opts.commits/20)
	var commits []Sample
	for n := 1; n <= b.opts.commits; n++ {
		if err := appendLine(filepath.Join(f.path, historyNote(n*7)), uint64(n)); err != nil {
			return err
		}
		s, err := repository.save(ctx, fmt.Sprintf("change %d", n))
		if err != nil {
			return err
		}
		if commits = append(commits, s); n%window != 0 {
			continue
		}
		if err := b.historyPoint(ctx, repository, n, commits); err != nil {
			return err
		}
		commits = commits[:0]
	}
	return nil
}

// historyPoint adds the points for n commits. The samples are those of the last commits.
func (b *bench) historyPoint(ctx context.Context, repository kistRepository, n int, commits []Sample) error {
	commit := medianSample(commits)
	held, err := count(repository.folders()...)
	if err != nil {
		return err
	}
	commit.Stored = held.disk
	b.report.point(curveHistory, workCommit, "commits", Point{n, commit})
	for _, look := range []struct {
		work string
		run  func(context.Context) (Sample, error)
	}{{workStatus, repository.status}, {workLog, repository.log}} {
		var samples []Sample
		for range 5 {
			s, err := look.run(ctx)
			if err != nil {
				return err
			}
			samples = append(samples, s)
		}
		b.report.point(curveHistory, look.work, "commits", Point{n, medianSample(samples)})
	}
	fmt.Fprintf(b.log, "%-9s %6d commits  %s a commit, %s stored\n", curveHistory, n, time.Duration(commit.Seconds*1e9).Round(time.Millisecond), byteSize(commit.Stored))
	return nil
}

// fileCounts returns the numbers of files of the sets from 1,000 to most.
func fileCounts(most int) []int {
	var counts []int
	for _, n := range []int{1000, 5000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000} {
		if n < most {
			counts = append(counts, n)
		}
	}
	return append(counts, most)
}

// filesPrefix begins the names of the sets that differ only in the number of their files.
const filesPrefix = "files-"

// filesCurve returns the curve of some work over the number of files. Its points are the sets
// that differ only in that number.
func filesCurve(r *Report, work string) *Curve {
	c := &Curve{Name: curveFiles, Work: work, X: "files"}
	for _, s := range r.Sets {
		samples := r.samples(s.Name, work, kistTool)
		if like := s.Name == "many" || strings.HasPrefix(s.Name, filesPrefix); like && len(samples) > 0 {
			c.Points = append(c.Points, Point{s.Files, medianSample(samples)})
		}
	}
	slices.SortFunc(c.Points, func(a, b Point) int { return a.X - b.X })
	return c
}

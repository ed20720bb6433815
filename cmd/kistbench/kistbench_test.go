package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// buildKist builds kist once, and returns the path of the program.
var buildKist = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "kistbench-test-")
	if err != nil {
		return "", err
	}
	program := filepath.Join(dir, "kist")
	out, err := exec.Command("go", "-C", filepath.Join("..", ".."), "build", "-o", program, "./cmd/kist").CombinedOutput()
	if err != nil {
		return program, fmt.Errorf("%w: %s", err, out)
	}
	return program, nil
})

// noSettling replaces settle: a test need not wait for the writes of other processes.
func noSettling(context.Context) error { return nil }

// noForgetting replaces dropCaches: a test does not slow down other processes.
func noForgetting() error { return nil }

// newTestBench returns a run that works in dir, with a freshly built kist and the tools that the
// arguments leave.
func newTestBench(t *testing.T, dir string, args ...string) *bench {
	t.Helper()
	program, err := buildKist()
	check(t, err)
	opts, err := parse(append([]string{"-kist", program, "-dir", dir}, args...), io.Discard)
	check(t, err)
	r, err := newRunner(dir)
	check(t, err)
	report := &Report{Version: reportVersion, Machine: thisMachine(t.Context(), dir)}
	b := &bench{runner: r, opts: opts, dir: dir, report: report, log: io.Discard, settle: noSettling, forget: noForgetting}
	b.tools, err = findTools(t.Context(), opts, r, report)
	check(t, err)
	return b
}

// TestRace makes a small run of kist and git, from the sets to the tables.
func TestRace(t *testing.T) {
	dir := t.TempDir()
	b := newTestBench(t, dir, "-restic=", "-kopia=", "-borg=", "-git", "git", "-git-annex=")
	if len(b.tools) != 3 || len(b.report.Skipped) != 4 {
		t.Fatalf("tools %+v, skipped %+v", b.report.Tools, b.report.Skipped)
	}
	many := manySet(150)
	many.compacts = true
	for _, set := range []dataSet{many, mediaSet(4 * mib)} {
		f := &folder{dataSet: set, path: filepath.Join(dir, "data-"+set.name)}
		check(t, f.prepare(t.Context()))
		f.touched = f.touched.Add(-minAge) // this test does not depend on the age
		for _, place := range []string{here, onFolder} {
			e := b.event(f, place, nil)
			for round := 1; round <= 2; round++ {
				check(t, e.run(t.Context(), round, e.standard))
				f.touched = f.touched.Add(-minAge)
			}
		}
	}
	for _, set := range []string{"many-folder", "media-folder"} {
		for _, tool := range []string{kistTool, encryptedTool} {
			for work, count := range map[string]int{workFirst: 2, workPush: 2, workFetch: 2 * pairs, workCopy: 2, workWeb: 2, workRestore: 2} {
				samples := b.report.samples(set, work, tool)
				if len(samples) != count || samples[0].Seconds <= 0 || work == workFirst && samples[0].Stored <= 0 {
					t.Errorf("%s of %s by %s: %+v", work, set, tool, samples)
				}
			}
		}
		clear, encrypted := b.report.samples(set, workFirst, kistTool), b.report.samples(set, workFirst, encryptedTool)
		if clear[0].Stored == encrypted[0].Stored {
			t.Errorf("%s: an encrypted remote has the %d bytes of one in clear", set, clear[0].Stored)
		}
	}
	for _, set := range []string{"many", "media"} {
		for _, work := range []string{workFirst, workUnchanged, workStatus, workChanged, workRestore} {
			for _, tool := range []string{kistTool, "git"} {
				samples := b.report.samples(set, work, tool)
				if len(samples) != 2 || samples[0].Seconds <= 0 || samples[0].Peak <= 0 || samples[1].Round != 2 {
					t.Errorf("%s of %s by %s: %+v", work, set, tool, samples)
				}
			}
		}
	}
	for _, tool := range []string{kistTool, "git"} {
		if gc := b.report.samples("many", workCompact, tool); len(gc) != 2 || gc[0].Stored <= 0 || gc[0].Stored >= b.report.samples("many", workChanged, tool)[0].Stored {
			t.Errorf("gc by %s: %+v", tool, gc)
		}
	}
	if full := b.report.samples("many", workMetadata, kistTool); len(full) != 2 || full[0].Seconds <= 0 {
		t.Errorf("first version with full metadata: %+v", full)
	}
	if disk := b.report.samples("media", workFlush, floorTool); len(disk) != 2 || disk[1].Seconds <= 0 || disk[1].Round != 2 {
		t.Errorf("flush: %+v", disk)
	}
	if first := b.report.samples("media", workFirst, kistTool); first[0].Stored < 4*mib {
		t.Errorf("%d bytes stored, want at least 4 MiB", first[0].Stored)
	}
	for _, tool := range []string{kistTool, floorTool} {
		if read := b.report.samples("media", workRead, tool); b.canMount() == nil && (len(read) != 2 || read[0].Seconds <= 0 || read[1].Round != 2) {
			t.Errorf("read in a mount of %s: %+v", tool, read)
		}
	}
	if more := added(b.report, "media", workUnchanged, workChanged, kistTool); len(more) != 2 || more[0].Stored < mib {
		t.Errorf("a change of 1 MiB added %+v", more)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "of-*")); len(left) > 0 {
		t.Errorf("repositories were not removed: %v", left)
	}
	saved := filepath.Join(dir, "report.json")
	check(t, b.report.write(saved))
	again, err := readReport(saved)
	check(t, err)
	if got, want := allTables(again), allTables(b.report); got != want {
		t.Errorf("the report from the file gives\n%s\nwant\n%s", got, want)
	}
}

func TestHistory(t *testing.T) {
	dir := t.TempDir()
	b := newTestBench(t, dir, "-commits", "6", "-restic=", "-kopia=", "-borg=", "-git=", "-git-annex=")
	f := &folder{dataSet: historySet(), path: filepath.Join(dir, "data")}
	check(t, f.prepare(t.Context()))
	f.touched = f.touched.Add(-minAge)
	check(t, b.growHistory(t.Context(), f))
	for _, work := range []string{workCommit, workStatus, workLog} {
		c := b.report.curve(curveHistory, work)
		if c == nil || len(c.Points) != 6 || c.Points[5].X != 6 || c.Points[5].Seconds <= 0 {
			t.Errorf("%s: %+v", work, c)
		}
	}
	stored := b.report.curve(curveHistory, workCommit).Points
	if stored[5].Stored <= stored[0].Stored {
		t.Errorf("five more commits added nothing: %d, %d", stored[0].Stored, stored[5].Stored)
	}
}

// TestReportJSON checks the names of fields. Other programs rely on them.
func TestReportJSON(t *testing.T) {
	data, err := json.Marshal(exampleReport())
	check(t, err)
	var fields struct {
		Version int
		Results []map[string]any
		Sets    []map[string]any
	}
	check(t, json.Unmarshal(data, &fields))
	result := fields.Results[0]
	for _, name := range []string{"set", "work", "tool", "samples"} {
		if _, ok := result[name]; !ok {
			t.Errorf("a result has no %q: %v", name, result)
		}
	}
	sample := result["samples"].([]any)[0].(map[string]any)
	for _, name := range []string{"round", "seconds", "user_seconds", "system_seconds", "peak_bytes"} {
		if _, ok := sample[name]; !ok {
			t.Errorf("a sample has no %q: %v", name, sample)
		}
	}
	path := filepath.Join(t.TempDir(), "later.json")
	check(t, os.WriteFile(path, []byte(`{"version": 2}`), 0o666))
	if _, err := readReport(path); err == nil || !strings.Contains(err.Error(), "version 2") {
		t.Errorf("a report of a later version: %v", err)
	}
}

func TestParse(t *testing.T) {
	opts, err := parse([]string{"-quick", "-sets", "media,many", "-borg="}, io.Discard)
	check(t, err)
	if opts.rounds != 3 || opts.wide != 10_000 || opts.commits != 100 || opts.limit == 0 || !slices.Equal(opts.sets, []string{"media", "many"}) {
		t.Errorf("%+v", opts)
	}
	if program, given := opts.tools["borg"]; !given || program != "" {
		t.Errorf("borg is not excluded: %+v", opts.tools)
	}
	for _, args := range [][]string{{"-sets", "medias"}, {"-rounds", "0"}, {"extra"}, {"-nothing"}} {
		if _, err := parse(args, io.Discard); err == nil {
			t.Errorf("%q is accepted", args)
		}
	}
	if _, err := parse([]string{"-h"}, io.Discard); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("-h: %v", err)
	}
}

func TestWithoutRoom(t *testing.T) {
	opts, err := parse([]string{"-sets", "growth", "-large", "1000000000", "-kist", "true"}, io.Discard)
	check(t, err)
	b := &bench{opts: opts, dir: t.TempDir(), report: &Report{}, log: io.Discard, tools: []tool{kist()}}
	_, cleanup, err := b.prepare(t.Context())
	cleanup()
	if err == nil || !strings.Contains(err.Error(), "free disk") {
		t.Errorf("error %v, want one about free disk", err)
	}
}

// cancelAt is a log that cancels a run when a text is written.
type cancelAt struct {
	text   string
	cancel context.CancelFunc
}

func (c cancelAt) Write(p []byte) (int, error) {
	if strings.Contains(string(p), c.text) {
		c.cancel()
	}
	return len(p), nil
}

// A run that is stopped writes the results so far.
func TestStopped(t *testing.T) {
	program, err := buildKist()
	check(t, err)
	dir := t.TempDir()
	saved := filepath.Join(dir, "report.json")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	args := []string{"-kist", program, "-restic=", "-kopia=", "-borg=", "-git=", "-git-annex=", "-dir", dir, "-sets", "wide", "-wide", "100", "-json", saved}
	if err := run(ctx, args, io.Discard, cancelAt{"waiting", cancel}); !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v, want %v", err, context.Canceled)
	}
	r, err := readReport(saved)
	check(t, err)
	if len(r.Tools) != 2 || len(r.Sets) != 1 || !slices.ContainsFunc(r.Skipped, func(s Skip) bool { return s.Why == "the run was stopped" }) {
		t.Errorf("report %+v", r)
	}
}

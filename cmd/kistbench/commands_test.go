package main

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestCommands runs commands of kist and git on small histories.
func TestCommands(t *testing.T) {
	dir := t.TempDir()
	b := newTestBench(t, dir, "-restic=", "-kopia=", "-borg=", "-sets", setCommands)
	p := &schedule{bench: b}
	p.planCommands()
	if len(p.stages) != 5 || len(b.report.Sets) != 5 {
		t.Fatalf("planned: %+v", p.stages)
	}

	git := b.tools[slices.IndexFunc(b.tools, func(t tool) bool { return t.name == "git" })]
	small, long, switched := histories(b.opts)[0], histories(b.opts)[1], histories(b.opts)[4]
	long.write, switched.write = func(s *stream) { s.oneFile(20) }, func(s *stream) { s.twoBranches(30, 3) }
	for _, h := range []history{small, long, switched} {
		c := &commandRace{bench: b, history: h, dir: filepath.Join(dir, h.name), programs: [2]tool{b.tools[0], git}}
		check(t, c.make(t.Context()))
		c.touched = c.touched.Add(-minAge)
		check(t, c.run(t.Context(), 2))
	}
	if got := ratio(b.report.samples("long", "blame FILE", kistTool), b.report.samples("long", "blame FILE", "git"), seconds); math.IsNaN(got) {
		t.Errorf("blame: %v", b.report.Results)
	}
	if got := b.report.samples("small", "version", "git"); len(got) != 4*pairs || medianOf(got, cpu) <= 0 {
		t.Errorf("version: %+v", got)
	}
	if got := b.report.samples("switched", "switch BRANCH", "git"); len(got) != 2*pairs || got[3].Step != 4 || got[3].Round != 2 {
		t.Errorf("switch: %+v", got)
	}
	for _, name := range []string{"kist", "git"} { // the last command was a switch to main
		one, err := os.ReadFile(filepath.Join(dir, "switched", name, noteName(0)))
		check(t, err)
		two, err := os.ReadFile(filepath.Join(dir, "switched", "git", noteName(0)))
		check(t, err)
		if string(one) != string(two) {
			t.Errorf("%s: the file differs from git's", name)
		}
	}
}

package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestParts reads parts of a version from a server: with kist, and with restic, git and git-annex if they are on PATH.
func TestParts(t *testing.T) {
	server, err := findServer()
	if err == errNoServer && os.Getenv("KIST_TEST_NOSKIP") == "" {
		t.Skip(err)
	}
	check(t, err)
	defer server.close()
	dir := t.TempDir()
	b := newTestBench(t, dir, "-kopia=", "-borg=", "-git-annex=") // git-annex takes a minute
	f := &folder{dataSet: mixedSet(3, mib), path: filepath.Join(dir, "data")}
	check(t, f.prepare(t.Context()))
	f.touched = f.touched.Add(-minAge)
	e := b.event(f, onDemand, server)
	check(t, e.run(t.Context(), 1, func(ctx context.Context) error { return e.readParts(ctx, time.Millisecond) }))

	measured := 0
	for _, tool := range b.report.Tools {
		lazy := b.report.samples(e.set, workLazy, tool.Name)
		if len(lazy) == 0 {
			continue
		}
		measured++
		large := b.report.samples(e.set, workLarge, tool.Name)
		if lazy[0].Requests < 2 || lazy[0].Received > mib/2 || len(large) != 1 || large[0].Received < mib {
			t.Errorf("%s: a clone without content %+v, a file of 1 MiB %+v", tool.Name, lazy, large)
		}
	}
	if part := b.report.samples(e.set, workPart, kistTool); len(part) != 1 || part[0].Received < partFiles*100 || part[0].Requests > 12 {
		t.Errorf("%d tools were measured; kist read 1,000 files by %+v", measured, part)
	}
	for _, g := range goals {
		for _, figure := range g.figures {
			if figure.name == e.set && figure.value(b.report) > g.limit {
				t.Errorf("%s: %v, want at most %v", g.what, figure.value(b.report), g.limit)
			}
		}
	}
}

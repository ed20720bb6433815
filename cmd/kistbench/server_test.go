package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestRaceToServer makes a race to a server and back: of kist, and of restic and kopia if they are
// on PATH.
func TestRaceToServer(t *testing.T) {
	server, err := findServer()
	if err == errNoServer && os.Getenv("KIST_TEST_NOSKIP") == "" {
		t.Skip(err)
	}
	check(t, err)
	defer server.close()
	dir := t.TempDir()
	b := newTestBench(t, dir, "-borg=", "-git=", "-git-annex=")
	f := &folder{dataSet: mediaSet(4 * mib), path: filepath.Join(dir, "data")}
	check(t, f.prepare(t.Context()))
	f.touched = f.touched.Add(-minAge)
	e := b.event(f, onServer, server)
	check(t, e.run(t.Context(), 1, e.standard))
	for _, tool := range b.report.Tools {
		first := b.report.samples("media"+onServer, workFirst, tool.Name)
		if len(first) != 1 || first[0].Sent < 4*mib || first[0].Stored < 4*mib {
			t.Errorf("%s: first version %+v, want at least 4 MiB sent and stored", tool.Name, first)
		}
		if changed := b.report.samples("media"+onServer, workChanged, tool.Name); len(changed) != 1 || changed[0].Requests < 2 {
			t.Errorf("%s: changed %+v", tool.Name, changed)
		}
		restored := b.report.samples("media"+onServer, workRestore, tool.Name)
		if len(restored) != 1 || restored[0].Received < 5*mib { // 1 MiB was put in front of a file
			t.Errorf("%s: restored %+v", tool.Name, restored)
		}
		if fetched := b.report.samples("media"+onServer, workFetch, tool.Name); (tool.Name == kistTool || tool.Name == encryptedTool) && (len(fetched) != pairs || fetched[0].Requests == 0) {
			t.Errorf("%s: fetched %+v", tool.Name, fetched)
		}
		p := &prefix{server: server, name: filepath.Base(dir)}
		if left, err := p.stored(t.Context()); err != nil || left != 0 {
			t.Errorf("%d bytes were not removed from the server, %v", left, err)
		}
	}
}

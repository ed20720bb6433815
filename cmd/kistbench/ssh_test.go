package main

import (
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// TestSSHRace makes a small run of kist by SSH. The delay of each round trip is part of the time.
func TestSSHRace(t *testing.T) {
	if _, err := exec.LookPath("/usr/sbin/sshd"); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	b := newTestBench(t, dir, "-restic=", "-kopia=", "-borg=", "-git=", "-git-annex=")
	f := &folder{dataSet: manySet(20), path: filepath.Join(dir, "data-many")}
	check(t, f.prepare(t.Context()))
	f.touched = f.touched.Add(-minAge) // this test does not depend on the age
	ssh, err := newSSHServer(filepath.Join(dir, "sshd"), 40*time.Millisecond)
	check(t, err)
	e := b.event(f, onSlowSSH, nil)
	e.ssh = ssh
	check(t, e.run(t.Context(), 1, e.standard))

	for work, trips := range map[string]float64{workFirst: 5, workRestore: 3, workFetch: 2} {
		samples := b.report.samples("many"+onSlowSSH, work, kistTool)
		if len(samples) == 0 || samples[0].Seconds < trips*0.04 {
			t.Errorf("%s: %+v, want at least %v round trips of 40 ms", work, samples, trips)
		}
	}
	if first := b.report.samples("many"+onSlowSSH, workFirst, kistTool); len(first) != 1 || first[0].Stored <= 0 {
		t.Errorf("first version: %+v", first)
	}
}

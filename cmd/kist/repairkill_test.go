package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kist-vcs/kist/object/objecttest"
)

// TestRepairKilled kills repairs at random moments. A second repair restores everything,
// and the quarantine keeps all damaged files.
func TestRepairKilled(t *testing.T) {
	t.Parallel()
	r := newRepairable(t)
	rng := objecttest.Rand(32)
	var took time.Duration // of a repair that is not killed
	killed := 0

	for i := range 1 + objecttest.Rounds(t, 1) {
		dir := tempDir(t)
		if err := copyTree(r.path(".kist"), filepath.Join(dir, ".kist")); err != nil {
			t.Fatal(err)
		}

		s := r.in(dir)
		var flips []flipped
		for _, group := range r.groups {
			if rng.IntN(2) == 0 {
				flips = append(flips, flip(t, rng, filepath.Join(dir, ".kist"), group[rng.IntN(len(group))]))
			}
		}

		if i > 0 {
			cmd := s.command(t.Context(), "verify", "--repair")
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			kill := time.AfterFunc(time.Duration(rng.Int64N(int64(took))), func() { cmd.Process.Kill() })
			if err := cmd.Wait(); err != nil && cmd.ProcessState.ExitCode() == -1 {
				killed++
			}
			kill.Stop()
		}

		begun := time.Now()
		if o := s.runProcess("verify", "--repair"); o.status != 0 { // as the ones that are killed
			t.Fatalf("with %v, repair: %v", flips, o)
		}

		if i == 0 {
			took = time.Since(begun)
		}
		s.verify()

		for k, rev := range r.revs {
			s.kist("restore", "-q", "--to", "out", "--source", rev)
			s.wantFiles(s.readFiles("out"), r.trees[k])
			removeAll(t, s.path("out"))
		}

		for _, f := range flips {
			name := f.file
			pattern := "files-*/" + name
			if rest, ok := strings.CutPrefix(name, "volumes/"); ok {
				pattern = rest
			}
			if kept, err := filepath.Glob(s.path(".kist/quarantine/" + pattern)); err != nil || len(kept) == 0 {
				t.Errorf("%s is not in quarantine: %v", name, err)
			}
		}

		removeAll(t, dir)
	}

	t.Logf("%d repairs were killed", killed)
}

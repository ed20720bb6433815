package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kist-vcs/kist/object/objecttest"
)

// TestKillRestore kills commands before they rename a temporary file that lies beside its final
// place. The repeated command writes everything and leaves no temporary file.
func TestKillRestore(t *testing.T) {
	for name, c := range map[string]struct {
		command []string
		to      string
		prepare func(k *stepsKiller)
	}{
		"restore":  {command: []string{"restore", "--source", "side", "--to", "../out"}, to: "../out"},
		"checkout": {command: []string{"checkout", "side"}, to: ".", prepare: besideInWorktree},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := &stepsKiller{killedSteps: killedSteps{command: c.command}, shell: newShell(t), rng: objecttest.Rand(7)}
			k.env = []string{"GOMAXPROCS=1"}
			k.kist("init", "--chunk-size", "64KiB")
			k.commit("main", map[string]string{"file": "old"})
			k.kist("checkout", "-b", "side")
			side := map[string]string{"file": "new", "d/large": noise(k.rng, 300_000)}
			for i := range 5 {
				side[fmt.Sprintf("d/e%d/file", i)] = noise(k.rng, 100)
			}
			k.commit("side", side)
			want := k.readFiles(".")
			k.kist("checkout", "main")
			if c.prepare != nil {
				c.prepare(k)
			}

			left := 0
			for n := range objecttest.Rounds(t, 3) {
				k.strace(k.shell, "renameat2", 1+2*(n%3))
				left += len(k.beside(c.to))
			}
			if left == 0 {
				t.Error("no kill left a temporary file: the test has no effect")
			}
			k.kist(c.command...)
			if names := k.beside(c.to); len(names) > 0 {
				t.Errorf("left: %q", names)
			}
			k.wantFiles(k.readFiles(c.to), want)
			k.verify()
		})
	}
}

// besideInWorktree makes temporary files of the worktree lie beside their final places: those
// in .kist/tmp would inherit other properties.
func besideInWorktree(k *stepsKiller) {
	if err := os.RemoveAll(k.path(".kist/tmp")); err != nil {
		k.Fatal(err)
	}
	if err := os.Chmod(k.path(".kist"), 0o755|fs.ModeSetgid); err != nil {
		k.Fatal(err)
	}
}

// beside returns the temporary files beside others below a folder.
func (k *stepsKiller) beside(dir string) (names []string) {
	err := filepath.WalkDir(k.path(dir), func(path string, d fs.DirEntry, err error) error {
		if strings.HasPrefix(d.Name(), ".kist-tmp-") {
			names = append(names, path)
		}
		return err
	})
	if err != nil {
		k.Fatal(err)
	}
	return names
}

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestSecurityBareLinks moves each part of a bare repository outside and replaces it with a
// symlink. No command changes the moved part.
func TestSecurityBareLinks(t *testing.T) {
	for _, name := range repositoryLinks {
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			s := &shell{TB: t, dir: filepath.Join(tempDir(t), "work"), program: "kist"}
			for _, dir := range []string{s.dir, s.path("../remote"), s.path("../outside")} {
				if err := os.MkdirAll(dir, 0o777); err != nil {
					t.Fatal(err)
				}
			}

			s.write(map[string]string{"a.txt": "a\n", "b.txt": "b\n"})
			box := s.in("../box")
			s.kist("init", "--bare", "../box")
			box.kist("config", "--add", "backup.paths", s.path("."))
			box.kist("remote", "add", "origin", s.path("../remote"))
			box.kist("backup")
			box.kist("hold", "add", "HEAD")
			found, err := filepath.Glob(box.path(name))
			if err != nil || len(found) == 0 {
				t.Fatal(name, "is missing", err)
			}

			for i, path := range found {
				moved := s.path(fmt.Sprintf("../outside/%d", i))
				for _, err := range []error{os.Rename(path, moved), os.Symlink(moved, path)} {
					if err != nil {
						t.Fatal(err)
					}
				}
			}

			before := s.readFiles("../outside")
			s.write(map[string]string{"a.txt": "changed\n"})
			bad := false
			for _, args := range [][]string{{"add", "-A"}, {"commit", "-m", "x"}, {"backup", "--keep-last", "1"}, {"config", "user.name", "x"},
				{"branch", "new"}, {"gc", "--prune", "0s"}, {"fetch"}, {"push"}, {"hold", "add", "HEAD"}, {"verify"}} {
				o := box.run(args...) // in its own process, as the list of bare repositories is global
				bad = bad || o.status != 0
				s.wantFiles(s.readFiles("../outside"), before)
			}
			if !bad && name != "tmp" { // kist works without tmp
				t.Error("all commands succeeded")
			}
		})
	}
}

package main

import (
	"bytes"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// repositoryFiles returns the files of a repository, except its locks.
func repositoryFiles(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(path, ".lock") {
			return err
		}
		data, err := os.ReadFile(path)
		found[path] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestGoldenUpgrade checks that an upgrade of a current repository changes no byte. If refs
// have the older form, without checksums, an upgrade adds exactly the checksums.
func TestGoldenUpgrade(t *testing.T) {
	for _, name := range []string{"plain", "merged", "full", "small", "optimised", "big"} {
		t.Run(name, func(t *testing.T) {
			s := unpack(t, name)
			dir := s.path(".kist")
			want := repositoryFiles(t, dir)
			s.kist("upgrade")
			if got := repositoryFiles(t, dir); !maps.Equal(got, want) {
				t.Error("an upgrade of a current repository changed files")
			}

			older := 0
			for path, data := range want {
				rel, _ := filepath.Rel(dir, path)
				line, _, cut := bytes.Cut([]byte(data), []byte("\ncrc32c "))
				if cut && (rel == "HEAD" || strings.HasPrefix(rel, "refs/")) {
					older++
					if err := os.WriteFile(path, append(line, '\n'), 0o644); err != nil {
						t.Fatal(err)
					}
				}
			}
			before := repositoryFiles(t, dir)
			s.kist("upgrade", "--dry-run")
			if got := repositoryFiles(t, dir); older == 0 || !maps.Equal(got, before) {
				t.Errorf("a dry run changed files, or no ref had a checksum: %d refs", older)
			}
			s.kist("upgrade")
			if got := repositoryFiles(t, dir); !maps.Equal(got, want) {
				t.Error("the upgraded repository differs from the original")
			}
		})
	}
}

package kist_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/tree/checkout"
	"github.com/kist-vcs/kist/tree/commits"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/stage"
)

// TestLostFiles checks that verify tells of a branch and an index that are
// gone, and that nothing is committed on their absence.
func TestLostFiles(t *testing.T) {
	s := newStager(t)
	s.write("file", "one")
	s.add(stage.AddOptions{})
	s.commit("one")
	s.write("file", "two")
	s.add(stage.AddOptions{})
	s.commit("two")

	lose := func(name string, whileLost func(problem error)) {
		t.Helper()
		at := filepath.Join(s.dir, ".kist", name)
		data, err := os.ReadFile(at)
		s.check(err)
		s.check(os.Remove(at))
		report, err := gc.VerifyRepository(t.Context(), s.repo, gc.VerifyOptions{})
		s.check(err)
		if len(report.Problems) != 1 {
			t.Fatalf("without %s: problems %v", name, report.Problems)
		}
		whileLost(report.Problems[0].Err)
		s.check(os.WriteFile(at, data, 0o644))
	}
	lose("refs/heads/main", func(problem error) {
		var corrupt *refs.CorruptError
		if !errors.As(problem, &corrupt) || corrupt.File != "refs/heads/main" {
			t.Errorf("without the branch: %v", problem)
		}
		if _, err := commits.Commit(t.Context(), s.repo, commits.CommitOptions{Message: "first again", AllowEmpty: true}); !errors.Is(err, object.ErrCorrupt) {
			t.Errorf("commit without the branch: %v", err)
		}
	})
	lose("index", func(problem error) {
		var corrupt *index.CorruptError
		if !errors.As(problem, &corrupt) {
			t.Errorf("without the index: %v", problem)
		}
		if _, err := commits.Commit(t.Context(), s.repo, commits.CommitOptions{Message: "all gone", All: true}); !errors.Is(err, object.ErrCorrupt) {
			t.Errorf("commit without the index: %v", err)
		}
		_, err := checkout.Reset(t.Context(), s.repo, "HEAD", checkout.ResetMixed, nil)
		s.check(err)
	})
}

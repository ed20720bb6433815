package gc_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/work/checkout"
	"github.com/kist-vcs/kist/tree/work/commits"
	"github.com/kist-vcs/kist/tree/work/stage"
)

// verify reports a missing branch or index, and commit fails without them.
func TestLostFiles(t *testing.T) {
	s := kisttest.New(t)
	s.Write("file", "one")
	s.Add(stage.AddOptions{})
	s.Commit("one")
	s.Write("file", "two")
	s.Add(stage.AddOptions{})
	s.Commit("two")

	lose := func(name string, whileLost func(problem error)) {
		t.Helper()
		at := filepath.Join(s.Dir, ".kist", name)
		data, err := os.ReadFile(at)
		s.Check(err)
		s.Check(os.Remove(at))
		report, err := gc.VerifyRepository(t.Context(), s.Repo, gc.VerifyOptions{})
		s.Check(err)
		if len(report.Problems) != 1 {
			t.Fatalf("without %s: problems %v, want one", name, report.Problems)
		}
		whileLost(report.Problems[0].Err)
		s.Check(os.WriteFile(at, data, 0o644))
	}
	lose("refs/heads/main", func(problem error) {
		var corrupt *object.DamageError
		if !errors.As(problem, &corrupt) || corrupt.Name != "refs/heads/main" || !errors.Is(problem, refs.ErrDamaged) {
			t.Errorf("problem without the branch: %v, want ErrDamaged", problem)
		}
		if _, err := commits.Commit(t.Context(), s.Repo, commits.CommitOptions{Message: "first again", AllowEmpty: true}); !errors.Is(err, object.ErrCorrupt) {
			t.Errorf("commit without the branch: error %v, want ErrCorrupt", err)
		}
	})
	lose("index", func(problem error) {
		if !errors.Is(problem, index.ErrDamaged) {
			t.Errorf("problem without the index: %v, want ErrDamaged", problem)
		}
		if _, err := commits.Commit(t.Context(), s.Repo, commits.CommitOptions{Message: "all gone", All: true}); !errors.Is(err, object.ErrCorrupt) {
			t.Errorf("commit without the index: error %v, want ErrCorrupt", err)
		}
		_, err := checkout.Reset(t.Context(), s.Repo, "HEAD", checkout.ResetMixed, nil)
		s.Check(err)
	})
}

// FindNeeds lists the volumes once, and not for each branch. The test compares the
// allocations for one branch and for many.
func TestFindNeedsListsVolumesOnce(t *testing.T) {
	s := kisttest.New(t)
	s.Write("file", "one")
	s.Add(stage.AddOptions{})
	s.Commit("one")
	for i := range 200 {
		s.Check(os.Mkdir(filepath.Join(s.Dir, ".kist/volumes", fmt.Sprintf("other-%d", i)), 0o777))
	}
	records, err := s.Repo.RecordView()
	s.Check(err)
	head, err := s.Repo.Refs().Head()
	s.Check(err)

	work := func() float64 {
		return testing.AllocsPerRun(3, func() {
			if _, err := gc.FindNeeds(t.Context(), s.Repo, records, nil); err != nil {
				t.Fatal(err)
			}
		})
	}
	before := work()
	const branches = 40
	for i := range branches {
		name := fmt.Sprintf(".kist/refs/heads/other-%d", i)
		s.Check(os.WriteFile(filepath.Join(s.Dir, name), []byte(head.ID.String()+"\n"), 0o644))
	}
	if each := (work() - before) / branches; each > 200 {
		t.Errorf("%.0f allocations for each branch, want at most 200", each)
	}
}

package commits_test

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/tree/work/commits"
	"github.com/kist-vcs/kist/tree/work/stage"
)

// wantClean checks that nothing is left to stage or commit.
func wantClean(s *kisttest.Repository) {
	s.Helper()
	st, err := stage.ReadStatus(s.Context(), s.Repo, stage.StatusOptions{})
	s.Check(err)
	if !st.Clean() || len(st.Untracked) > 0 {
		s.Errorf("status is not clean: %+v", st)
	}
}

// StageAndCommit uses one volume. Without changes, it makes no commit.
func TestStageAndCommit(t *testing.T) {
	s := kisttest.New(t)
	s.Write("a", "hello, this is long enough for a chunk of its own")
	s.Write("d/b", "b")
	staged, done, err := commits.StageAndCommit(t.Context(), s.Repo, stage.AddOptions{}, commits.CommitOptions{Message: "one"})
	s.Check(err)
	if staged.Added.Len() != 2 || done.Commit.Files != 2 || staged.Stats.NewObjects < 3 {
		t.Errorf("staged %+v, committed %+v", staged, done)
	}
	volumes, err := filepath.Glob(filepath.Join(s.Repo.Dir(), "volumes", "*"))
	if s.Check(err); len(volumes) != 1 {
		t.Errorf("volumes: %q, want one", volumes)
	}
	wantClean(s)
	staged, _, err = commits.StageAndCommit(t.Context(), s.Repo, stage.AddOptions{}, commits.CommitOptions{Message: "two"})
	if !errors.Is(err, commits.ErrNothingToCommit) || staged == nil {
		t.Errorf("without changes: staged %+v, error %v, want ErrNothingToCommit", staged, err)
	}
}

// The files stay staged if the commit fails.
func TestStageWithoutCommit(t *testing.T) {
	s := kisttest.New(t)
	s.Write("a", "a")
	staged, done, err := commits.StageAndCommit(t.Context(), s.Repo, stage.AddOptions{}, commits.CommitOptions{})
	if err == nil || done != nil || staged == nil {
		t.Fatalf("staged %+v, committed %+v, error %v, want an error", staged, done, err)
	}
	idx, err := s.Repo.Index()
	if s.Check(err); stage.Indexed(idx, "a") == nil {
		t.Error("a is not staged")
	}
	s.Commit("then")
	wantClean(s)
}

// If another process changes the index meanwhile, the commit has both changes.
func TestStageAndCommitBeside(t *testing.T) {
	s := kisttest.New(t)
	s.Write("a", "a")
	other, err := kist.Open(s.Repo.Root(), kist.Options{})
	s.Check(err)
	defer other.Close()
	begun := false
	add := stage.AddOptions{Paths: []string{"a"}, Progress: func(_, _ kist.Amount) {
		if !begun {
			begun = true
			s.Write("b", "b")
			_, err := stage.Add(t.Context(), other, stage.AddOptions{Paths: []string{"b"}})
			s.Check(err)
		}
	}}
	staged, done, err := commits.StageAndCommit(t.Context(), s.Repo, add, commits.CommitOptions{Message: "both"})
	s.Check(err)
	if !begun || !slices.Equal(staged.Added.Paths(), []string{"a"}) || done.Commit.Files != 2 {
		t.Errorf("begun %v, staged %+v, committed %+v", begun, staged, done)
	}
	wantClean(s)
}

package kisttest

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/tree/work/checkout"
	"github.com/kist-vcs/kist/tree/work/commits"
	"github.com/kist-vcs/kist/tree/work/stage"
)

func (s *Repository) Want(path, text string) {
	s.Helper()
	got, err := os.ReadFile(filepath.Join(s.Dir, path))
	s.Check(err)
	if string(got) != text {
		s.Errorf("%s holds %q, want %q", path, got, text)
	}
}

// Repository is the repository of a test.
type Repository struct {
	*testing.T
	Dir  string
	Repo *kist.Repository
}

// New makes a repository, which is verified when the test ends.
func New(t *testing.T) *Repository {
	t.Helper()
	return NewWith(t, kist.InitOptions{})
}

func NewWith(t *testing.T, o kist.InitOptions) *Repository {
	t.Helper()
	s := &Repository{T: t, Dir: t.TempDir()}
	var err error
	s.Repo, err = kist.Init(t.Context(), s.Dir, kist.Options{}, o)
	s.Check(err)
	t.Cleanup(func() {
		report, err := gc.VerifyRepository(context.Background(), s.Repo, gc.VerifyOptions{Volumes: volume.CheckOptions{ReadData: true}})
		s.Check(err)
		for _, p := range report.Problems {
			t.Errorf("verify: %v", p)
		}
		s.Check(s.Repo.Close())
	})
	return s
}

func (s *Repository) Check(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *Repository) Write(path, text string) {
	s.Helper()
	file := filepath.Join(s.Dir, path)
	s.Check(os.MkdirAll(filepath.Dir(file), 0o755))
	s.Check(os.WriteFile(file, []byte(text), 0o644))
}

func (s *Repository) Add(o stage.AddOptions) *stage.AddResult {
	s.Helper()
	result, err := stage.Add(s.Context(), s.Repo, o)
	s.Check(err)
	return result
}

func (s *Repository) Commit(message string) *commits.CommitResult {
	s.Helper()
	result, err := commits.Commit(s.Context(), s.Repo, commits.CommitOptions{Message: message})
	s.Check(err)
	return result
}

// Checkout switches branches and fails the test on an error.
func (s *Repository) Checkout(o checkout.SwitchOptions) {
	s.Helper()
	_, err := checkout.Switch(s.Context(), s.Repo, o)
	s.Check(err)
}

// Conflict leaves a merge with conflicts about the paths both, which both
// sides changed, and gone, which we removed and they changed.
func (s *Repository) Conflict() {
	s.Helper()
	s.Write("both", "base")
	s.Write("gone", "base")
	s.Write("other", "base")
	s.Add(stage.AddOptions{})
	s.Commit("base")
	_, err := checkout.Switch(s.Context(), s.Repo, checkout.SwitchOptions{Create: "theirs"})
	s.Check(err)
	s.Write("both", "theirs")
	s.Write("gone", "theirs")
	s.Add(stage.AddOptions{})
	s.Commit("theirs")
	_, err = checkout.Switch(s.Context(), s.Repo, checkout.SwitchOptions{Rev: "main"})
	s.Check(err)
	s.Write("both", "ours")
	s.Check(os.Remove(filepath.Join(s.Dir, "gone")))
	s.Add(stage.AddOptions{})
	s.Commit("ours")
	merged, err := commits.Merge(s.Context(), s.Repo, commits.MergeOptions{Rev: "theirs"})
	s.Check(err)
	if len(merged.Conflicts) != 2 {
		s.Fatalf("conflicts: %+v", merged.Conflicts)
	}
}

func (s *Repository) Conflicts() (paths []string) {
	s.Helper()
	idx, err := s.Repo.Index()
	s.Check(err)
	for _, c := range idx.Conflicts() {
		paths = append(paths, c.Path)
	}
	return paths
}

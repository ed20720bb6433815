package kist_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/tree/checkout"
	"github.com/kist-vcs/kist/tree/commits"
	"github.com/kist-vcs/kist/tree/stage"
)

// stager is a repository of a test about staging.
type stager struct {
	*testing.T
	dir  string
	repo *kist.Repository
}

// newStager makes a repository, which is verified when the test ends.
func newStager(t *testing.T) *stager {
	t.Helper()
	return newStagerWith(t, kist.InitOptions{})
}

func newStagerWith(t *testing.T, o kist.InitOptions) *stager {
	t.Helper()
	s := &stager{T: t, dir: t.TempDir()}
	var err error
	s.repo, err = kist.Init(t.Context(), s.dir, kist.Options{}, o)
	s.check(err)
	t.Cleanup(func() {
		report, err := gc.VerifyRepository(context.Background(), s.repo, gc.VerifyOptions{Volumes: volume.CheckOptions{ReadData: true}})
		s.check(err)
		for _, p := range report.Problems {
			t.Errorf("verify: %v", p)
		}
		s.check(s.repo.Close())
	})
	return s
}

func (s *stager) check(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *stager) write(path, text string) {
	s.Helper()
	file := filepath.Join(s.dir, path)
	s.check(os.MkdirAll(filepath.Dir(file), 0o755))
	s.check(os.WriteFile(file, []byte(text), 0o644))
}

func (s *stager) add(o stage.AddOptions) *stage.AddResult {
	s.Helper()
	result, err := stage.Add(s.Context(), s.repo, o)
	s.check(err)
	return result
}

func (s *stager) commit(message string) *commits.CommitResult {
	s.Helper()
	result, err := commits.Commit(s.Context(), s.repo, commits.CommitOptions{Message: message})
	s.check(err)
	return result
}

// checkout switches, which must succeed.
func (s *stager) checkout(o checkout.SwitchOptions) {
	s.Helper()
	_, err := checkout.Switch(s.Context(), s.repo, o)
	s.check(err)
}

// conflict leaves a merge with conflicts about the paths both, which both
// sides changed, and gone, which we removed and they changed.
func (s *stager) conflict() {
	s.Helper()
	s.write("both", "base")
	s.write("gone", "base")
	s.write("other", "base")
	s.add(stage.AddOptions{})
	s.commit("base")
	_, err := checkout.Switch(s.Context(), s.repo, checkout.SwitchOptions{Create: "theirs"})
	s.check(err)
	s.write("both", "theirs")
	s.write("gone", "theirs")
	s.add(stage.AddOptions{})
	s.commit("theirs")
	_, err = checkout.Switch(s.Context(), s.repo, checkout.SwitchOptions{Rev: "main"})
	s.check(err)
	s.write("both", "ours")
	s.check(os.Remove(filepath.Join(s.dir, "gone")))
	s.add(stage.AddOptions{})
	s.commit("ours")
	merged, err := commits.Merge(s.Context(), s.repo, commits.MergeOptions{Rev: "theirs"})
	s.check(err)
	if len(merged.Conflicts) != 2 {
		s.Fatalf("conflicts: %+v", merged.Conflicts)
	}
}

func (s *stager) conflicts() (paths []string) {
	s.Helper()
	idx, err := s.repo.Index()
	s.check(err)
	for _, c := range idx.Conflicts() {
		paths = append(paths, c.Path)
	}
	return paths
}

func TestAddResolvesConflicts(t *testing.T) {
	t.Run("one by one", func(t *testing.T) {
		s := newStager(t)
		s.conflict()
		s.add(stage.AddOptions{Paths: []string{"other"}})
		if _, err := commits.Commit(t.Context(), s.repo, commits.CommitOptions{}); !errors.Is(err, commits.ErrConflicts) {
			t.Errorf("commit with conflicts: %v", err)
		}
		s.write("both", "resolved")
		if r := s.add(stage.AddOptions{Paths: []string{"both"}}); !slices.Equal(r.Resolved, []string{"both"}) {
			t.Errorf("resolved: %q", r.Resolved)
		}
		if got := s.conflicts(); !slices.Equal(got, []string{"gone"}) {
			t.Errorf("conflicts left: %q", got)
		}
		s.check(os.Remove(filepath.Join(s.dir, "gone")))
		s.add(stage.AddOptions{Paths: []string{"gone"}})
		if got := s.conflicts(); len(got) > 0 {
			t.Errorf("conflicts left: %q", got)
		}
		c := s.commit("")
		if len(c.Commit.Parents) != 2 || c.Commit.Files != 2 {
			t.Errorf("merge commit of %d parents, %d files", len(c.Commit.Parents), c.Commit.Files)
		}
	})
	t.Run("all as they are", func(t *testing.T) {
		s := newStager(t)
		s.conflict()
		s.write("both", "ours") // equal to what is staged
		if r := s.add(stage.AddOptions{}); !slices.Equal(r.Resolved, []string{"both", "gone"}) {
			t.Errorf("resolved: %q", r.Resolved)
		}
		if got := s.conflicts(); len(got) > 0 {
			t.Errorf("conflicts left: %q", got)
		}
		if c := s.commit(""); c.Commit.Files != 3 {
			t.Errorf("%d files", c.Commit.Files)
		}
	})
	t.Run("removed", func(t *testing.T) {
		s := newStager(t)
		s.conflict()
		for _, path := range []string{"both", "gone"} {
			_, err := checkout.Remove(t.Context(), s.repo, checkout.RemoveOptions{Paths: []string{path}})
			s.check(err)
			if _, err := os.Lstat(filepath.Join(s.dir, path)); err == nil {
				t.Errorf("%s is still there", path)
			}
		}
		if c := s.commit(""); c.Commit.Files != 1 {
			t.Errorf("%d files", c.Commit.Files)
		}
	})
}

func TestAddOfNothing(t *testing.T) {
	s := newStager(t)
	s.write("a", "a")
	if _, err := stage.Add(t.Context(), s.repo, stage.AddOptions{Paths: []string{"a", "nowhere"}}); !errors.Is(err, kist.ErrNoMatch) {
		t.Errorf("error %v, want %v", err, kist.ErrNoMatch)
	}
	idx, err := s.repo.Index()
	s.check(err)
	if idx.Len() > 0 {
		t.Error("something was staged")
	}
	if r := s.add(stage.AddOptions{Paths: []string{}}); len(r.Added) > 0 {
		t.Errorf("added %q though no path was given", r.Added)
	}
}

// TestAddsSideBySide has several processes' worth of adds run at once, of
// different folders and of the same one.
func TestAddsSideBySide(t *testing.T) {
	s := newStager(t)
	const writers, files = 4, 30
	for w := range writers {
		for i := range files {
			s.write(fmt.Sprintf("own%d/file%d", w, i), fmt.Sprintf("file %d of writer %d, beyond what is inline", i, w))
			s.write(fmt.Sprintf("shared/%d-%d", w, i), fmt.Sprintf("file %d of all writers, beyond what is inline", i))
		}
	}
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			repo, err := kist.Open(s.dir, kist.Options{})
			if err != nil {
				t.Error(err)
				return
			}
			defer repo.Close()
			for _, paths := range [][]string{{fmt.Sprint("own", w)}, {"shared"}} {
				if _, err := stage.Add(t.Context(), repo, stage.AddOptions{Paths: paths}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if c := s.commit("all"); c.Commit.Files != 2*writers*files {
		t.Errorf("%d files, want %d", c.Commit.Files, 2*writers*files)
	}
	status, err := stage.ReadStatus(t.Context(), s.repo, stage.StatusOptions{})
	s.check(err)
	if !status.Clean() || len(status.Untracked) > 0 {
		t.Errorf("status: %+v", status)
	}
}

// TestAddOfAFileThatChanges adds a file that is written to whenever some of it was
// read.
func TestAddOfAFileThatChanges(t *testing.T) {
	s := newStager(t)
	s.write("steady", "steady")
	s.write("log", "begun")
	f, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_WRONLY|os.O_APPEND, 0)
	s.check(err)
	defer f.Close()
	result := s.add(stage.AddOptions{Progress: func(kist.Amount, kist.Amount) {
		if _, err := f.WriteString("more\n"); err != nil {
			t.Error(err)
		}
	}})
	if len(result.Skipped) != 1 || result.Skipped[0].Path != "log" {
		t.Fatalf("skipped: %+v", result.Skipped)
	}
	c := s.commit("partial")
	if c.Commit.SkippedCount != 1 || c.Commit.Skipped[0].Path != "log" {
		t.Errorf("the commit says that %+v was skipped", c.Commit.Skipped)
	}
	s.add(stage.AddOptions{})
	if c := s.commit("whole"); c.Commit.SkippedCount != 0 {
		t.Errorf("the next commit still says that %+v was skipped", c.Commit.Skipped)
	}
}

// More files than are kept together in memory are staged like few.
func TestAddManyFiles(t *testing.T) {
	s := newStager(t)
	const files = 17_000
	for i := range files {
		s.write(fmt.Sprintf("d%d/f%d", i%7, i), "")
	}
	s.write("d3/last", "not empty")
	var done, total kist.Amount
	result := s.add(stage.AddOptions{Progress: func(d, t kist.Amount) { done, total = d, t }})
	if want := (kist.Amount{Files: files + 1, Bytes: 9}); len(result.Added) != files+1 || result.Read != want || done != want || total != want {
		t.Errorf("%d added, %v read, progress %v of %v", len(result.Added), result.Read, done, total)
	}
	idx, err := s.repo.Index()
	s.check(err)
	for i := range files {
		if path := fmt.Sprintf("d%d/f%d", i%7, i); idx.Entry(path) == nil {
			t.Fatalf("%s is not staged", path)
		}
	}
	if e := idx.Entry("d3/last"); e == nil || e.Data != "not empty" {
		t.Errorf("d3/last: %+v", e)
	}
}

// TestCommitBrief checks that a commit does not tell what it changes if that is
// not asked for, and is the same otherwise.
func TestCommitBrief(t *testing.T) {
	s := newStager(t)
	s.write("folder/file", "text")
	s.add(stage.AddOptions{})
	result, err := commits.Commit(s.Context(), s.repo, commits.CommitOptions{Message: "brief", Brief: true})
	s.check(err)
	if result.Changes != nil || result.Unknown || result.Commit.Files != 1 {
		t.Errorf("changes %v, unknown %v, %d files", result.Changes, result.Unknown, result.Commit.Files)
	}
	s.write("other", "text")
	s.add(stage.AddOptions{})
	if changes := s.commit("not brief").Changes; len(changes) != 1 || changes[0].Path != "other" {
		t.Errorf("changes %v, want one of other", changes)
	}
}

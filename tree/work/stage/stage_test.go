package stage_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/work/checkout"
	"github.com/kist-vcs/kist/tree/work/commits"
	"github.com/kist-vcs/kist/tree/work/stage"
)

func TestAddResolvesConflicts(t *testing.T) {
	t.Run("one by one", func(t *testing.T) {
		s := kisttest.New(t)
		s.Conflict()
		s.Add(stage.AddOptions{Paths: []string{"other"}})
		if _, err := commits.Commit(t.Context(), s.Repo, commits.CommitOptions{}); !errors.Is(err, index.ErrConflict) {
			t.Errorf("commit with conflicts: error %v, want ErrConflict", err)
		}

		s.Write("both", "resolved")
		if r := s.Add(stage.AddOptions{Paths: []string{"both"}}); !slices.Equal(r.Resolved, []string{"both"}) {
			t.Errorf("resolved %q, want both", r.Resolved)
		}
		if got := s.Conflicts(); !slices.Equal(got, []string{"gone"}) {
			t.Errorf("conflicts left: %q, want gone", got)
		}

		s.Check(os.Remove(filepath.Join(s.Dir, "gone")))
		s.Add(stage.AddOptions{Paths: []string{"gone"}})
		if got := s.Conflicts(); len(got) > 0 {
			t.Errorf("conflicts left: %q, want none", got)
		}

		c := s.Commit("")
		if len(c.Commit.Parents) != 2 || c.Commit.Files != 2 {
			t.Errorf("merge commit has %d parents and %d files, want 2 and 2", len(c.Commit.Parents), c.Commit.Files)
		}
	})

	t.Run("all as they are", func(t *testing.T) {
		s := kisttest.New(t)
		s.Conflict()
		s.Write("both", "ours") // equals the staged content
		if r := s.Add(stage.AddOptions{}); !slices.Equal(r.Resolved, []string{"both", "gone"}) {
			t.Errorf("resolved %q, want both and gone", r.Resolved)
		}
		if got := s.Conflicts(); len(got) > 0 {
			t.Errorf("conflicts left: %q, want none", got)
		}
		if c := s.Commit(""); c.Commit.Files != 3 {
			t.Errorf("%d files, want 3", c.Commit.Files)
		}
	})

	t.Run("removed", func(t *testing.T) {
		s := kisttest.New(t)
		s.Conflict()
		for _, path := range []string{"both", "gone"} {
			_, err := checkout.Remove(t.Context(), s.Repo, checkout.RemoveOptions{Paths: []string{path}})
			s.Check(err)
			if _, err := os.Lstat(filepath.Join(s.Dir, path)); err == nil {
				t.Errorf("%s still exists", path)
			}
		}
		if c := s.Commit(""); c.Commit.Files != 1 {
			t.Errorf("%d files, want 1", c.Commit.Files)
		}
	})
}

func TestAddOfNothing(t *testing.T) {
	s := kisttest.New(t)
	s.Write("a", "a")
	if _, err := stage.Add(t.Context(), s.Repo, stage.AddOptions{Paths: []string{"a", "nowhere"}}); !errors.Is(err, kist.ErrNoMatch) {
		t.Errorf("error %v, want %v", err, kist.ErrNoMatch)
	}
	idx, err := s.Repo.Index()
	s.Check(err)
	if idx.Len() > 0 {
		t.Error("a refused add staged files")
	}
	if r := s.Add(stage.AddOptions{Paths: []string{}}); r.Added.Len() > 0 {
		t.Errorf("add without paths added %q", r.Added.Paths())
	}
}

// Concurrent adds of different folders and of the same folder lose nothing.
func TestAddsSideBySide(t *testing.T) {
	s := kisttest.New(t)
	const writers, files = 4, 30
	for w := range writers {
		for i := range files {
			s.Write(fmt.Sprintf("own%d/file%d", w, i), fmt.Sprintf("file %d of writer %d, beyond what is inline", i, w))
			s.Write(fmt.Sprintf("shared/%d-%d", w, i), fmt.Sprintf("file %d of all writers, beyond what is inline", i))
		}
	}

	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			repo, err := kist.Open(s.Dir, kist.Options{})
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
	if c := s.Commit("all"); c.Commit.Files != 2*writers*files {
		t.Errorf("%d files, want %d", c.Commit.Files, 2*writers*files)
	}

	status, err := stage.ReadStatus(t.Context(), s.Repo, stage.StatusOptions{})
	s.Check(err)
	if !status.Clean() || len(status.Untracked) > 0 {
		t.Errorf("status is not clean: %+v", status)
	}
}

// A file that changes during each read is skipped, and the commit records that.
func TestAddOfAFileThatChanges(t *testing.T) {
	s := kisttest.New(t)
	s.Write("steady", "steady")
	s.Write("log", "begun")
	f, err := os.OpenFile(filepath.Join(s.Dir, "log"), os.O_WRONLY|os.O_APPEND, 0)
	s.Check(err)
	defer f.Close()
	result := s.Add(stage.AddOptions{Progress: func(kist.Amount, kist.Amount) {
		if _, err := f.WriteString("more\n"); err != nil {
			t.Error(err)
		}
	}})
	if len(result.Skipped) != 1 || result.Skipped[0].Path != "log" {
		t.Fatalf("skipped %+v, want log", result.Skipped)
	}
	c := s.Commit("partial")
	if c.Commit.SkippedCount != 1 || c.Commit.Skipped[0].Path != "log" {
		t.Errorf("the commit records %+v as skipped, want log", c.Commit.Skipped)
	}
	s.Add(stage.AddOptions{})
	if c := s.Commit("whole"); c.Commit.SkippedCount != 0 {
		t.Errorf("the next commit records %+v as skipped, want none", c.Commit.Skipped)
	}
}

// An add stages more files than it keeps in memory at once.
func TestAddManyFiles(t *testing.T) {
	s := kisttest.New(t)
	const files = 17_000
	for i := range files {
		s.Write(fmt.Sprintf("d%d/f%d", i%7, i), "")
	}
	s.Write("d3/last", "not empty")
	var done, total kist.Amount
	result := s.Add(stage.AddOptions{Progress: func(d, t kist.Amount) { done, total = d, t }})
	if want := (kist.Amount{Files: files + 1, Bytes: 9}); result.Added.Len() != files+1 || result.Read != want || done != want || total != want {
		t.Errorf("%d added, %v read, progress %v of %v, want %v", result.Added.Len(), result.Read, done, total, want)
	}
	idx, err := s.Repo.Index()
	s.Check(err)
	for i := range files {
		if path := fmt.Sprintf("d%d/f%d", i%7, i); idx.Entry(path) == nil {
			t.Fatalf("%s is not staged", path)
		}
	}
	if e := idx.Entry("d3/last"); e == nil || e.Data != "not empty" {
		t.Errorf("d3/last is %+v", e)
	}
}

// With Brief, a commit does not list its changes.
func TestCommitBrief(t *testing.T) {
	s := kisttest.New(t)
	s.Write("folder/file", "text")
	s.Add(stage.AddOptions{})
	result, err := commits.Commit(s.Context(), s.Repo, commits.CommitOptions{Message: "brief", Brief: true})
	s.Check(err)
	if result.Changes != nil || result.Unknown || result.Commit.Files != 1 {
		t.Errorf("changes %v, unknown %v, %d files", result.Changes, result.Unknown, result.Commit.Files)
	}
	s.Write("other", "text")
	s.Add(stage.AddOptions{})
	if changes := s.Commit("not brief").Changes; len(changes) != 1 || changes[0].Path != "other" {
		t.Errorf("changes %v, want other", changes)
	}
}

package kisttest

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kist-vcs/kist/gc/purge"
	"github.com/kist-vcs/kist/gc/rewrite"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/tree/work/stage"
	"github.com/kist-vcs/kist/tree/worktree"
)

const Secret = "TOKEN=a secret that is far too long to be kept inline, and not for everybody\n"

// Noise returns bytes that cannot be compressed, the same for a seed.
func Noise(seed byte, n int) []byte {
	data := make([]byte, n)
	_, _ = mathrand.NewChaCha8([32]byte{seed}).Read(data)
	return data
}

func (s *Repository) Plan(o purge.Options) *purge.Plan {
	s.Helper()
	plan, err := purge.NewPlan(s.Context(), s.Repo, o)
	s.Check(err)
	return plan
}

func (s *Repository) Purge(paths ...string) *purge.Plan {
	s.Helper()
	var o purge.Options
	for _, path := range paths {
		o.Paths = append(o.Paths, purge.Path{Path: path})
	}
	plan := s.Plan(o)
	_, err := purge.Apply(s.Context(), s.Repo, plan, "", true)
	s.Check(err)
	return plan
}

func (s *Repository) Exists(path string) bool {
	_, err := os.Lstat(filepath.Join(s.Dir, path))
	return err == nil
}

// Unwritten fails the test unless err lists exactly the paths want, each as purged.
func (s *Repository) Unwritten(err error, want ...string) {
	s.Helper()
	var failed *worktree.ApplyError
	if !errors.As(err, &failed) || failed.Stopped {
		s.Fatalf("error %v, want one about the paths %q", err, want)
	}
	var got []string
	for _, f := range failed.Failed {
		if !errors.Is(f.Err, object.ErrPurged) {
			s.Errorf("%s: %v", f.Path, f.Err)
		}
		got = append(got, f.Path)
	}
	if !slices.Equal(got, want) {
		s.Errorf("not written: %q, want %q", got, want)
	}
}

// Stored returns the files in the repository that have a text.
func (s *Repository) Stored(text string) (files []string) {
	s.Helper()
	s.Check(filepath.WalkDir(filepath.Join(s.Dir, ".kist"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if bytes.Contains(data, []byte(text)) {
			files = append(files, path)
		}
		return err
	}))
	return files
}

func (s *Repository) Status() *stage.Status {
	s.Helper()
	st, err := stage.ReadStatus(s.Context(), s.Repo, stage.StatusOptions{})
	s.Check(err)
	return st
}

func (s *Repository) Head() object.ID {
	s.Helper()
	id, err := s.Repo.Resolve(context.Background(), "HEAD")
	s.Check(err)
	return id
}

// StopRewrite runs a rewrite that fails at a file below .kist, which it replaces by
// an obstacle. If file is empty, the rewrite succeeds, and only the refs are restored.
func (s *Repository) StopRewrite(plan *purge.Plan, file string) {
	s.Helper()
	if file == "" {
		done, err := rewrite.Run(s.Context(), s.Repo, plan, false)
		s.Check(err)
		for i, c := range done.Refs {
			done.Refs[i].Old, done.Refs[i].New = c.New, c.Old
		}
		s.Check(s.Repo.Refs().Update(s.Context(), done.Refs, refs.Who{}))
		return
	}
	at := filepath.Join(s.Dir, ".kist", file)
	s.Check(os.RemoveAll(at))
	if strings.HasSuffix(file, ".lock") {
		s.Check(os.Mkdir(at, 0o755))
	} else {
		s.Check(os.WriteFile(at, []byte("something else\n"), 0o644))
	}
	if _, err := rewrite.Run(s.Context(), s.Repo, plan, false); err == nil {
		s.Fatal("nothing has stopped it")
	}
	s.Check(os.Remove(at))
}

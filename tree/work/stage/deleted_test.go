package stage_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/work/stage"
)

// sources are the paths that a bare repository backs up.
type sources struct {
	*kisttest.Repository
	dir  string // on disk
	root string // in the repository
}

// newSources makes a root with five files in each of ten folders, which are staged.
func newSources(t *testing.T) *sources {
	t.Helper()
	s := &sources{Repository: kisttest.NewWith(t, kist.InitOptions{Bare: true}), dir: filepath.Join(t.TempDir(), "data")}
	s.root = filepath.ToSlash(s.dir)[1:]
	s.Check(s.Repo.AddConfig(t.Context(), kist.KeyBackupPaths, s.dir))
	s.reopen()
	s.fill("old")
	s.Add(stage.AddOptions{})
	return s
}

// reopen lets the repository read its paths once more.
func (s *sources) reopen() {
	s.Helper()
	s.Check(s.Repo.Close())
	var err error
	s.Repo, err = kist.Open(s.Repo.Dir(), kist.Options{Jobs: 1})
	s.Check(err)
}

func (s *sources) fill(text string) {
	s.Helper()
	for i := range 50 {
		file := filepath.Join(s.dir, fmt.Sprint("d", i/5), fmt.Sprint("f", i))
		s.Check(os.MkdirAll(filepath.Dir(file), 0o755))
		s.Check(os.WriteFile(file, fmt.Append(nil, text, " content of ", file), 0o644))
	}
}

// after returns a function for the progress of an add. It calls begin once after n files, and
// end, unless that is nil, after the last file.
func (s *sources) after(n int64, begin, end func() error) kist.Progress {
	var begun, ended bool
	return func(done, total kist.Amount) {
		var err error
		switch {
		case done.Files >= n && !begun:
			begun = true
			err = begin()
		case done.Files == total.Files && end != nil && !ended:
			ended = true
			err = end()
		}
		if err != nil {
			s.Error(err)
		}
	}
}

// staged returns how many files of the root are staged.
func (s *sources) staged() (n int) {
	s.Helper()
	idx, err := s.Repo.Index()
	s.Check(err)
	for path := range idx.Dir("").All() {
		if tree.Below(path, s.root) {
			n++
		}
	}
	return n
}

// A root that goes away while its files are read is skipped. No file of it is staged as
// deleted, also if it comes back before the end.
func TestAddOfRootThatGoesAway(t *testing.T) {
	for name, back := range map[string]bool{"gone": false, "back": true} {
		t.Run(name, func(t *testing.T) {
			s := newSources(t)
			s.fill("new and longer")
			away := s.dir + ".away"
			result := s.Add(stage.AddOptions{Progress: s.after(6, func() error { return os.Rename(s.dir, away) }, func() error {
				if !back {
					return nil
				}
				return os.Rename(away, s.dir)
			})})

			if n := s.staged(); n != 50 {
				t.Errorf("%d files are staged, want 50", n)
			}
			if len(result.Deleted) > 0 {
				t.Errorf("deleted %q, want nothing", result.Deleted)
			}
			if len(result.Skipped) == 0 || !tree.Below(result.Skipped[0].Path, s.root) {
				t.Errorf("skipped %+v, want paths below %s", result.Skipped, s.root)
			}
			if !back && len(result.Skipped) != 1 {
				t.Errorf("skipped %+v, want the root alone", result.Skipped)
			}
		})
	}
}

// New files that vanish with their root are not left out silently.
func TestFirstAddOfRootThatGoesAway(t *testing.T) {
	s := newSources(t)
	s.Check(index.UpdateWith(t.Context(), s.Repo.Dir(), index.Options{}, func(idx *index.Index) error {
		idx.Remove(s.root)
		return nil
	}))
	result := s.Add(stage.AddOptions{Progress: s.after(6, func() error { return os.Rename(s.dir, s.dir+".away") }, nil)})
	if len(result.Skipped) != 1 || result.Skipped[0].Path != s.root {
		t.Errorf("skipped %+v, want %s", result.Skipped, s.root)
	}
}

// A folder that the user removes while files are read is deleted, as long as its root stays.
func TestAddOfRemovedFolder(t *testing.T) {
	s := newSources(t)
	s.fill("new and longer")
	result := s.Add(stage.AddOptions{Progress: s.after(6, func() error { return os.RemoveAll(filepath.Join(s.dir, "d7")) }, nil)})
	if n := s.staged(); n != 45 || len(result.Skipped) > 0 || len(result.Deleted) != 5 {
		t.Errorf("%d files are staged, %d deleted, skipped %+v; want 45, 5 and none", n, len(result.Deleted), result.Skipped)
	}
}

// A limit refuses deletions above a share of one root, and stages nothing.
func TestDeletedLimit(t *testing.T) {
	for _, test := range []struct {
		remove  int // of 50 files
		limit   stage.DeletedLimit
		refused bool
	}{
		{50, stage.DeletedLimit{}, false},
		{25, stage.DeletedLimit{Share: 0.5}, false},
		{30, stage.DeletedLimit{Share: 0.5}, true},
		{30, stage.DeletedLimit{Share: 0.5, Least: 31}, false},
		{30, stage.DeletedLimit{Share: 0.5, Least: 30}, true},
		{45, stage.DeletedLimit{Share: 1}, false},
	} {
		t.Run(fmt.Sprint(test), func(t *testing.T) {
			s := newSources(t)
			other := t.TempDir()
			for i := range 200 { // the share is of one root
				s.Check(os.WriteFile(filepath.Join(other, fmt.Sprint(i)), nil, 0o644))
			}
			s.Check(s.Repo.AddConfig(t.Context(), kist.KeyBackupPaths, other))
			s.reopen()
			s.Add(stage.AddOptions{})
			s.Check(os.WriteFile(filepath.Join(s.dir, "stays"), nil, 0o644)) // an empty root would be skipped
			for i := range test.remove / 5 {
				s.Check(os.RemoveAll(filepath.Join(s.dir, fmt.Sprint("d", i))))
			}

			_, err := stage.Add(t.Context(), s.Repo, stage.AddOptions{MaxDeleted: test.limit})
			var many *stage.DeletedError
			if got := errors.As(err, &many); got != test.refused || !got && err != nil {
				t.Fatalf("error %v, want refused %v", err, test.refused)
			}
			want := 51 - test.remove
			if test.refused {
				want = 50
				if many.Root != s.root || many.Deleted != test.remove || many.Files != 50 {
					t.Errorf("the error is %+v", many)
				}
			}
			if n := s.staged(); n != want {
				t.Errorf("%d files are staged, want %d", n, want)
			}
		})
	}
}

// Files below a root that is no longer configured do not count as gone.
func TestDeletedLimitWithoutRoot(t *testing.T) {
	s := newSources(t)
	s.Check(s.Repo.SetConfig(t.Context(), kist.KeyBackupPaths, []string{t.TempDir(), strings.TrimSuffix(s.dir, "data") + "none"}))
	s.reopen()
	result := s.Add(stage.AddOptions{MaxDeleted: stage.DeletedLimit{Share: 0.1}})
	if len(result.Deleted) != 50 {
		t.Errorf("%d files are deleted, want 50", len(result.Deleted))
	}
}

// Renamed files do not count as gone, also if a few of them change at the same time.
func TestDeletedLimitOfRename(t *testing.T) {
	s := newSources(t)
	s.Check(os.Mkdir(filepath.Join(s.dir, "new"), 0o755))
	for i := range 10 {
		s.Check(os.Rename(filepath.Join(s.dir, fmt.Sprint("d", i)), filepath.Join(s.dir, "new", fmt.Sprint("d", i))))
	}
	s.Check(os.WriteFile(filepath.Join(s.dir, "new", "d0", "f0"), []byte("changed"), 0o644))

	result := s.Add(stage.AddOptions{MaxDeleted: stage.DeletedLimit{Share: 0.02}})
	if len(result.Deleted) != 50 || result.Added.Len() != 50 {
		t.Errorf("%d files are deleted and %d added, want 50", len(result.Deleted), result.Added.Len())
	}

	s.Check(os.RemoveAll(filepath.Join(s.dir, "new")))
	s.fill("other")
	var many *stage.DeletedError
	if _, err := stage.Add(t.Context(), s.Repo, stage.AddOptions{MaxDeleted: stage.DeletedLimit{Share: 0.5}}); !errors.As(err, &many) || many.Deleted != 50 {
		t.Errorf("error %v, want that 50 files with other content in their place are gone", err)
	}
}

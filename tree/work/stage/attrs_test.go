package stage_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/work/checkout"
	"github.com/kist-vcs/kist/tree/work/commits"
	"github.com/kist-vcs/kist/tree/work/stage"
)

func set(key, value string) func(string, map[string]string) error {
	return func(_ string, attrs map[string]string) error { attrs[key] = value; return nil }
}

// A checkout does not write a file whose attributes alone differ, unless the file itself changed.
func TestCheckoutOfAttrs(t *testing.T) {
	for _, o := range []kist.InitOptions{{}, {Full: true}} {
		s := kisttest.NewWith(t, o)
		file := filepath.Join(s.Dir, "f")
		s.Write("f", "content")
		s.Add(stage.AddOptions{})
		s.Commit("first")
		_, err := stage.EditAttrs(s.Context(), s.Repo, []string{"f"}, set("k", "v"))
		s.Check(err)
		s.Commit("attributes")
		before, err := os.Stat(file)
		s.Check(err)
		s.Check(index.Update(s.Context(), s.Repo.Dir(), func(idx *index.Index) error { // make it not racy
			st := idx.Entry("f").Stat
			st.ReadAt = st.CTime + 2*index.RacyWindow
			idx.SetStat("f", st)
			return nil
		}))
		value := func() string {
			idx, err := s.Repo.Index()
			s.Check(err)
			return idx.Entry("f").Attrs()["k"]
		}

		s.Checkout(checkout.SwitchOptions{Rev: "HEAD~1"})
		if got := value(); got != "" {
			t.Errorf("the old commit has %q, want none", got)
		}
		s.Checkout(checkout.SwitchOptions{Rev: "main"})
		if got := value(); got != "v" {
			t.Errorf("the new commit has %q, want v", got)
		}
		if after, err := os.Stat(file); err != nil || !os.SameFile(before, after) {
			t.Errorf("the checkout wrote the file, or error %v", err)
		}
		if status, err := stage.ReadStatus(s.Context(), s.Repo, stage.StatusOptions{}); err != nil || !status.Clean() {
			t.Errorf("status %+v, error %v", status, err)
		}

		// A forced checkout writes a changed file, even if the commits differ only in its attribute.
		s.Write("f", "changed")
		s.Checkout(checkout.SwitchOptions{Rev: "HEAD~1", Force: true})
		s.Want("f", "content")
		s.Check(os.Remove(file))
		s.Checkout(checkout.SwitchOptions{Rev: "main", Force: true})
		s.Want("f", "content")
		if got := value(); got != "v" {
			t.Errorf("after a forced checkout: %q, want v", got)
		}
	}
}

// After an error, all attributes are unchanged.
func TestEditAttrs(t *testing.T) {
	s := kisttest.New(t)
	s.Write("a", "a")
	s.Write("b", "b")
	s.Add(stage.AddOptions{})
	value := func(path string) string {
		idx, err := s.Repo.Index()
		s.Check(err)
		return idx.Entry(path).Attrs()["k"]
	}

	if _, err := stage.EditAttrs(s.Context(), s.Repo, []string{"a", "no"}, set("k", "v")); !errors.Is(err, kist.ErrNoMatch) {
		t.Errorf("an untracked path: error %v, want ErrNoMatch", err)
	}
	many := func(path string, attrs map[string]string) error {
		attrs["k"] = "v"
		for i := range tree.MaxAttrs {
			if path == "b" {
				attrs[fmt.Sprint(i)] = ""
			}
		}
		return nil
	}
	if _, err := stage.EditAttrs(s.Context(), s.Repo, []string{"a", "b"}, many); !errors.Is(err, tree.ErrAttrs) {
		t.Errorf("too many attributes: error %v, want ErrAttrs", err)
	}
	if got := value("a"); got != "" {
		t.Errorf("a has %q after refused edits", got)
	}
	changed, err := stage.EditAttrs(s.Context(), s.Repo, []string{"a", "b"}, set("k", "v"))
	s.Check(err)
	if len(changed) != 2 || value("a") != "v" || value("b") != "v" {
		t.Errorf("changed %q; a has %q, b has %q", changed, value("a"), value("b"))
	}
	if changed, err = stage.EditAttrs(s.Context(), s.Repo, []string{"a"}, set("k", "v")); err != nil || len(changed) > 0 {
		t.Errorf("changed %q again, error %v", changed, err)
	}
}

// TestRandomAttrs changes files, attributes and paths at random, and switches between the
// commits. Attributes and contents must equal a model of each commit.
func TestRandomAttrs(t *testing.T) {
	type file struct{ text, value string }
	paths := []string{"a", "d/b", "d/e/c", "f"}
	for seed := range uint64(6) {
		r := rand.New(rand.NewPCG(seed, 3))
		s := kisttest.NewWith(t, kist.InitOptions{Full: seed%2 == 0})
		now, dirs := map[string]file{}, map[string]string{}
		type state struct {
			commit string
			files  map[string]file
			dirs   map[string]string
		}
		var states []state

		compare := func() {
			t.Helper()
			idx, err := s.Repo.Index()
			s.Check(err)
			for _, path := range paths {
				e := idx.Entry(path)
				if want, ok := now[path]; ok != (e != nil) {
					t.Fatalf("seed %d: %q is staged: %v, want %v", seed, path, e != nil, ok)
				} else if ok {
					s.Want(path, want.text)
					if got := e.Attrs()["k"]; got != want.value {
						t.Fatalf("seed %d: %q has %q, want %q", seed, path, got, want.value)
					}
				}
			}
			for dir, want := range dirs {
				if got := idx.Dir(dir).Properties().Attrs["k"]; got != want {
					t.Fatalf("seed %d: folder %q has %q, want %q", seed, dir, got, want)
				}
			}
		}

		for range 60 {
			path := paths[r.IntN(len(paths))]
			_, exists := now[path]
			switch r.IntN(5) {
			case 0, 1:
				f := now[path]
				f.text = fmt.Sprint("text ", r.IntN(3))
				s.Write(path, f.text)
				s.Add(stage.AddOptions{})
				now[path] = f
				for dir, _ := tree.Split(path); dir != ""; dir, _ = tree.Split(dir) {
					dirs[dir] += ""
				}
			case 2:
				value := fmt.Sprint(r.IntN(3))
				dir, _ := tree.Split(path)
				_, isDir := dirs[dir]
				switch {
				case isDir && r.IntN(3) == 0:
					_, err := stage.EditAttrs(s.Context(), s.Repo, []string{dir}, set("k", value))
					s.Check(err)
					dirs[dir] = value
				case exists:
					_, err := stage.EditAttrs(s.Context(), s.Repo, []string{path}, set("k", value))
					s.Check(err)
					now[path] = file{now[path].text, value}
				}
			case 3:
				to := paths[r.IntN(len(paths))]
				_, taken := now[to]
				toDir, _ := tree.Split(to)
				_, made := dirs[toDir]
				if !exists || taken || toDir != "" && !made {
					continue
				}
				_, err := checkout.Move(s.Context(), s.Repo, checkout.MoveOptions{Sources: []string{path}, Destination: to})
				s.Check(err)
				now[to] = now[path]
				delete(now, path)
			default:
				if _, err := commits.Commit(s.Context(), s.Repo, commits.CommitOptions{}); err == nil {
					head, err := s.Repo.Refs().Head()
					s.Check(err)
					states = append(states, state{head.ID.String(), maps.Clone(now), maps.Clone(dirs)})
				}
				if len(states) == 0 {
					continue
				}
				to := states[r.IntN(len(states))]
				s.Checkout(checkout.SwitchOptions{Rev: to.commit, Detach: true, Force: r.IntN(2) == 0})
				now, dirs = maps.Clone(to.files), maps.Clone(to.dirs)
			}
			compare()
		}
	}
}

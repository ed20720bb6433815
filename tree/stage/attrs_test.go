package stage_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/checkout"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/stage"
	"github.com/kist-vcs/kist/tree/treetest"
)

func set(key, value string) func(string, map[string]string) error {
	return func(_ string, attrs map[string]string) error { attrs[key] = value; return nil }
}

// TestCheckoutOfAttrs switches between commits that differ in attributes of a file. The file
// is not written, unless it has to be.
func TestCheckoutOfAttrs(t *testing.T) {
	for _, o := range []kist.InitOptions{{}, {Full: true}} {
		s := treetest.NewWith(t, o)
		file := filepath.Join(s.Dir, "f")
		s.Write("f", "content")
		s.Add(stage.AddOptions{})
		s.Commit("first")
		_, err := stage.EditAttrs(s.Context(), s.Repo, []string{"f"}, set("k", "v"))
		s.Check(err)
		s.Commit("attributes")
		before, err := os.Stat(file)
		s.Check(err)
		s.Check(index.Update(s.Context(), s.Repo.Dir(), func(idx *index.Index) error { // it is not racy
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
			t.Errorf("the old commit has %q", got)
		}
		s.Checkout(checkout.SwitchOptions{Rev: "main"})
		if got := value(); got != "v" {
			t.Errorf("the new commit has %q", got)
		}
		if after, err := os.Stat(file); err != nil || !os.SameFile(before, after) {
			t.Errorf("the file was written, error %v", err)
		}
		if status, err := stage.ReadStatus(s.Context(), s.Repo, stage.StatusOptions{}); err != nil || !status.Clean() {
			t.Errorf("status %+v, error %v", status, err)
		}

		// A forced checkout writes a changed file, though only its attribute differs.
		s.Write("f", "changed")
		s.Checkout(checkout.SwitchOptions{Rev: "HEAD~1", Force: true})
		s.Want("f", "content")
		s.Check(os.Remove(file))
		s.Checkout(checkout.SwitchOptions{Rev: "main", Force: true})
		s.Want("f", "content")
		if got := value(); got != "v" {
			t.Errorf("after a forced checkout: %q", got)
		}
	}
}

// TestEditAttrs checks that an error leaves all attributes as they are.
func TestEditAttrs(t *testing.T) {
	s := treetest.New(t)
	s.Write("a", "a")
	s.Write("b", "b")
	s.Add(stage.AddOptions{})
	value := func(path string) string {
		idx, err := s.Repo.Index()
		s.Check(err)
		return idx.Entry(path).Attrs()["k"]
	}

	if _, err := stage.EditAttrs(s.Context(), s.Repo, []string{"a", "no"}, set("k", "v")); !errors.Is(err, kist.ErrNoMatch) {
		t.Errorf("an untracked path: error %v", err)
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
		t.Errorf("too many attributes: error %v", err)
	}
	if got := value("a"); got != "" {
		t.Errorf("a has %q after errors", got)
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

package stage_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree/look/compare"
	"github.com/kist-vcs/kist/tree/work/checkout"
	"github.com/kist-vcs/kist/tree/work/stage"
)

// Each state of a file stands for the commit, the index or the worktree that has it.
func TestSidesOf(t *testing.T) {
	s := kisttest.New(t)
	commit := func(text string) object.ID {
		s.Write("file", text)
		s.Add(stage.AddOptions{})
		return s.Commit(text).ID
	}
	base := commit("the base")
	s.Checkout(checkout.SwitchOptions{Create: "topic"})
	commit("topic")
	s.Checkout(checkout.SwitchOptions{Rev: "main"})
	commit("main")
	s.Write("file", "staged")
	s.Add(stage.AddOptions{})
	s.Write("file", "in the worktree")

	// Each state of the file has another size.
	size := func(side compare.Side) uint64 {
		e, err := side.Find(s.Context(), "file")
		s.Check(err)
		return e.Size
	}
	for _, c := range []struct {
		revs     []string
		staged   bool
		old, new string
	}{
		{nil, false, "staged", "in the worktree"},
		{nil, true, "main", "staged"},
		{[]string{"topic"}, false, "topic", "in the worktree"},
		{[]string{"topic"}, true, "topic", "staged"},
		{[]string{"main", "topic"}, false, "main", "topic"},
		{[]string{"main..topic"}, false, "main", "topic"},
		{[]string{"main...topic"}, false, "the base", "topic"},
		{[]string{"topic^!"}, false, "the base", "topic"},
		{[]string{base.String() + ".."}, false, "the base", "main"},
	} {
		sides, err := stage.SidesOf(s.Context(), s.Repo, stage.SidesOptions{Revs: c.revs, Staged: c.staged})
		s.Check(err)
		if got, want := []uint64{size(sides.Old), size(sides.New)}, []uint64{uint64(len(c.old)), uint64(len(c.new))}; !slices.Equal(got, want) {
			t.Errorf("%q, staged %v: sizes %v, want those of %s and %s", c.revs, c.staged, got, c.old, c.new)
		}
	}
	for _, o := range []stage.SidesOptions{{Revs: []string{"main", "topic", "main"}}, {Revs: []string{"main", "topic"}, Staged: true}} {
		if _, err := stage.SidesOf(s.Context(), s.Repo, o); !errors.Is(err, stage.ErrTooManyRevs) {
			t.Errorf("%+v: error %v, want ErrTooManyRevs", o, err)
		}
	}
}

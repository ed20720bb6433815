package stash_test

import (
	"testing"

	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/tree/work/stage"
	"github.com/kist-vcs/kist/tree/work/stash"
)

// Pop drops a stash only if it was applied without conflicts and is in the list.
func TestPop(t *testing.T) {
	for name, c := range map[string]struct {
		rev            string // "": the newest
		conflict, left bool
	}{
		"clean":           {},
		"conflict":        {conflict: true, left: true},
		"not in the list": {rev: "stash@{0}~0", left: true},
	} {
		s := kisttest.New(t)
		s.Write("a", "one\n")
		s.Add(stage.AddOptions{})
		s.Commit("one")
		s.Write("a", "two\n")
		_, err := stash.Push(s.Context(), s.Repo, stash.PushOptions{})
		s.Check(err)
		if c.conflict {
			s.Write("a", "three\n")
			s.Add(stage.AddOptions{})
			s.Commit("three")
		}
		e, err := stash.Find(s.Context(), s.Repo, c.rev)
		s.Check(err)
		applied, err := stash.Pop(s.Context(), s.Repo, e, stash.ApplyOptions{})
		s.Check(err)
		list, err := stash.List(s.Repo)
		s.Check(err)
		if applied.Dropped == c.left || (len(list) > 0) != c.left || (len(applied.Conflicts) > 0) != c.conflict {
			t.Errorf("%s: %+v, and %d stashes are left", name, applied, len(list))
		}
	}
}

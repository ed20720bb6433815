package checkout_test

import (
	"slices"
	"testing"

	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/tree/work/checkout"
	"github.com/kist-vcs/kist/tree/work/stage"
)

// If paths overlap, Remove returns each removed file once.
func TestRemoveOverlapping(t *testing.T) {
	for _, dryRun := range []bool{true, false} {
		s := kisttest.New(t)
		for _, path := range []string{"a/b", "a/c/d", "a/c/e", "a-", "b"} {
			s.Write(path, path)
		}
		s.Add(stage.AddOptions{})
		s.Commit("first")
		removed, err := checkout.Remove(t.Context(), s.Repo, checkout.RemoveOptions{
			Paths: []string{"a/c/e", "a-", "a", "a/b", "a", "a/c"}, Recursive: true, DryRun: dryRun,
		})
		s.Check(err)
		if want := []string{"a/b", "a/c/d", "a/c/e", "a-"}; !slices.Equal(removed, want) {
			t.Errorf("removed %q, want %q", removed, want)
		}
		for _, path := range []string{"a/b", "a/c/d", "a/c/e", "a-", "a", "b"} {
			if s.Exists(path) != (dryRun || path == "b") {
				t.Errorf("%q exists: %t", path, s.Exists(path))
			}
		}
	}
}

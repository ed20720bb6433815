package kist_test

import (
	"slices"
	"testing"

	"github.com/kist-vcs/kist/tree/checkout"
	"github.com/kist-vcs/kist/tree/stage"
)

// TestRemoveOverlapping removes a folder and what is in it: each path once.
func TestRemoveOverlapping(t *testing.T) {
	for _, dryRun := range []bool{true, false} {
		s := newStager(t)
		for _, path := range []string{"a/b", "a/c/d", "a/c/e", "a-", "b"} {
			s.write(path, path)
		}
		s.add(stage.AddOptions{})
		s.commit("first")
		removed, err := checkout.Remove(t.Context(), s.repo, checkout.RemoveOptions{
			Paths: []string{"a/c/e", "a-", "a", "a/b", "a", "a/c"}, Recursive: true, DryRun: dryRun,
		})
		s.check(err)
		if want := []string{"a/b", "a/c/d", "a/c/e", "a-"}; !slices.Equal(removed, want) {
			t.Errorf("removed %q, want %q", removed, want)
		}
		for _, path := range []string{"a/b", "a/c/d", "a/c/e", "a-", "a", "b"} {
			if s.exists(path) != (dryRun || path == "b") {
				t.Errorf("%q is there: %t", path, s.exists(path))
			}
		}
	}
}

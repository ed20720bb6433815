package checkout_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/tree/look/compare"
	"github.com/kist-vcs/kist/tree/work/checkout"
	"github.com/kist-vcs/kist/tree/work/stage"
	"github.com/kist-vcs/kist/tree/worktree"
)

// Only Verify finds a file that changes after it was written. Symlinks come last, so the file is
// in its place when the progress is complete.
func TestExtractVerify(t *testing.T) {
	s := kisttest.New(t)
	s.Write("file", "some content")
	s.Check(os.Symlink("file", filepath.Join(s.Repo.Root(), "link")))
	s.Add(stage.AddOptions{})
	s.Commit("one")
	source, err := compare.OfCommit(t.Context(), s.Repo, "HEAD")
	s.Check(err)

	for _, verify := range []bool{false, true} {
		out := t.TempDir()
		_, err := checkout.Extract(t.Context(), s.Repo, source, checkout.ExtractOptions{
			Paths: []string{""}, To: out, Verify: verify,
			Progress: func(done, _ kist.Amount) {
				if done.Files == 2 {
					s.Check(os.WriteFile(filepath.Join(out, "file"), []byte("OTHER CONTENT"), 0o666))
				}
			},
		})
		var failed *worktree.ApplyError
		if got := errors.As(err, &failed) && errors.Is(err, checkout.ErrNotVerified); got != verify {
			t.Errorf("Verify is %t: error %v", verify, err)
		}
		if verify && (len(failed.Failed) != 1 || failed.Failed[0].Path != "file") {
			t.Errorf("failed paths are %v, want file", failed.Failed)
		}
	}
}
